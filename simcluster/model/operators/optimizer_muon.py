"""Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon; arXiv 2502.16982): momentum made orthogonal.

The momentum of every matrix is replaced by the nearest matrix with equal singular values, as five steps of a
Newton-Schulz iteration give it nearly. All rows of a matrix meet all of its columns in that, so an update is
written as three primitives: the momentum, which goes element by element; the iteration, on whole matrices or
on blocks that count as matrices by themselves; and the step. Parameters that are no matrices (norms, biases,
embeddings, the output layer) are updated by AdamW with the same learning rate and decay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims, Strategy
from simcluster.model.graph import (
    Array,
    Decomposition,
    MemoryPass,
    Region,
    TensorType,
    memory_bound,
)
from simcluster.model.operators.optimizer import AdamW, OptimizerOperator, Update
from simcluster.model.weight_matrix import WeightMatrix
from simcluster.work import DType, GemmLayout, Kernel, Work

_ELEMENTS = ("elements",)

_FAMILY = "muon"
"""Not that of optimizers, whose updates of many parameters can be one launch: here matrix follows matrix."""

QUINTIC = (3.4445, -4.7750, 2.0315)
"""``a X + b (X X^T) X + c (X X^T)^2 X``: the coefficients of the published optimizer."""

LEAST_NORM = 1e-7
"""Matrices with a smaller Frobenius norm are divided by this."""

_SCALINGS = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
    "spectral": lambda rows, columns: math.sqrt(max(rows, columns)),
    "unit_rms_norm": lambda rows, columns: math.sqrt(rows / columns),
}
"""How long a step is, by the rows (outputs) and columns (inputs) of the matrix."""


@dataclass(frozen=True, slots=True)
class Muon(Update):
    """``w - lr (s NS(g + mu m) + wd w)`` with ``m`` the mean of gradients and ``s`` by the matrix's shape.

    ``matrix`` says how the parameter is a matrix; None for the rule of all parameters. ``matrices``:
    ``duplicated`` if ranks that share a matrix all orthogonalise the whole of it, ``blockwise`` if each does
    so with its part.
    """

    nesterov: bool = True
    iterations: int = 5
    scaling: str = "original"
    scale_factor: float = 1.0
    matrices: str = "duplicated"
    matrix: WeightMatrix | None = None

    kind: ClassVar[str] = "muon"
    states: ClassVar[tuple[str, ...]] = ("momentum",)
    in_parts: ClassVar[bool] = True

    @property
    def all_states(self) -> tuple[str, ...]:
        """AdamW's besides."""
        return (*self.states, *AdamW.states)

    @property
    def slope(self) -> float:
        """As AdamW's: a small singular value grows by ``a`` in every iteration."""
        return 1 / self.eps

    def on(self, matrix: WeightMatrix | None) -> Update:
        """The rule itself for a matrix, AdamW for what is none."""
        if matrix is None:
            return AdamW(
                self.learning_rate,
                self.weight_decay,
                self.momentum,
                self.beta1,
                self.beta2,
                self.eps,
                self.cast,
            )
        return replace(self, matrix=matrix if self.matrices == "blockwise" else matrix.whole)

    def matrix_strategy(self, split: Sequence[Sequence[str]]) -> Strategy:
        """Matrices side by side stay split, and those whose blocks count as matrices."""
        return self._matrix.strategy(split)

    def dims(self) -> Dims:
        """Every element depends on all others of its matrix."""
        free = Update.dims(self)
        whole = (("elements", "Muon orthogonalises whole matrices"),)
        return Dims(free.inputs, free.outputs, unsplittable=whole)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """The kernels of its primitives."""
        return self._primitives.work(inputs)

    def step(self, weights: Array, grad: Array, states: tuple[Array, ...], step: int) -> tuple[Array, ...]:
        """The whole algorithm on a whole parameter, block by block."""
        direction, mean = self._momentum.evaluate((grad, *states), Region({}, step))
        update = np.empty_like(direction)
        for block in self._matrix.pieces(direction.shape):
            (update[block],) = self._iteration.evaluate((direction[block],), Region({}, step))
        (made,) = replace(self._step, cast=None).evaluate((weights, update), Region({}, step))
        return made, mean

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """Momentum, iteration and step."""
        return self._primitives if split == {"elements"} else None

    @property
    def _primitives(self) -> Decomposition:
        made = ("out0",) if self.cast is None else ("out0", "out2")
        return Decomposition(
            (
                ("momentum", self._momentum, ("in1", "in2"), ("direction", "out1")),
                ("newton_schulz", self._iteration, ("direction",), ("orthogonal",)),
                ("step", self._step, ("in0", "orthogonal"), made),
            )
        )

    @property
    def _matrix(self) -> WeightMatrix:
        assert self.matrix is not None, "the rule of one parameter knows its matrix"
        return self.matrix

    @property
    def _momentum(self) -> MuonMomentum:
        return MuonMomentum(self.momentum, self.nesterov)

    @property
    def _iteration(self) -> NewtonSchulz:
        return NewtonSchulz(self._matrix, self.iterations)

    @property
    def _step(self) -> MuonStep:
        length = _SCALINGS[self.scaling](self._matrix.num_rows, self._matrix.num_columns) * self.scale_factor
        return MuonStep(self.learning_rate, self.weight_decay, length, self.cast)


