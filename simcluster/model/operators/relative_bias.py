"""T5's relative positions (arXiv 1910.10683, section 2.1): a bias per head and bucket of distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Gradient,
    MemoryBound,
    MemoryPass,
    Operator,
    Region,
    Reorder,
    Rewrite,
    Tape,
    TensorType,
    memory_bound,
)
from simcluster.work import Kernel, Work

_TABLE = ("buckets", "heads", "group")
_BIAS = ("heads", "group", "seq", "keys")


def buckets(distance: NDArray[Any], count: int, farthest: int, *, both: bool) -> NDArray[Any]:
    """The bucket of every distance (key minus query).

    Half of the buckets hold one distance each, the other half grow logarithmically up to ``farthest``; if a
    query sees ``both`` directions, each has half of all buckets, else later keys share the nearest one.
    """
    first = np.zeros_like(distance)
    if both:
        count //= 2
        first = np.where(distance > 0, count, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = count // 2
    growth = np.log(np.maximum(distance, 1) / exact) / np.log(farthest / exact)
    far = np.minimum(exact + (growth * (count - exact)).astype(distance.dtype), count - 1)
    return first + np.where(distance < exact, distance, far)


@dataclass(frozen=True, slots=True)
class _Relative(MemoryBound):
    """What forward and gradient share: which bucket lies where."""

    queries: int
    keys: int
    buckets: int
    both: bool
    farthest: int = 128

    family: ClassVar[str] = "gather"

    def rewrite(self, request: Rewrite) -> Operator | None:
        """Distances are those of rows and columns as they lie."""
        if isinstance(request, Reorder):
            raise ValueError("relative positions are counted as tokens lie, so these stay in their order")
        return None

    def _buckets(self, region: Region, queries: int, keys: int) -> NDArray[Any]:
        rows = region.start("seq") + np.arange(queries)
        columns = region.start("keys") + np.arange(keys)
        return buckets(columns[None, :] - rows[:, None], self.buckets, self.farthest, both=self.both)


class RelativeBias(_Relative):
    """The bias [heads, group, queries, keys] from a table [buckets, heads, group].

    With the table's rows split, a rank answers only for the buckets it holds: the result is a partial sum.
    """

    kind: ClassVar[str] = "relative_bias"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A number for every head, query and key."""
        _, heads, group = inputs[0].shape
        return (TensorType((heads, group, self.queries, self.keys), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear; buckets are reduced."""
        return Dims((_TABLE,), (_BIAS,), linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads and writes a number per head, query and key."""
        return (memory_bound(Kernel.GATHER_SCATTER, outputs, outputs),)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Sums over all pairs of a bucket."""
        if not tape.needs_gradient(inputs[0]):
            return (None,)
        back = RelativeBiasGrad(self.queries, self.keys, self.buckets, self.both, self.farthest)
        return tape.emit("wgrad", back, [grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The rows of the table where their distances are."""
        (table,) = inputs
        queries, keys = region.size("seq", self.queries), region.size("keys", self.keys)
        local, held = region.local("buckets", self._buckets(region, queries, keys), len(table))
        rows = np.where(held[..., None, None], table[local], table.dtype.type(0))
        return (np.ascontiguousarray(rows.transpose(2, 3, 0, 1)),)


class RelativeBiasGrad(_Relative):
    """The table's gradient from the bias's."""

    kind: ClassVar[str] = "relative_bias_grad"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the table."""
        heads, group = inputs[0].shape[:2]
        return (TensorType((self.buckets, heads, group), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear; queries and keys are reduced."""
        return Dims((_BIAS,), (_TABLE,), linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Pairs added up where their bucket is."""
        (grad,) = inputs
        heads, group, queries, keys = grad.shape
        size = region.size("buckets", self.buckets)
        local, held = region.local("buckets", self._buckets(region, queries, keys).ravel(), size)
        table = np.zeros((size, heads, group), dtype=grad.dtype)
        np.add.at(table, local[held], grad.reshape(heads, group, -1).transpose(2, 0, 1)[held])
        return (table,)
