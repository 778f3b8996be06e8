"""Scenario -> Run: the one composition of plan, Program, engine and documents."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from simcluster.engine import ClassTiming, Progress, Timing, instruction_times, memory, run, spans, waits
from simcluster.engine.spans import InstructionTimes
from simcluster.errors import SimclusterError, TraceError
from simcluster.program import Action
from simcluster.scenario import Scenario
from simcluster.simulation.build import Built, prepare
from simcluster.simulation.documents import documents
from simcluster.trace import Run, Table

MOST_EXPANDED = 2**23
"""Entries of the streams of all classes that tables are made of: 4 GB of spans."""


def simulate(scenario: Scenario, *, unfold: bool = False, progress: Progress | None = None) -> Run:
    """Runs a scenario in time.

    With ``unfold`` every rank is simulated, not one of each class. ``progress`` may be watched from another
    thread. Raises PlanError for an impossible plan and SimulationError for a deadlock; a plan that does not
    fit into memory is a result, not an error.
    """
    began = time.perf_counter()
    built = prepare(scenario, unfold=unfold)
    try:
        timing = timed(built, progress)
    except SimclusterError as error:
        raise scenario.located(error) from None
    tables = Tables(built, timing)
    made = documents(built, timing, tables.memory, tables.waits)
    made["summary"]["wall_s"] = time.perf_counter() - began
    return Run(tables.spans, tables.memory, tables.transfers, tables.waits, made)


@dataclass
class Tables:
    """The tables of a run; of a sweep, whose classes are many, each is made when it is first looked at."""

    built: Built
    timing: Timing

    @cached_property
    def spans(self) -> Table:
        """Every instruction of every class."""
        return self._table(lambda: spans(self.built.program, self._times, self._timings))

    @cached_property
    def transfers(self) -> Table:
        """The spans that move data between devices."""
        return self._table(lambda: _transfers(self.spans))

    @cached_property
    def memory(self) -> Table:
        """Allocations and releases."""
        classes, cluster, program = self.built.classes, self.built.cluster, self.built.program
        stages = [program.stage_of(rank) for rank in classes.representatives]
        devices = [cluster.device(rank) for rank in classes.representatives]
        return self._table(lambda: memory(program, stages, devices, self._timings, self._times))

    @cached_property
    def waits(self) -> Table:
        """Gaps between kernels, with their causes."""
        plan = self.built.plan
        return self._table(lambda: waits(self._timings, self.timing.end, plan.stage_axis, plan.num_stages))

    @cached_property
    def _timings(self) -> list[ClassTiming]:
        if self.timing.swept is not None and self.timing.num_events > MOST_EXPANDED:
            count = len(self.timing.classes)
            raise TraceError(
                f"the tables of {count:,} different ranks do not fit: {self.timing.num_events:,} entries",
                hint="the summary has the figures of all; change fewer devices to look at every span",
            )
        return list(self.timing.classes)

    @cached_property
    def _times(self) -> list[dict[int, InstructionTimes]]:
        return [instruction_times(each) for each in self._timings]

    def _table(self, make: Callable[[], Table]) -> Table:
        return make() if self.timing.swept is None else Table.deferred(make)


def timed(built: Built, progress: Progress | None = None) -> Timing:
    """The engine's run of what was built."""
    return run(
        built.program,
        built.cluster,
        built.classes,
        steps=built.scenario.spec.run.steps,
        dispatch=built.plan.dispatch,
        algorithms=built.plan.algorithms,
        progress=progress,
    )


def _transfers(table: Table) -> Table:
    """The spans that move data between devices."""
    kernels = table.index("kind", str(Action.COMPUTE))
    return table.where(table["kind"] != kernels)
