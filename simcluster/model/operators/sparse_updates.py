"""Updates of the rows of a table that were looked up, and of no others.

The gradient of a table from its lookups is all zeros but for the rows that were named. It is kept as it
comes: the ids, and a row's gradient for every one of them. An update sums up the rows of equal ids and
changes these rows and their states alone. It looks at the ids of all samples: where these are split, ids and
rows are gathered (what MindSpore's row tensors cost).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Labels, Operator, Region, TensorType, unit_dims
from simcluster.model.operators.optimizer import OptimizerOperator, Update
from simcluster.model.operators.sparse_optimizers import LazyAdam
from simcluster.work import Kernel, Work


def _pairs(rank: int) -> Labels:
    """The dims along which a table was looked up, by names of their own: no strategy splits them."""
    return tuple(f"pairs{index}" for index in range(rank))


class RowGradient(Operator):
    """A table's gradient in sparse form: ids, and a row of gradients for each; a view of what is there."""

    __slots__ = ()

    family: ClassVar[str] = "gather"
    columns: str
    """The dim of a row."""

    @property
    @abstractmethod
    def pairs(self) -> Labels:
        """The dims of the ids."""

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The ids, and the rows."""
        ids, rows = inputs
        return (ids, rows)

    def dims(self) -> Dims:
        """Every pair of id and row by itself."""
        operands = (self.pairs, (*self.pairs, self.columns))
        apart = ((frozenset({0}),), (frozenset({1}),))
        return Dims(operands, operands, unit_dims(*operands), terms=apart)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """None: whoever sums them up reads them where they are."""
        return ()

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The same."""
        return tuple(inputs)


@dataclass(frozen=True, slots=True)
class SparseGradient(RowGradient):
    """A gradient whose ids, with ``rank`` dims, are all samples': no strategy splits it."""

    rank: int = 2
    columns: str = "hidden"

    kind: ClassVar[str] = "row_gradient"

    @property
    def pairs(self) -> Labels:
        """The dims of the ids, by names of their own."""
        return _pairs(self.rank)


@dataclass(frozen=True, slots=True)
class OwnRowGradient(RowGradient):
    """A gradient of those samples that a rank has: it may be split as ``ids`` are."""

    ids: Labels = ("batch", "seq")
    columns: str = "hidden"

    kind: ClassVar[str] = "own_row_gradient"

    @property
    def pairs(self) -> Labels:
        """The dims of the ids."""
        return self.ids


@dataclass(frozen=True, slots=True)
class SparseUpdate(OptimizerOperator):
    """An ``update`` of those rows of a table [vocab, columns] that ids name.

    Inputs are the weights, the gradients of rows [..., columns], their ids [...] and the states; outputs as
    the update's own. ``vocab`` are the rows of the whole table: of a part, as many ids name rows in
    proportion.
    """

    update: Update = field(default_factory=LazyAdam)
    vocab: int = 1
    rank: int = 2

    kind: ClassVar[str] = "row_update"
    family: ClassVar[str] = "gather"
    weights_output: ClassVar[int | None] = 0

    @property
    def _named(self) -> tuple[Labels, Labels]:
        return ("vocab", "columns"), _pairs(self.rank)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """New weights, new states, and the cast weights."""
        weights, grads, _, *states = inputs
        return self.update.infer((weights, grads, *states))

    def dims(self) -> Dims:
        """A part of the table needs all ids, and of the rows what its columns are."""
        table, ids = self._named
        states = (table,) * len(self.update.states)
        outputs = (table, *states, *((table,) if self.update.cast is not None else ()))
        whole = tuple((name, "a row's gradient is the sum over all that looked it up") for name in ids)
        inputs = (table, (*ids, table[1]), ids, *states)
        # What a pair adds reaches rows by their ids, not by where it stands.
        return Dims(inputs, outputs, whole)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads the ids and the rows' gradients once, and those rows of table and states, which it writes.

        At most as many rows as are named here are different; at most as many as there are.
        """
        weights, grads, ids, *states = inputs
        rows, columns = weights.shape
        named = -(-ids.num_elements * rows // self.vocab)
        touched = min(named, rows) * columns
        read = ids.num_bytes + grads.dtype.num_bytes(named * columns)
        read += sum(kind.dtype.num_bytes(touched) for kind in (weights, *states))
        written = sum(kind.dtype.num_bytes(touched) for kind in outputs)
        flops = named * columns + 10 * touched
        sizes = (("rows", named),)
        return (Work(Kernel.OPTIMIZER, weights.dtype, flops, read, written, sizes),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """One step of the rows that are named here; ``region.step`` counts from 1."""
        weights, grads, ids, *states = inputs
        local, held = region.local("vocab", ids.ravel(), len(weights))
        rows, place = np.unique(local[held], return_inverse=True)
        sums = np.zeros((len(rows), weights.shape[1]), dtype=weights.dtype)
        np.add.at(sums, place, grads.reshape(-1, grads.shape[-1])[held])
        before = tuple(state[rows] for state in states)
        made = self.update.step(weights[rows], sums, before, region.step)
        outputs = [array.copy() for array in (weights, *states)]
        for array, new in zip(outputs, made, strict=True):
            array[rows] = new
        if self.update.cast is not None:
            outputs.append(outputs[0].copy())
        return tuple(outputs)
