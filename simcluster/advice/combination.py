"""When a change gains something, and how changes that do are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from simcluster.analysis import MemoryVerdict
from simcluster.tuning import Changes, Trial

EQUAL_TIME = 0.005
"""The share of a step by which a difference counts as none: no simulation is as exact as that."""
EQUAL_MEMORY = 0.01
"""The share of a device's memory by which a difference counts as none."""


def rank(trial: Trial) -> tuple[bool, int, int, float]:
    """Less is better: what is possible, what fits or lacks least, then what is fastest."""
    return trial.refused != "", trial.use.verdict.severity, max(0, trial.use.lacking), trial.step


def gains(before: Trial, after: Trial) -> bool:
    """Whether a trial is better than another one: it lacks less memory, takes less time, or needs less memory
    in the same time.
    """
    if after.refused or after.use.verdict.severity > before.use.verdict.severity:
        return False
    room = EQUAL_MEMORY * before.use.capacity
    if before.use.verdict is not MemoryVerdict.FITS:
        if after.fits or after.use.lacking < before.use.lacking - room:
            return True
        if after.use.lacking > before.use.lacking:
            return False
    if after.step < before.step * (1 - EQUAL_TIME):
        return True
    return after.step <= before.step * (1 + EQUAL_TIME) and after.use.needed < before.use.needed - room


def clash(changes: Changes, others: Changes) -> bool:
    """Whether two changes set the same key, or one a part of what the other sets."""
    return any(
        key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.")
        for key, _ in changes
        for other, _ in others
    )


def after(before: Changes, later: Changes) -> Changes:
    """Changes and later ones, without those whose whole key a later one sets."""
    kept = [
        (key, text)
        for key, text in before
        if not any(key == other or key.startswith(f"{other}.") for other, _ in later)
    ]
    return (*kept, *later)


def together(
    present: Trial, trials: Iterable[Trial], run: Callable[[Sequence[str], Changes], Trial]
) -> Trial:
    """The changes of trials put together as long as each gains something, the best first; ``run`` tries some.

    Of a plan that does not fit, what is only faster counts, too: it may help once the plan fits. Gives
    ``present`` where nothing gains.
    """
    lacks = not present.fits
    worth = [trial for trial in trials if gains(present, trial) or (lacks and _faster(present, trial))]
    best = present
    for trial in sorted(worth, key=rank):
        if clash(trial.changes, best.changes):
            continue
        both = trial
        if best.changes:
            both = run((*best.kinds, *trial.kinds), (*best.changes, *trial.changes))
        if gains(best, both):
            best = both
    return best


def _faster(present: Trial, trial: Trial) -> bool:
    return not trial.refused and trial.step < present.step * (1 - EQUAL_TIME)
