"""Matrix products over any number of leading dims.

One operator computes several products at once where they share an operand or a result: a *fan-out*
``y_i = x @ w_i`` (queries, keys and values; gate and up) is one GEMM with the columns side by side, a
*fan-in* ``x = sum_i y_i @ w_i`` one GEMM with the rows stacked. The gradient of a fan-out is a fan-in and a
fan-out, so the pair is closed under differentiation.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Gradient,
    Labels,
    Narrow,
    Operator,
    Region,
    Rewrite,
    Tape,
    TensorType,
)
from simcluster.model.operators.contraction import contract
from simcluster.work import DType, GemmLayout, Kernel, Work


@dataclass(frozen=True, slots=True)
class _Sizes:
    """A product as batched GEMM: b independent (m x k) @ (k x n)."""

    b: int
    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        return 2 * self.b * self.m * self.n * self.k


def _sizes(left: Labels, right: Labels, result: Labels, extent: dict[str, int]) -> _Sizes:
    def product(names: Sequence[str]) -> int:
        return math.prod(extent[name] for name in names)

    return _Sizes(
        b=product([name for name in result if name in left and name in right]),
        m=product([name for name in left if name in result and name not in right]),
        n=product([name for name in right if name in result and name not in left]),
        k=product([name for name in left if name in right and name not in result]),
    )


def _contract(left: Labels, right: Labels, result: Labels, a: Array, b: Array) -> Array:
    return contract(_spec(left, right, result), a, b)


@lru_cache(maxsize=4096)
def _spec(left: Labels, right: Labels, result: Labels) -> str:
    """Labels as letters, in einsum's way."""
    letters = dict(zip(dict.fromkeys(left + right), string.ascii_letters, strict=False))
    one, other, made = ("".join(letters[name] for name in names) for names in (left, right, result))
    return f"{one},{other}->{made}"


