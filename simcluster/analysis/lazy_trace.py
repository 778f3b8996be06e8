"""The recording of a run; of very many classes only of those that are looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simcluster.analysis.memory_usage import AllocationAccount
from simcluster.analysis.placed_program import PlacedProgram
from simcluster.analysis.timeline import find_idle_gaps, record_run
from simcluster.engine import ClassTiming, Timing
from simcluster.errors import TraceError
from simcluster.trace import LazyRecording, Recording, Table

MOST_EXPANDED = 2**23
"""Entries of the streams of all classes that are recorded: 200 MB."""


@dataclass
class LazyTrace:
    """The recording and the tables of a run; those of many different classes are made on demand.

    ``num_stages`` are those of the plan: a Program written by hand has programs for stages.
    """

    placed: PlacedProgram
    num_stages: int
    timing: Timing

    @cached_property
    def recording(self) -> Recording | LazyRecording:
        """When everything ran."""
        if not self.timing.many:
            return Recording.deferred(lambda: self._record(self._all))
        first: dict[int, int] = {}
        alike = np.array([first.setdefault(part, index) for index, part in enumerate(self.placed.parts)])
        return LazyRecording(self._record, alike, self.timing.end, self._refusal)

    @cached_property
    def memory(self) -> Table:
        """Allocations and releases."""
        if self.timing.many:
            return self._table(lambda chosen: self._account(chosen).table())
        account = self._account(self._all)
        return Table.deferred(account.table, account.rows)

    @cached_property
    def waits(self) -> Table:
        """Gaps between kernels, with their causes."""
        return self._waits(self._all) if not self.timing.many else self._table(self._waits)

    @property
    def _all(self) -> Sequence[int]:
        return range(len(self.timing.classes))

    def _timings(self, chosen: Sequence[int]) -> list[ClassTiming]:
        return [self.timing.classes[index] for index in chosen]

    def _record(self, chosen: Sequence[int]) -> Recording:
        parts = [self.placed.parts[index] for index in chosen]
        return record_run(self.placed.program, parts, self._timings(chosen))

    def _account(self, chosen: Sequence[int]) -> AllocationAccount:
        placed = self.placed
        parts = [placed.parts[index] for index in chosen]
        devices = [placed.devices[index] for index in chosen]
        return AllocationAccount(placed.program, parts, devices, self._timings(chosen))

    def _waits(self, chosen: Sequence[int]) -> Table:
        axis = self.placed.program.stage_axis
        return find_idle_gaps(self._timings(chosen), self.timing.end, axis, self.num_stages)

    @property
    def _refusal(self) -> TraceError | None:
        if self.timing.num_events <= MOST_EXPANDED:
            return None
        return TraceError(
            f"the tables of {len(self._all):,} different ranks do not fit: {self.timing.num_events:,} rows",
            hint="name the ranks to look at, as in --ranks 0,17 or spans(ranks=[0, 17])",
        )

    def _table(self, make: Callable[[Sequence[int]], Table]) -> Table:
        """A table of many different classes."""

        def every() -> Table:
            if self._refusal is not None:
                raise self._refusal
            return make(self._all)

        def one(index: int) -> Table:
            table = make([index])
            return Table({**table.columns, "class": table["class"] + np.int32(index)}, table.names)

        return Table.deferred(every, one)
