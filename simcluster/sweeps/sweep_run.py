"""A sweep while it runs: which points are done, on which executor, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import field
from functools import partial

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimulationError
from simcluster.scenario import Scenario
from simcluster.sweeps.figures import SweepFigure, figures_of
from simcluster.sweeps.point import FAILED, LOST, Row, row_without_figures, run_point
from simcluster.sweeps.ranked_points import RankedPoints
from simcluster.sweeps.result import SweepResult
from simcluster.sweeps.variation import SweepSpace
from simcluster.workers import Failure, Journal, run_all

_DIED = "the process that simulated it died, twice: perhaps this machine has not enough memory for it"


@dataclass
class SweepRun:
    """Points of a space of a scenario, simulated one by one; ``rows`` has by point those that are done.

    What a ``journal`` holds is done already, and what gets done is written there, but for points whose worker
    died or that met a fault of simcluster: those are tried again when the sweep is.
    """

    scenario: Scenario
    space: SweepSpace
    objective: SweepFigure
    journal: Journal | None = None
    rows: dict[int, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.journal is not None:
            self.rows.update(self.journal.kept)

    @property
    def num_left(self) -> int:
        """How many points are to be simulated."""
        return self.space.num_points - len(self.rows)

    def run(self, executor: Executor, watch: Callable[[int], None] | None = None) -> None:
        """Simulates the points that are left; ``watch`` is called with how many are done.

        Raises SimulationError if the executor breaks down; what is done by then is kept.
        """
        left = [point for point in range(self.space.num_points) if point not in self.rows]
        try:
            for number, outcome in run_all(
                partial(run_point, self.scenario), map(self.space.changes, left), executor
            ):
                self._take(left[number], outcome)
                if watch is not None:
                    watch(len(self.rows))
        except BrokenExecutor as error:
            kept = "" if self.journal is None else f" and kept in {self.journal.path}"
            done = f"{len(self.rows)} of {self.space.num_points} points are done{kept}"
            raise SimulationError(f"the executor broke down: {error}", hint=done) from error

    def forget(self) -> None:
        """Deletes the journal, if nothing of the sweep is to be tried again."""
        if self.journal is not None and len(self.journal.kept) == self.space.num_points:
            self.journal.remove()

    def result(self) -> SweepResult:
        """The rows that are there, in the order of points."""
        points = tuple(sorted(self.rows.items(), key=lambda entry: entry[0]))
        figures = figures_of(self.scenario)
        return SweepResult(RankedPoints(self.scenario.name, self.space, self.objective, figures, points))

    def _take(self, point: int, outcome: Row | Failure) -> None:
        if not isinstance(outcome, Failure):
            self.rows[point] = outcome
            if self.journal is not None:
                self.journal.add(point, outcome)
        elif outcome.is_worker_lost:
            self.rows[point] = row_without_figures(LOST, _DIED)
        else:
            fault = f"a fault of simcluster: {type(outcome.error).__name__}: {outcome.error}"
            self.rows[point] = row_without_figures(FAILED, fault)
