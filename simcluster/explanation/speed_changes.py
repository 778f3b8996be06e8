"""Changes that would make a step faster, those about its largest losses first, as many as effort allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simcluster.advice import Tip, changes_to_try
from simcluster.deferred_dataclass import dataclass
from simcluster.explanation.effort import LEFT_OUT
from simcluster.tuning import Changes, OpenKnob, PresentRun, ReasonedKnob, Trials, reasoned_knobs

MOST_TRIALS = 12
"""Changes that are tried at most, unless all are asked for."""


@dataclass(frozen=True, slots=True)
class UntriedChange:
    """A change that the run gives a reason for and nobody tried, and why not."""

    kind: str
    changes: Changes
    why: str


def tried_tips(
    trials: Trials,
    present: PresentRun,
    watch: Callable[[str, int, int], None] | None = None,
    *,
    thorough: bool = False,
) -> tuple[list[Tip], list[UntriedChange]]:
    """The changes that a run gives a reason for: those that were tried, and those left out.

    First of every knob its first turn, the knob about the largest loss first, then the second turns, and so
    on. Changes that would be planned by simulating take long: they are left to ``advise``, and so is what
    ``trials`` leave out. ``thorough``: none is left to it. ``watch`` is called before each with its kind, its
    number, and how many there are at most.
    """
    wanted = _in_order(reasoned_knobs(present))
    most = len(wanted) if thorough else MOST_TRIALS
    tips: list[Tip] = []
    untried: list[UntriedChange] = []
    for reasoned, knob in wanted:
        (changes,) = knob.turns
        if not thorough and plans_by_simulating(changes):
            untried.append(UntriedChange(knob.kind, changes, "it is planned by simulating"))
            continue
        if len(tips) == most:
            untried.append(UntriedChange(knob.kind, changes, f"{most} others were tried"))
            continue
        if watch is not None:
            watch(knob.kind, len(tips) + 1, min(len(wanted), most))
        trial = trials.run((knob.kind,), changes)
        if trial.refused == LEFT_OUT:
            untried.append(UntriedChange(knob.kind, changes, LEFT_OUT))
        else:
            tips.append(Tip(knob.kind, reasoned.why, reasoned.source, trial))
    return tips, untried


def plans_by_simulating(changes: Changes) -> bool:
    """Whether a plan with these changes is itself found by simulating others."""
    return any("search" in text or text == "auto" for _, text in changes)


def untried_text(untried: Sequence[UntriedChange]) -> str:
    """What was not tried, and how it can be."""
    kinds = ", ".join(dict.fromkeys(change.kind for change in untried))
    number = f"{len(untried)} change{'s' * (len(untried) > 1)}"
    return f"Not tried here: {number} ({kinds}). All of them, and together: simcluster advise, or --all."


def _changes_the_mesh(changes: Changes) -> bool:
    """Whether they make it another plan: of knobs about equal losses those come last."""
    return any(key.startswith("parallel.mesh") for key, _ in changes)


def _in_order(reasoned: Sequence[ReasonedKnob]) -> list[tuple[ReasonedKnob, OpenKnob]]:
    """Every turn of every knob, in the order of trials."""
    by_stake = sorted(reasoned, key=lambda entry: (-entry.stake, _changes_the_mesh(entry.knob.turns[0])))
    turns = [(entry, knob) for entry, knob in changes_to_try(by_stake) if not entry.nearest]
    count: dict[str, int] = {}
    numbered = []
    for place, (entry, knob) in enumerate(turns):
        count[knob.kind] = count.get(knob.kind, 0) + 1
        numbered.append((count[knob.kind], place, entry, knob))
    return [(entry, knob) for _, _, entry, knob in sorted(numbered, key=lambda row: row[:2])]
