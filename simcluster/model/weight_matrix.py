"""A weight of any number of dims as matrices: what optimizers that work on whole matrices have to know."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Strategy
from simcluster.model.graph import Array, Operator

CLASSES = frozenset({"vocab", "classes"})
"""Dims of outputs that are classes: the weights of an output layer are no hidden matrix."""


@dataclass(frozen=True, slots=True)
class WeightMatrix:
    """Which dims of a weight are a matrix's rows (its outputs) and columns (its inputs).

    Along all other dims lie matrices by themselves, such as those of experts. ``blocks``: in how many parts,
    by dim, a matrix is cut that count as matrices; 1 for all dims of a whole one.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    num_rows: int
    num_columns: int
    blocks: tuple[int, ...]

    @classmethod
    def of(cls, operator: Operator, operand: int, shape: Sequence[int]) -> WeightMatrix | None:
        """How an operator uses its input as a matrix; None if it is none, or that of an output layer.

        A dim is contracted if another input has it and no result does.
        """
        dims = operator.dims()
        names = dims.inputs[operand]
        every = (frozenset(range(len(dims.inputs))),)
        made: set[str] = set()
        met: set[str] = set()
        for result, terms in zip(dims.outputs, dims.terms or (every,) * len(dims.outputs), strict=True):
            for term in (term for term in terms if operand in term):
                made.update(result)
                met.update(name for other in term - {operand} for name in dims.inputs[other])
        if CLASSES.intersection(names) or len(names) != len(shape):
            return None
        columns = tuple(index for index, name in enumerate(names) if name not in made)
        rows = tuple(index for index, name in enumerate(names) if name in made and name not in met)
        if not rows or not columns or any(names[index] not in met for index in columns):
            return None
        num_rows, num_columns = (math.prod(shape[index] for index in part) for part in (rows, columns))
        return cls(rows, columns, num_rows, num_columns, (1,) * len(shape))

    @property
    def whole(self) -> WeightMatrix:
        """The same, not cut."""
        return replace(self, blocks=(1,) * len(self.blocks))

    def in_blocks(self, blocks: Sequence[int]) -> WeightMatrix:
        """The same, cut into so many blocks by dim."""
        inner = (*self.rows, *self.columns)
        return replace(
            self, blocks=tuple(count if index in inner else 1 for index, count in enumerate(blocks))
        )

    @property
    def dim_names(self) -> tuple[str, ...]:
        """What an operator on the weight calls its dims."""
        return tuple(f"dim{index}" for index in range(len(self.blocks)))

    def splits(self, index: int) -> bool:
        """Whether ranks may hold parts along a dim: of matrices side by side, or of blocks."""
        return index not in (*self.rows, *self.columns) or self.blocks[index] > 1

    def strategy(self, split: Sequence[Sequence[str]]) -> Strategy:
        """The axes that may stay of those by which the dims are split."""
        pairs = zip(self.dim_names, split, strict=True)
        return Strategy.of({name: axes for index, (name, axes) in enumerate(pairs) if self.splits(index)})

    def sizes(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """Matrices, rows and columns of a part of the weight that has this shape."""
        rows, columns = (math.prod(shape[index] for index in part) for part in (self.rows, self.columns))
        return math.prod(shape) // max(1, rows * columns), rows, columns

    def pieces(self, shape: Sequence[int]) -> Iterator[tuple[slice, ...]]:
        """Where the blocks of a whole weight lie; the last is shorter where they do not divide a dim."""
        cuts = [
            [slice(first, first + -(-size // count)) for first in range(0, size, -(-size // count))]
            for size, count in zip(shape, self.blocks, strict=True)
        ]
        yield from product(*cuts)

    def taken(self, weight: Array) -> Array:
        """The matrices of a weight, [count, rows, columns]."""
        order = self._order(weight.ndim)
        return weight.transpose(order).reshape(self.sizes(weight.shape))

    def put_back(self, matrices: Array, shape: Sequence[int]) -> Array:
        """A weight of this shape from its matrices."""
        order = self._order(len(shape))
        places = [order.index(index) for index in range(len(shape))]
        return matrices.reshape([shape[index] for index in order]).transpose(places)

    def _order(self, num_dims: int) -> list[int]:
        inner = (*self.rows, *self.columns)
        return [*(index for index in range(num_dims) if index not in inner), *inner]
