"""What a plan's memory is made of, and the nearest changes with which it would fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from simcluster.analysis import MemoryVerdict
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.trace import Run
from simcluster.tuning import Trial, Trials, nearest_change, open_knobs, trial_from_run


@dataclass(frozen=True)
class Explanation:
    """The run of a plan, what it needs, and, if it does not fit, what was tried.

    ``trials`` hold for each knob the smallest change that fits, or its largest change if none does; then, if
    no knob alone is enough, several together.
    """

    run: Run
    present: Trial
    trials: tuple[Trial, ...]

    @property
    def fitting(self) -> list[Trial]:
        """The trials that fit, the one that leaves most memory first."""
        return sorted((trial for trial in self.trials if trial.fits), key=lambda trial: -trial.use.left)

    @property
    def hopeless(self) -> bool:
        """Whether the plan does not fit, and nothing that was tried would."""
        return self.present.use.verdict is MemoryVerdict.DOES_NOT_FIT and not self.fitting

    @property
    def failing(self) -> list[Trial]:
        """Trials that do not fit: tight ones, those that lack memory (the least first), impossible ones."""
        return sorted((trial for trial in self.trials if not trial.fits), key=lambda trial: trial.nearness)


def explain_scenario(scenario: Scenario, watch: Callable[[Trial], None] | None = None) -> Explanation:
    """Simulates a scenario and, where it does not fit, changes of it; ``watch`` is called with each.

    Raises PlanError for an impossible plan.
    """
    run = simulate(scenario)
    present = trial_from_run((), (), run)
    if present.fits:
        return Explanation(run, present, ())
    trials = Trials(scenario, simulate, watch)
    knobs = open_knobs(scenario, run.documents["plan"])
    alone = {knob.kind: nearest_change(trials, knob) for knob in knobs}
    together = () if any(trial.fits for trial in alone.values()) else _together(trials, alone)
    return Explanation(run, present, (*alone.values(), *together))


def _together(trials: Trials, alone: Mapping[str, Trial]) -> tuple[Trial, ...]:
    """As few knobs as are enough, each as far as it was turned; of those that set the same key, the best.

    All of them come first: if they are not enough, no fewer are.
    """
    best: dict[tuple[str, ...], tuple[str, Trial]] = {}
    for name, trial in alone.items():
        keys = tuple(key for key, _ in trial.changes)
        if not trial.refused and (keys not in best or trial.nearness < best[keys][1].nearness):
            best[keys] = (name, trial)
    able = dict(best.values())
    if len(able) < 2:
        return ()
    every = _tried(trials, tuple(able), able)
    if not every.fits and not every.refused:
        return (every,)
    for count in range(2, len(able)):
        tried = [_tried(trials, names, able) for names in combinations(able, count)]
        if any(trial.fits for trial in tried):
            return tuple(tried)
    return (every,)


def _tried(trials: Trials, names: Sequence[str], able: Mapping[str, Trial]) -> Trial:
    return trials.run(names, tuple(change for name in names for change in able[name].changes))
