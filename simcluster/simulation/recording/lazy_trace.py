"""The recording of a run; of very many classes only of those that are looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from simcluster.analysis import AllocationAccount, find_idle_gaps
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import ClassTiming, Timing
from simcluster.errors import TraceError
from simcluster.program import PlacedProgram
from simcluster.simulation.recording.recorder import record_run
from simcluster.trace import LazyRecording, Recording, Table

MOST_EXPANDED = 2**23
"""Entries of the streams of all classes that are recorded: 200 MB."""


@dataclass
class LazyTrace:
    """The recording and the tables of a run; those of many different classes are made on demand."""

    placed: PlacedProgram
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
    def account(self) -> AllocationAccount:
        """The allocations of every class."""
        return AllocationAccount(self.placed, self.timing)

    @cached_property
    def memory(self) -> Table:
        """Allocations and releases."""
        return self._table(self.account.table, self.account.rows)

    @cached_property
    def waits(self) -> Table:
        """Gaps between kernels, with their causes."""
        return self._table(lambda: self._waits(self._all), self._waits_of_class if self.timing.many else None)

    @property
    def _all(self) -> Sequence[int]:
        return range(len(self.timing.classes))

    def _timings(self, chosen: Sequence[int]) -> list[ClassTiming]:
        return [self.timing.classes[index] for index in chosen]

    def _record(self, chosen: Sequence[int]) -> Recording:
        parts = [self.placed.parts[index] for index in chosen]
        return record_run(self.placed.program, parts, self._timings(chosen))

    def _waits(self, chosen: Sequence[int]) -> Table:
        placed = self.placed
        axis = placed.program.stage_axis
        return find_idle_gaps(self._timings(chosen), self.timing.end, axis, placed.num_stages)

    @property
    def _refusal(self) -> TraceError | None:
        if self.timing.num_events <= MOST_EXPANDED:
            return None
        return TraceError(
            f"the tables of {len(self._all):,} different ranks do not fit: {self.timing.num_events:,} rows",
            hint="name the ranks to look at, as in --ranks 0,17 or spans(ranks=[0, 17])",
        )

    def _waits_of_class(self, index: int) -> Table:
        table = self._waits([index])
        return Table({**table.columns, "class": table["class"] + np.int32(index)}, table.names)

    def _table(self, make: Callable[[], Table], one: Callable[[int], Table] | None) -> Table:
        """A table of all classes; of many different ones they can be too much."""

        def every() -> Table:
            if self.timing.many and self._refusal is not None:
                raise self._refusal
            return make()

        return Table.deferred(every, one)
