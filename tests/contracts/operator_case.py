"""What the contract of operators needs to know of one case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from simcluster.model import Array, Operator, Region, TensorType
from simcluster.work import DType

WHOLE = Region({}, step=3)

Draw = Callable[[np.random.Generator], "tuple[Array, ...]"]


@dataclass(frozen=True)
class Case:
    """An operator with whole inputs, and what is deliberately not declared about it.

    ``live`` are the outputs whose gradients the gradient is recorded for, or None if the kind has no
    gradient; ``loss`` says that its output is the loss. ``unsplit`` gives the reason for every dim declared
    whole although a split of it would compute the right values, ``nonlinear`` for every set of inputs in
    which the operator is jointly linear though it does not say so. ``reads_part`` and ``writes_part`` are
    inputs and outputs that a kernel touches only in places, ``read_again`` those of them of which ranks that
    hold the same read the same places; ``odd`` dims have no size that divides,
    ``resized`` ones another size in another operand. ``untrained`` inputs are numbers that only decide
    something: they have no gradient. ``views``: it launches nothing and moves nothing; ``handed_on``: nor
    where its results are accumulated, because there is only one term.
    """

    name: str
    operator: Operator
    draw: Draw
    live: tuple[int, ...] | None = None
    loss: bool = False
    unsplit: Mapping[str, str] = field(default_factory=dict)
    nonlinear: Mapping[frozenset[int], str] = field(default_factory=dict)
    reads_part: frozenset[int] = frozenset()
    read_again: frozenset[int] = frozenset()
    writes_part: frozenset[int] = frozenset()
    odd: frozenset[str] = frozenset()
    resized: frozenset[str] = frozenset()
    untrained: frozenset[int] = frozenset()
    views: bool = False
    handed_on: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The whole inputs, the same at every call; nobody may write into them."""
        arrays = self.draw(np.random.default_rng(7))
        for array in arrays:
            array.flags.writeable = False
        return arrays

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The logical types of the inputs."""
        return tuple(map(type_of, self.inputs))

    @property
    def floating(self) -> tuple[int, ...]:
        """The inputs that hold numbers, not ids."""
        return tuple(index for index, kind in enumerate(self.types) if kind.dtype.is_float)


def type_of(array: Array) -> TensorType:
    """The type an array stands for."""
    if array.dtype == np.int32:
        return TensorType(array.shape, DType.INT32)
    return TensorType(array.shape, {"f": DType.FP32, "u": DType.UINT8}.get(array.dtype.kind, DType.INT64))


def normal(*shapes: tuple[int, ...]) -> Draw:
    """Standard normal arrays of these shapes."""
    return lambda rng: tuple(np.asarray(rng.standard_normal(shape)) for shape in shapes)


def ids_and(shape: tuple[int, ...], below: int, *shapes: tuple[int, ...]) -> Draw:
    """Ids first, then normal arrays."""
    return lambda rng: (rng.integers(0, below, shape), *(rng.standard_normal(each) for each in shapes))
