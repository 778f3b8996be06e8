"""Table lookups: token embeddings and learned positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Gradient,
    Labels,
    Operator,
    Region,
    Reorder,
    Rewrite,
    SparseRows,
    Tape,
    TensorType,
    Zigzag,
    memory_bound,
    token_positions,
    unit_dims,
)
from simcluster.model.operators.sparse_updates import OwnRowGradient, SparseGradient
from simcluster.work import Kernel, Work

_IDS = ("batch", "seq")
_ROWS = ("batch", "seq", "hidden")
_TABLE = ("vocab", "hidden")
_POSITIONS = ("position", "hidden")


def _traffic(rows: TensorType, *others: TensorType, accumulate: bool = False) -> Work:
    """A gather or scatter moves the rows it names, never the whole table."""
    work = memory_bound(Kernel.GATHER_SCATTER, (rows, *others), (rows,), accumulate=accumulate)
    return replace(work, sizes=(("rows", math.prod(rows.shape[:-1])),))


@dataclass(frozen=True, slots=True)
class Embedding(Operator):
    """Rows of a ``table`` [vocab, hidden] for ``ids`` of any dims, such as [batch, seq].

    With the table's rows split, a rank answers only for the ids it holds and gives zeros for the others: the
    result is a partial sum. It reads as many as fall to it in proportion, where it is said how many ``rows``
    the whole table has, and otherwise as many as there are ids.
    """

    ids: Labels = _IDS
    table: Labels = _TABLE
    rows: int | None = None

    kind: ClassVar[str] = "embedding"
    family: ClassVar[str] = "gather"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One row per id, in the table's dtype."""
        ids, table = inputs
        return (TensorType((*ids.shape, table.shape[1]), table.dtype),)

    def dims(self) -> Dims:
        """Linear in the table, whose rows are reduced."""
        rows = (*self.ids, self.table[1])
        return Dims(
            (self.ids, self.table), (rows,), unit_dims(self.ids, self.table), linear=(frozenset({1}),)
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads the rows that are there and writes one per id."""
        work = _traffic(outputs[0], inputs[0])
        if self.rows is None:
            return (work,)
        missing = self.rows - inputs[1].shape[0]
        return (replace(work, bytes_read=work.bytes_read - outputs[0].num_bytes * missing // self.rows),)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """A scatter-add into the table."""
        ids, table = inputs
        if not tape.needs_gradient(table):
            return (None, None)
        (grad,) = tape.emit("wgrad", EmbeddingGrad(self.ids, self.table), [ids, grad, table])
        return (None, grad)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The rows, zeros where another rank holds them."""
        ids, table = inputs
        rows, held = region.local(self.table[0], ids, len(table))
        return (np.where(held[..., None], table[rows], table.dtype.type(0)),)


@dataclass(frozen=True, slots=True)
class EmbeddingGrad(Operator):
    """The table's gradient from ids and the rows' gradients; reads the table for its shape only."""

    ids: Labels = _IDS
    table: Labels = _TABLE

    kind: ClassVar[str] = "embedding_grad"
    family: ClassVar[str] = "gather"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the table."""
        return (inputs[2],)

    def dims(self) -> Dims:
        """Linear in the rows' gradients; the ids' dims are reduced."""
        operands = (self.ids, (*self.ids, self.table[1]), self.table)
        return Dims(operands, (self.table,), unit_dims(self.ids, self.table), linear=(frozenset({1}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads one gradient row per id and adds it to the table."""
        return (_traffic(inputs[1], inputs[0], accumulate=accumulate),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Rows added up where their ids fall."""
        ids, grad, table = inputs
        rows, held = region.local(self.table[0], ids.ravel(), len(table))
        total = np.zeros_like(table)
        np.add.at(total, rows[held], grad.reshape(-1, grad.shape[-1])[held])
        return (total,)

    def rewrite(self, request: Rewrite) -> Operator | None:
        """Ids and rows as they are."""
        if not isinstance(request, SparseRows):
            return None
        if request.split:
            return OwnRowGradient(self.ids, self.table[1])
        return SparseGradient(len(self.ids), self.table[1])


@dataclass(frozen=True, slots=True)
class Positions(Operator):
    """Adds a learned table [position, hidden] to x [batch, seq, hidden].

    Row ``offset`` belongs to the first token (OPT keeps two rows before it).
    """

    offset: int = 0
    order: Zigzag | None = None

    kind: ClassVar[str] = "positions"
    family: ClassVar[str] = "pointwise"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Every rank reads the rows of its own positions from a whole table."""
        whole = (("position", "a rank reads the rows of its part of seq, wherever they are"),)
        return Dims((_ROWS, _POSITIONS), (_ROWS,), unsplittable=whole)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One elementwise kernel; the rows it reads of the table are few."""
        return (memory_bound(Kernel.ELEMENTWISE, inputs[:1], outputs),)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Passes to x; the table's rows get their sums over the batch."""
        table = None
        if tape.needs_gradient(inputs[1]):
            (table,) = tape.emit("wgrad", PositionsGrad(self.offset, self.order), [grad, inputs[1]])
        return (grad, table)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sum."""
        x, table = inputs
        where = self.offset + token_positions(self.order, region.start("seq"), x.shape[1])
        return (x + _rows(table, where),)

    def rewrite(self, request: Rewrite) -> Operator | None:
        """A token gets the row of where it stands."""
        return replace(self, order=request.order) if isinstance(request, Reorder) else None


@dataclass(frozen=True, slots=True)
class PositionRows(Operator):
    """The rows of a learned table [position, hidden] for ids [batch, seq], read for their shape only; or for
    hidden states of tokens if ``of_states``. The first token stands at ``position``.
    """

    order: Zigzag | None = None
    position: int = 0
    of_states: bool = False

    kind: ClassVar[str] = "position_rows"
    family: ClassVar[str] = "gather"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """[batch, seq, hidden] in the table's dtype."""
        ids, table = inputs
        return (TensorType((*ids.shape[:2], table.shape[1]), table.dtype),)

    def dims(self) -> Dims:
        """Linear in the table, of which every rank reads the rows of its own positions."""
        whole = (("position", "a rank reads the rows of its part of seq, wherever they are"),)
        tokens = _ROWS if self.of_states else _IDS
        return Dims((tokens, _POSITIONS), (_ROWS,), unsplittable=whole, linear=(frozenset({1}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads and writes one row per id."""
        return (_traffic(outputs[0], *(() if self.of_states else inputs[:1])),)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """The table's rows get their sums over the batch."""
        if not tape.needs_gradient(inputs[1]):
            return (None, None)
        (table,) = tape.emit("wgrad", PositionsGrad(self.position, self.order), [grad, inputs[1]])
        return (None, table)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The rows of the local positions, once per sequence."""
        ids, table = inputs
        rows = _rows(table, self.position + token_positions(self.order, region.start("seq"), ids.shape[1]))
        return (np.broadcast_to(rows, (len(ids), *rows.shape)).copy(),)

    def rewrite(self, request: Rewrite) -> Operator | None:
        """A token gets the row of where it stands."""
        return replace(self, order=request.order) if isinstance(request, Reorder) else None


@dataclass(frozen=True, slots=True)
class PositionsGrad(Operator):
    """The position table's gradient from dy; reads the table for its shape only."""

    offset: int = 0
    order: Zigzag | None = None

    kind: ClassVar[str] = "positions_grad"
    family: ClassVar[str] = "reduction"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the table."""
        return (inputs[1],)

    def dims(self) -> Dims:
        """Linear in dy; batch and seq are reduced."""
        whole = (("position", "a rank writes the rows of its part of seq, wherever they are"),)
        return Dims((_ROWS, _POSITIONS), (_POSITIONS,), unsplittable=whole, linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One reduction over the batch."""
        return (memory_bound(Kernel.REDUCTION, inputs[:1], outputs, accumulate=accumulate),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Sums over the batch in the rows of the local positions."""
        dy, table = inputs
        total = np.zeros_like(table)
        start, count = region.start("seq"), dy.shape[1]
        where = self.offset + token_positions(self.order, start, count)
        held = where < len(table)
        if self.order is not None:
            held &= start + np.arange(count) < self.order.length
        total[where[held]] += dy[:, held].sum(axis=0)
        return (total,)


def _rows(table: Array, where: Array) -> Array:
    """Rows of the table; the last one again for padding, which may lie beyond it."""
    return np.asarray(table[np.minimum(where, len(table) - 1)])
