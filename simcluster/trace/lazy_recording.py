"""The recording of very many classes: each is recorded on request, and not kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import TraceError
from simcluster.number_arrays import Ints
from simcluster.trace.recording import Recording, check_span_count
from simcluster.trace.table import Table


@dataclass(frozen=True)
class LazyRecording:
    """Gives of each class what a ``Recording`` of all would.

    ``record`` makes the recording of some classes; ``alike`` [classes] has for each one that runs the same
    script, with other times; ``end`` is when the last entry of all ended, in nanoseconds. Where ``too_many``
    says so, there is no recording of all of them.
    """

    record: Callable[[Sequence[int]], Recording]
    alike: Ints
    end: int
    too_many: TraceError | None

    def __len__(self) -> int:
        """How many spans there are."""
        return int(self.sizes.sum())

    @property
    def whole(self) -> Recording:
        """The recording of all; TraceError if they are too many."""
        if self.too_many is not None:
            raise self.too_many
        return self._whole

    @cached_property
    def _whole(self) -> Recording:
        return self.record(range(len(self.alike)))

    @cached_property
    def _examples(self) -> tuple[list[int], Ints]:
        values, which = np.unique(self.alike, return_inverse=True)
        return values.tolist(), which.reshape(-1)

    @cached_property
    def _first(self) -> Recording:
        return self.record(self._examples[0])

    @cached_property
    def sizes(self) -> Ints:
        """Spans of every class."""
        return np.asarray(self._first.sizes[self._examples[1]], dtype=np.int64)

    @property
    def operators(self) -> Sequence[str]:
        """The names that numbers in the column ``operator`` of spans stand for."""
        return self._first.operators

    def spans(self, index: int) -> Table:
        """The spans of one class, sorted by start and stream."""
        return self.table([index])

    def table(self, classes: Sequence[int] | None = None) -> Table:
        """The spans of some classes or of all, one class after the other; TraceError if they are too many."""
        if classes is None:
            return self.whole.table()
        check_span_count(len(classes), int(self.sizes[np.array(classes, dtype=np.int64)].sum()))
        # Examples of all scripts come first: so operators have the same numbers whatever is asked for.
        examples = self._examples[0]
        made = self.record([*examples, *classes])
        table = made.table(range(len(examples), len(examples) + len(classes)))
        numbers = np.array(classes, dtype=np.int32)[table["class"] - len(examples)]
        return Table({**table.columns, "class": numbers}, table.names)
