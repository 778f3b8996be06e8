"""A rank's part of a tensor cut into equal chunks along one dim, and chunks put together again.

They launch nothing: kernels read and write chunks where they lie in the whole. They are made behind sharding,
so that they cut what one rank holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.graph import Array, Operator, Region, TensorType, unit_dims
from simcluster.work import Work

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Chunked(Operator):
    """What both share: the dims of the whole, the place of the one that is cut, and into how many chunks.

    With ``runs`` the dim is so many runs one after another, and every chunk has its part of each: as what
    was gathered from the ranks of a group has the parts of all of them.
    """

    labels: Labels
    place: int
    count: int
    runs: int = 1

    family: ClassVar[str] = "copy"

    @property
    def _chunks(self) -> tuple[Labels, ...]:
        """The dims of each chunk: along the dim every one has a name of its own."""
        name = self.labels[self.place]
        return tuple(
            (*self.labels[: self.place], f"{name}.{index}", *self.labels[self.place + 1 :])
            for index in range(self.count)
        )

    @property
    def _whole(self) -> tuple[tuple[str, str], ...]:
        reason = "chunks are cut from what a rank holds"
        names = (self.labels[self.place], *(names[self.place] for names in self._chunks))
        return (*((name, reason) for name in names), *unit_dims(self.labels))

    def _shape(self, whole: Sequence[int]) -> tuple[int, ...]:
        """The shape of the whole with its dim as (runs, chunks, what a chunk has of a run)."""
        runs = (self.runs, self.count, whole[self.place] // (self.runs * self.count))
        return (*whole[: self.place], *runs, *whole[self.place + 1 :])

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Nothing."""
        return ()


class SplitChunks(_Chunked):
    """The chunks of a tensor, in order."""

    __slots__ = ()

    kind: ClassVar[str] = "chunks"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As many chunks, of equal size."""
        (x,) = inputs
        size = x.shape[self.place] // self.count
        shape = (*x.shape[: self.place], size, *x.shape[self.place + 1 :])
        return (TensorType(shape, x.dtype),) * self.count

    def dims(self) -> Dims:
        """Linear."""
        return Dims((self.labels,), self._chunks, self._whole, linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The chunks."""
        (x,) = inputs
        apart = x.reshape(self._shape(x.shape))
        shape = (*x.shape[: self.place], x.shape[self.place] // self.count, *x.shape[self.place + 1 :])
        return tuple(
            np.array(apart.take(index, axis=self.place + 1).reshape(shape)) for index in range(self.count)
        )


class JoinChunks(_Chunked):
    """The tensor of which the inputs are the chunks."""

    __slots__ = ()

    kind: ClassVar[str] = "together"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The whole."""
        shape = list(inputs[0].shape)
        shape[self.place] *= self.count
        return (TensorType(tuple(shape), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Jointly linear in all chunks."""
        every = frozenset(range(self.count))
        return Dims(self._chunks, (self.labels,), self._whole, linear=(every,))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The whole."""
        shape = list(inputs[0].shape)
        shape[self.place] *= self.count
        runs = (*shape[: self.place], self.runs, -1, *shape[self.place + 1 :])
        found = np.stack([each.reshape(runs) for each in inputs], axis=self.place + 1)
        return (found.reshape(shape),)
