"""Trials of tips on the workers of an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.tuning import Changes, OpenKnob, Trial, Trials, nearest_change
from simcluster.workers import Failure, run_all

_LOST = "the process that simulated it died: out of memory, or stopped by a signal"


@dataclass(frozen=True, slots=True)
class TipTask:
    """A trial to be made: a turn of a knob, or, with ``nearest``, the smallest of its turns that fits."""

    scenario: Scenario
    knob: OpenKnob
    nearest: bool = False


def try_tip(task: TipTask) -> Trial:
    """The trial of a task; simulates as often as it takes to find the nearest turn."""
    trials = Trials(task.scenario, simulate)
    if task.nearest:
        return nearest_change(trials, task.knob)
    (changes,) = task.knob.turns
    return trials.run((task.knob.kind,), changes)


@dataclass
class TipTrials:
    """Trials of changes of one scenario; ``watch`` is called with how many have ended."""

    scenario: Scenario
    executor: Executor
    watch: Callable[[int], None] = lambda number: None
    _ended: int = field(default=0, init=False)

    def run_all(self, tasks: Iterable[tuple[OpenKnob, bool]]) -> list[Trial]:
        """The trials of knobs with one turn, or whose nearest turn is wanted, in their order.

        Raises what is no fault of the changes. A trial whose worker died twice is a refused one.
        """
        wanted = [TipTask(self.scenario, knob, nearest) for knob, nearest in tasks]
        trials: dict[int, Trial] = {}
        for index, outcome in run_all(try_tip, wanted, self.executor):
            trials[index] = self._trial(wanted[index], outcome)
            self._ended += 1
            self.watch(self._ended)
        return [trials[index] for index in range(len(wanted))]

    def run(self, kinds: Sequence[str], changes: Changes) -> Trial:
        """The trial of some changes together."""
        (trial,) = self.run_all([(OpenKnob(", ".join(kinds), (changes,)), False)])
        return Trial(tuple(kinds), changes, trial.step, trial.use, trial.refused)

    def _trial(self, task: TipTask, outcome: Trial | Failure) -> Trial:
        if not isinstance(outcome, Failure):
            return outcome
        if not outcome.is_worker_lost:
            raise outcome.error
        return Trial((task.knob.kind,), task.knob.turns[-1], refused=_LOST)