@dataclass(frozen=True, slots=True)
class MuonMomentum(OptimizerOperator):
    """Inputs gradient and momentum; outputs the direction, in the gradient's type, and the new momentum."""

    momentum: float
    nesterov: bool

    kind: ClassVar[str] = "muon_momentum"
    family: ClassVar[str] = _FAMILY
    gradient_input: ClassVar[int | None] = 0
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.OPTIMIZER, flops_per_element=6, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the gradient and the momentum."""
        return tuple(inputs)

    def dims(self) -> Dims:
        """Every element for itself."""
        return Dims((_ELEMENTS,) * 2, (_ELEMENTS,) * 2)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The mean moves towards the gradient; Nesterov's direction is a step further."""
        grad, before = inputs
        mean = self.momentum * before + (1 - self.momentum) * grad
        direction = (1 - self.momentum) * grad + self.momentum * mean if self.nesterov else mean.copy()
        return direction, mean


@dataclass(frozen=True, slots=True)
class NewtonSchulz(OptimizerOperator):
    """Matrices, or blocks that ranks hold of them, made nearly orthogonal, in the type that they have."""

    matrix: WeightMatrix
    iterations: int

    kind: ClassVar[str] = "newton_schulz"
    family: ClassVar[str] = _FAMILY

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the direction."""
        return tuple(inputs)

    def dims(self) -> Dims:
        """Matrices side by side may be split; inside of one only where blocks are matrices by themselves."""
        matrix = self.matrix
        names, why = matrix.dim_names, "all rows of a matrix meet all of its columns"
        barred = (name for index, name in enumerate(names) if not matrix.splits(index))
        return Dims((names,), (names,), unsplittable=tuple((name, why) for name in barred))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """For each matrix, m x n with m <= n: norm, cast, three products per iteration in bf16, cast back.

        The products are X X^T, ``b A + c A A`` and ``a X + B X``: 4 m^2 n + 2 m^3 FLOPs.
        """
        count, rows, columns = self.matrix.sizes(inputs[0].shape)
        m, n = min(rows, columns), max(rows, columns)
        x, square = TensorType((m, n), DType.BF16), TensorType((m, m), DType.BF16)
        given, norm = TensorType((m, n), inputs[0].dtype), TensorType((), DType.FP32)
        products = (
            _product((m, m, n), (x,), square, GemmLayout.FORWARD),
            _product((m, m, m), (square,), square, GemmLayout.INPUT_GRADIENT),
            _product((m, n, m), (square, x), x, GemmLayout.INPUT_GRADIENT),
        )
        one = (
            memory_bound(Kernel.REDUCTION, (given,), (norm,)),
            memory_bound(Kernel.ELEMENTWISE, (given, norm), (x,)),
            *products * self.iterations,
            memory_bound(Kernel.ELEMENTWISE, (x,), (given,)),
        )
        return one * count

    def scratch(self, inputs: Sequence[TensorType]) -> int:
        """Of one matrix before and behind a product in bf16, and the two squares that it is made from."""
        _, rows, columns = self.matrix.sizes(inputs[0].shape)
        m, n = min(rows, columns), max(rows, columns)
        return DType.BF16.num_bytes(2 * (m * n + m * m))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The iteration, which has no rounding to bf16 here."""
        (direction,) = inputs
        return (
            self.matrix.put_back(_orthogonal(self.matrix.taken(direction), self.iterations), direction.shape),
        )


def _product(
    sizes: tuple[int, int, int], operands: Sequence[TensorType], made: TensorType, layout: GemmLayout
) -> Work:
    """An m x n product over k whose addend is one of its operands."""
    m, n, k = sizes
    named = (("b", 1), ("m", m), ("n", n), ("k", k), *((("layout", int(layout)),) if layout else ()))
    read = sum(operand.num_bytes for operand in operands)
    return Work(Kernel.GEMM, DType.BF16, 2 * m * n * k, read, made.num_bytes, named)


def _orthogonal(matrices: Array, iterations: int) -> Array:
    """Each of some matrices [count, rows, columns] after the iteration."""
    flat = matrices.shape[1] > matrices.shape[2]
    x = matrices.swapaxes(1, 2) if flat else matrices
    x = x / np.maximum(np.sqrt((x * x).sum(axis=(1, 2), keepdims=True)), LEAST_NORM)
    a, b, c = QUINTIC
    for _ in range(iterations):
        square = x @ x.swapaxes(1, 2)
        x = a * x + (b * square + c * square @ square) @ x
    return np.asarray(x.swapaxes(1, 2) if flat else x)


@dataclass(frozen=True, slots=True)
class MuonStep(OptimizerOperator):
    """The new weights, and their cast in mixed precision, from weights and the orthogonal direction."""

    learning_rate: float
    weight_decay: float
    length: float
    cast: DType | None = None

    kind: ClassVar[str] = "muon_step"
    family: ClassVar[str] = _FAMILY
    weights_output: ClassVar[int | None] = 0
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.OPTIMIZER, flops_per_element=4, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the weights; the cast in its own format."""
        weights = inputs[0]
        return (weights,) if self.cast is None else (weights, TensorType(weights.shape, self.cast))

    def dims(self) -> Dims:
        """Every element for itself."""
        return Dims((_ELEMENTS,) * 2, (_ELEMENTS,) * (1 + (self.cast is not None)))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The decay is apart from the direction."""
        weights, update = inputs
        made = weights - self.learning_rate * (self.length * update + self.weight_decay * weights)
        return (made,) if self.cast is None else (made, made.copy())
