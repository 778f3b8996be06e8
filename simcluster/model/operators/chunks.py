"""A rank's part of a tensor cut into equal chunks along one dim, and chunks put together again.

They launch nothing: kernels read and write chunks where they lie in the whole. They are made behind sharding,
so that they cut what one rank holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Labels, Region, TensorType
from simcluster.model.operators.view import View, resized
from simcluster.work import Work


@dataclass(frozen=True, slots=True)
class _Chunked(View):
    """What both share: the dims of the whole, the place of the one that is cut, and into how many chunks.

    With ``runs`` the dim is so many runs one after another, and every chunk has its part of each: as what
    was gathered from the ranks of a group has the parts of all of them.
    """

    place: int
    count: int
    runs: int = 1

    @property
    def _chunks(self) -> tuple[Labels, ...]:
        return self.part_labels(self.place, self.count)

    @property
    def _whole(self) -> tuple[tuple[str, str], ...]:
        names = (self.labels[self.place], *(names[self.place] for names in self._chunks))
        return self.unsplittable("chunks are cut from what a rank holds", *names)

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

    kind: ClassVar[str] = "chunks"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As many chunks, of equal size."""
        shape = inputs[0].shape
        chunk = resized(shape, self.place, shape[self.place] // self.count)
        return (TensorType(chunk, inputs[0].dtype),) * self.count

    def dims(self) -> Dims:
        """Linear."""
        return Dims((self.labels,), self._chunks, self._whole, linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The chunks."""
        (x,) = inputs
        apart = x.reshape(self._shape(x.shape))
        shape = resized(x.shape, self.place, x.shape[self.place] // self.count)
        return tuple(
            np.array(apart.take(index, axis=self.place + 1).reshape(shape)) for index in range(self.count)
        )


class JoinChunks(_Chunked):
    """The tensor of which the inputs are the chunks."""

    kind: ClassVar[str] = "together"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The whole."""
        return (TensorType(self._joined(inputs[0].shape), inputs[0].dtype),)

    def _joined(self, chunk: tuple[int, ...]) -> tuple[int, ...]:
        return resized(chunk, self.place, chunk[self.place] * self.count)

    def dims(self) -> Dims:
        """Jointly linear in all chunks."""
        return Dims(self._chunks, (self.labels,), self._whole, linear=(frozenset(range(self.count)),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The whole."""
        shape = self._joined(inputs[0].shape)
        runs = (*shape[: self.place], self.runs, -1, *shape[self.place + 1 :])
        stacked = np.stack([chunk.reshape(runs) for chunk in inputs], axis=self.place + 1)
        return (stacked.reshape(shape),)