@dataclass(frozen=True, slots=True)
class Matmul(Operator):
    """``y_i = x @ w_i`` for one or more weights; inputs ``x, w_1 .. w_n``, outputs ``y_1 .. y_n``.

    ``left`` names the dims of x; ``rights`` and ``results`` those of each weight and result. Dims of x and
    of a weight that its result lacks are contracted. Results have the dtype of x, or ``result_dtype``.
    ``layout``: how its operands lie. ``grouped``: its batch is groups of rows, of experts for example, whose
    products libraries compute one by one.
    """

    left: Labels
    rights: tuple[Labels, ...]
    results: tuple[Labels, ...]
    result_dtype: DType | None = None
    layout: GemmLayout = GemmLayout.FORWARD
    grouped: bool = False

    kind: ClassVar[str] = "matmul"
    family: ClassVar[str] = "matmul"
    anywhere: ClassVar[bool] = True

    def _extent(self, inputs: Sequence[TensorType]) -> dict[str, int]:
        extent = dict(zip(self.left, inputs[0].shape, strict=True))
        for names, tensor in zip(self.rights, inputs[1:], strict=True):
            extent.update(zip(names, tensor.shape, strict=True))
        return extent

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One result per weight, in the dtype of x unless another one is set."""
        extent = self._extent(inputs)
        dtype = self.result_dtype or inputs[0].dtype
        return tuple(TensorType(tuple(extent[name] for name in names), dtype) for names in self.results)

    def dims(self) -> Dims:
        """Linear in x, and jointly in the weights; a result knows nothing of the other weights."""
        weights = range(1, 1 + len(self.rights))
        return Dims(
            (self.left, *self.rights),
            self.results,
            linear=(frozenset({0}), frozenset(weights)),
            terms=tuple((frozenset({0, index}),) for index in weights),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One GEMM with the results' columns side by side."""
        extent = self._extent(inputs)
        parts = [
            _sizes(self.left, right, result, extent)
            for right, result in zip(self.rights, self.results, strict=True)
        ]
        first = parts[0]
        sizes = _Sizes(first.b, first.m, sum(part.n for part in parts), first.k)
        return (_gemm(sizes, inputs, outputs, accumulate, self.layout, self.grouped),)

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """``dx`` as a fan-in over the results that have gradients; every ``dw_i`` as one fan-out."""
        x, weights = inputs[0], inputs[1:]
        live = [index for index, grad in enumerate(grads) if grad is not None]
        gradients: list[str | None] = [None] * len(inputs)
        if live and tape.needs_gradient(x):
            dgrad = MatmulSum(
                tuple(self.results[i] for i in live),
                tuple(self.rights[i] for i in live),
                self.left,
                grouped=self.grouped,
            )
            operands = [str(grads[i]) for i in live] + [weights[i] for i in live]
            (gradients[0],) = tape.emit("dgrad", dgrad, operands)
        wanted = [i for i in live if tape.needs_gradient(weights[i])]
        if wanted:
            wgrad = Matmul(
                self.left,
                tuple(self.results[i] for i in wanted),
                tuple(self.rights[i] for i in wanted),
                layout=GemmLayout.WEIGHT_GRADIENT,
                grouped=self.grouped,
            )
            made = tape.emit("wgrad", wgrad, [x, *(str(grads[i]) for i in wanted)])
            for i, name in zip(wanted, made, strict=True):
                gradients[1 + i] = name
        return tuple(gradients)

    def rewrite(self, request: Rewrite) -> Operator | None:
        """Matrix units multiply narrow operands and add in fp32; what they write may be of any format."""
        return replace(self, result_dtype=request.result) if isinstance(request, Narrow) else None

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Each product."""
        terms = zip(self.rights, inputs[1:], self.results, strict=True)
        return tuple(_contract(self.left, names, result, inputs[0], array) for names, array, result in terms)


@dataclass(frozen=True, slots=True)
class MatmulSum(Operator):
    """``x = sum_i y_i @ w_i``; inputs ``y_1 .. y_n, w_1 .. w_n``, output x.

    It has the dtype of y_1, or ``result_dtype``. It is the gradient of a ``Matmul`` by its input.
    """

    lefts: tuple[Labels, ...]
    rights: tuple[Labels, ...]
    result: Labels
    result_dtype: DType | None = None
    grouped: bool = False

    kind: ClassVar[str] = "matmul_sum"
    family: ClassVar[str] = "matmul"
    anywhere: ClassVar[bool] = True

    def _extents(self, inputs: Sequence[TensorType]) -> list[dict[str, int]]:
        count = len(self.lefts)
        pairs = zip(self.lefts, self.rights, inputs[:count], inputs[count:], strict=True)
        return [
            dict(zip(left, y.shape, strict=True)) | dict(zip(right, w.shape, strict=True))
            for left, right, y, w in pairs
        ]

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The sum, in the dtype of the first operand unless another one is set."""
        extent = self._extents(inputs)[0]
        dtype = self.result_dtype or inputs[0].dtype
        return (TensorType(tuple(extent[name] for name in self.result), dtype),)

    def dims(self) -> Dims:
        """Jointly linear in the left operands, and in the right ones."""
        count = len(self.lefts)
        linear = (frozenset(range(count)), frozenset(range(count, 2 * count)))
        terms = tuple(frozenset({index, count + index}) for index in range(count))
        return Dims((*self.lefts, *self.rights), (self.result,), linear=linear, terms=(terms,))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One GEMM with the contracted dims stacked."""
        extents = self._extents(inputs)
        parts = [
            _sizes(left, right, self.result, extent)
            for left, right, extent in zip(self.lefts, self.rights, extents, strict=True)
        ]
        first = parts[0]
        sizes = _Sizes(first.b, first.m, first.n, sum(part.k for part in parts))
        return (_gemm(sizes, inputs, outputs, accumulate, GemmLayout.INPUT_GRADIENT, self.grouped),)

    def rewrite(self, request: Rewrite) -> Operator | None:
        """As the products it is a sum of."""
        return replace(self, result_dtype=request.result) if isinstance(request, Narrow) else None

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sum of the products."""
        count = len(self.lefts)
        operands = zip(self.lefts, self.rights, inputs[:count], inputs[count:], strict=True)
        terms = [_contract(left, right, self.result, y, w) for left, right, y, w in operands]
        return (np.asarray(sum(terms[1:], terms[0])),)


def _gemm(
    sizes: _Sizes,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    accumulate: bool,
    layout: GemmLayout,
    grouped: bool,
) -> Work:
    written = sum(tensor.num_bytes for tensor in outputs)
    return Work(
        Kernel.GEMM,
        inputs[0].dtype,
        flops=sizes.flops,
        bytes_read=sum(tensor.num_bytes for tensor in inputs) + (written if accumulate else 0),
        bytes_written=written,
        sizes=(
            ("b", sizes.b),
            ("m", sizes.m),
            ("n", sizes.n),
            ("k", sizes.k),
            *((("layout", int(layout)),) if layout else ()),
            *((("grouped", 1),) if grouped else ()),
        ),
    )
