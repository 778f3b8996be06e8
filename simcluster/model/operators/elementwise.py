"""Elementwise functions of tensors that broadcast: one operator, and a table of functions.

An entry of the table says what a function gives, in which of its arguments it is linear, and its gradients as
calls of other entries, so that the table is closed under differentiation. Adding a function is adding an
entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    UNIT,
    Array,
    Gradient,
    Labels,
    Operator,
    Region,
    Tape,
    TensorType,
    unit_dims,
)
from simcluster.model.operators.activation import sigmoid, silu
from simcluster.model.operators.reduction import SumTo
from simcluster.work import DType, Kernel, Work

Argument = int | str
"""What a gradient's call reads: an argument's position, ``y`` for the result, ``g`` for its gradient."""

Slope = tuple[str, tuple[Argument, ...]]

THROUGH: Slope = ("", ("g",))
"""The gradient of a term of a sum: that of the sum."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of ``arity`` arguments.

    ``slopes`` are the calls that give the arguments' gradients, None for an argument that has none (ids,
    masks); ``linear`` the sets of arguments in which it is jointly linear; ``result`` is the result's dtype
    where it is not that of the first number; ``division_inputs`` are arguments at whose zeros it may
    be no number even where those in which it is linear are zero. ``flops`` are per element, a transcendental
    function counting as one; the kernel is bound by memory, so they decide no time.
    """

    arity: int
    value: Callable[..., Array]
    slopes: tuple[Slope | None, ...] = ()
    linear: tuple[tuple[int, ...], ...] = ()
    result: DType | None = None
    flops: int = 1
    division_inputs: tuple[int, ...] = ()


def _mask(test: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *arrays: np.asarray(test(*arrays)).astype(np.uint8)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Array) -> Array:
    """The error function, in x's precision."""
    return np.asarray(_erf(x), dtype=x.dtype)


def _normal_density(x: Array) -> Array:
    return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi), dtype=x.dtype)


def _gelu_erf_slope(x: Array, g: Array) -> Array:
    return np.asarray(g * ((1 + erf(x / math.sqrt(2))) / 2 + x * _normal_density(x)))


def _chosen(mask: Array, a: Array, b: Array) -> Array:
    return np.asarray(np.where(mask != 0, a, b))


def _comparison(test: Callable[..., Array]) -> Function:
    return Function(2, _mask(test), (None, None), result=DType.UINT8)


def _linear(
    value: Callable[..., Array],
    arity: int,
    *linear: tuple[int, ...],
    flops: int = 1,
    division_inputs: tuple[int, ...] = (),
) -> Function:
    """A slope: a function that has no gradient here, linear in these arguments."""
    return Function(arity, value, (None,) * arity, linear, flops=flops, division_inputs=division_inputs)


FUNCTIONS: Mapping[str, Function] = {
    # sums and products
    "add": Function(2, np.add, (THROUGH, THROUGH), ((0, 1),)),
    "sub": Function(2, np.subtract, (THROUGH, ("neg", ("g",))), ((0, 1),)),
    "neg": Function(1, np.negative, (("neg", ("g",)),), ((0,),)),
    "mul": Function(2, np.multiply, (("mul", ("g", 1)), ("mul", ("g", 0))), ((0,), (1,))),
    "div": Function(
        2, np.divide, (("div", ("g", 1)), ("div_slope", ("g", "y", 1))), ((0,),), division_inputs=(1,)
    ),
    "div_slope": _linear(lambda g, y, b: -g * y / b, 3, (0,), (1,), flops=3, division_inputs=(2,)),
    "reciprocal": Function(1, np.reciprocal, (("reciprocal_slope", ("y", "g")),)),
    "reciprocal_slope": _linear(lambda y, g: -g * y * y, 2, (1,), flops=3),
    "pow": Function(2, np.power, (("pow_slope", (0, 1, "g")), ("exponent_slope", (0, "y", "g")))),
    "pow_slope": _linear(lambda x, p, g: g * p * np.power(x, p - 1), 3, (2,), flops=4, division_inputs=(0,)),
    "exponent_slope": _linear(
        lambda x, y, g: g * y * np.log(x), 3, (1,), (2,), flops=3, division_inputs=(0,)
    ),
    "sqrt": Function(1, np.sqrt, (("sqrt_slope", ("y", "g")),)),
    "sqrt_slope": _linear(lambda y, g: g / (2 * y), 2, (1,), flops=2, division_inputs=(0,)),
    # exponentials
    "exp": Function(1, np.exp, (("mul", ("g", "y")),)),
    "log": Function(1, np.log, (("div", ("g", 0)),)),
    "sigmoid": Function(1, sigmoid, (("sigmoid_slope", ("y", "g")),), flops=3),
    "sigmoid_slope": _linear(lambda y, g: g * y * (1 - y), 2, (1,), flops=3),
    "softplus": Function(
        1, lambda x: np.logaddexp(x.dtype.type(0), x), (("softplus_slope", (0, "g")),), flops=3
    ),
    "softplus_slope": _linear(lambda x, g: g * sigmoid(x), 2, (1,), flops=4),
    "silu": Function(1, lambda x: silu(x)[0], (("silu_slope", (0, "g")),), flops=4),
    "silu_slope": _linear(lambda x, g: g * silu(x)[1], 2, (1,), flops=6),
    "erf": Function(1, erf, (("erf_slope", (0, "g")),)),
    "erf_slope": _linear(lambda x, g: g * (2 / math.sqrt(math.pi)) * np.exp(-x * x), 2, (1,), flops=4),
    "gelu_erf": Function(
        1, lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, (("gelu_erf_slope", (0, "g")),), flops=5
    ),
    "gelu_erf_slope": _linear(_gelu_erf_slope, 2, (1,), flops=10),
    # choices
    "abs": Function(1, np.abs, (("abs_slope", (0, "g")),)),
    "abs_slope": _linear(lambda x, g: g * np.sign(x), 2, (1,), flops=2),
    "maximum": Function(2, np.maximum, (("where_ge", (0, 1, "g")), ("where_lt", (0, 1, "g")))),
    "minimum": Function(2, np.minimum, (("where_lt", (0, 1, "g")), ("where_ge", (0, 1, "g")))),
    "where_ge": _linear(lambda a, b, g: np.where(a >= b, g, g.dtype.type(0)), 3, (2,), flops=2),
    "where_lt": _linear(lambda a, b, g: np.where(a < b, g, g.dtype.type(0)), 3, (2,), flops=2),
    "leaky_relu": Function(
        2, lambda x, a: np.where(x >= 0, x, a * x), (("leaky_relu_slope", (0, 1, "g")), None)
    ),
    "leaky_relu_slope": _linear(lambda x, a, g: np.where(x >= 0, g, a * g), 3, (2,), flops=2),
    "where": Function(
        3,
        _chosen,
        (None, ("keep", (0, "g")), ("drop", (0, "g"))),
        ((1, 2),),
    ),
    "keep": _linear(lambda mask, g: np.where(mask != 0, g, g.dtype.type(0)), 2, (1,)),
    "drop": _linear(lambda mask, g: np.where(mask != 0, g.dtype.type(0), g), 2, (1,)),
    "indicator": _linear(lambda x, y: (x == y).astype(x.dtype), 2),
    # masks
    "equal": _comparison(np.equal),
    "greater": _comparison(np.greater),
    "greater_equal": _comparison(np.greater_equal),
    "less": _comparison(np.less),
    "less_equal": _comparison(np.less_equal),
    "and": _comparison(np.logical_and),
    "or": _comparison(np.logical_or),
    "xor": _comparison(np.logical_xor),
    "not": Function(1, _mask(np.logical_not), (None,), result=DType.UINT8),
}
"""Every function by name; those called slopes are gradients only."""


@dataclass(frozen=True, slots=True)
class Elementwise(Operator):
    """``function`` of tensors that broadcast to ``result``; ``operands`` names the dims of each tensor.

    An operand has some of the result's dims in the result's order; one of size 1 that is repeated is called
    ``UNIT``, one that it lacks is repeated too. ``constants`` are arguments, by position, that are numbers;
    the tensors are the others in order.
    """

    function: str
    operands: tuple[Labels, ...]
    result: Labels
    constants: tuple[tuple[int, float], ...] = ()

    kind: ClassVar[str] = "elementwise"
    family: ClassVar[str] = "pointwise"
    anywhere: ClassVar[bool] = True

    @property
    def _entry(self) -> Function:
        return FUNCTIONS[self.function]

    @property
    def _places(self) -> tuple[int, ...]:
        """The argument's position of every tensor."""
        numbers = dict(self.constants)
        return tuple(place for place in range(self._entry.arity) if place not in numbers)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The operands' common shape; a mask's dtype or that of the first number."""
        extent = {UNIT: 1}
        for names, tensor in zip(self.operands, inputs, strict=True):
            extent.update(zip(names, tensor.shape, strict=True))
        return (TensorType(tuple(extent[name] for name in self.result), self._dtype(inputs)),)

    def _dtype(self, inputs: Sequence[TensorType]) -> DType:
        numbers = (tensor.dtype for tensor in inputs if tensor.dtype.is_float)
        return self._entry.result or next(numbers, inputs[0].dtype)

    def dims(self) -> Dims:
        """Linear where the function is, unless a number takes part in the sum."""
        places = {place: index for index, place in enumerate(self._places)}
        linear = tuple(
            frozenset(places[place] for place in members)
            for members in self._entry.linear
            if all(place in places for place in members)
        )
        division_inputs = frozenset(places[place] for place in self._entry.division_inputs if place in places)
        whole = unit_dims(*self.operands, self.result)
        return Dims(self.operands, (self.result,), whole, linear, division_inputs=division_inputs)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One elementwise kernel; of masks alone it is priced as of fp32."""
        (made,) = outputs
        dtype = next((operand.dtype for operand in inputs if operand.dtype.is_float), DType.FP32)
        read = sum(tensor.num_bytes for tensor in inputs) + (made.num_bytes if accumulate else 0)
        flops = self._entry.flops * made.num_elements
        return (Work(Kernel.ELEMENTWISE, dtype, flops, read, made.num_bytes),)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """The slopes, each summed over the dims that its operand lacks."""
        if not any(self._entry.slopes):
            raise NotImplementedError(f"{self.kind} has no gradient: {self.function} gives none")
        return tuple(
            self._slope(tape, index, inputs, outputs[0], grad) if tape.needs_gradient(value) else None
            for index, value in enumerate(inputs)
        )

    def _slope(
        self, tape: Tape, index: int, inputs: Sequence[str], output: str, grad: Gradient
    ) -> Gradient | None:
        """The gradient of one operand."""
        place = self._places[index]
        slope = self._entry.slopes[place]
        if slope is None:
            return None
        if slope != THROUGH:
            function, arguments = slope
            known: dict[Argument, tuple[Gradient, Labels]] = {
                "y": (output, self.result),
                "g": (grad, self.result),
            }
            known.update(zip(self._places, zip(inputs, self.operands, strict=True), strict=True))
            read = [known[argument] for argument in arguments if argument in known]
            numbers = dict(self.constants)
            constants = tuple(
                (position, numbers[argument])
                for position, argument in enumerate(arguments)
                if argument in numbers
            )
            if "g" in arguments and isinstance(grad, float) and len(read) == 1:
                # The loss divided by a number, say: the gradient is a number as well.
                return _of_numbers(function, {**dict(constants), arguments.index("g"): grad})
            names = tuple(names for _, names in read)
            operator = Elementwise(function, names, self.result, constants)
            (grad,) = tape.emit(f"d{place}", operator, [value for value, _ in read])
        if self.operands[index] == self.result:
            return grad
        (grad,) = tape.emit(f"sum{place}", SumTo(self.result, self.operands[index]), [grad])
        return grad

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The function of the operands, spread over the dims that they lack."""
        numbers = dict(self.constants)
        kind = next((array.dtype for array in inputs if array.dtype.kind == "f"), inputs[0].dtype)
        tensors = iter(zip(self.operands, inputs, strict=True))
        arguments = [
            kind.type(numbers[place]) if place in numbers else self._spread(*next(tensors))
            for place in range(self._entry.arity)
        ]
        return (np.asarray(self._entry.value(*arguments)),)

    def _spread(self, names: Labels, array: Array) -> Array:
        extent = dict(zip(names, array.shape, strict=True))
        return array.reshape([1 if name == UNIT else extent.get(name, 1) for name in self.result])


def _of_numbers(function: str, arguments: Mapping[int, float]) -> float:
    """A function of numbers, by their places."""
    values = [np.asarray(arguments[place]) for place in range(len(arguments))]
    return float(FUNCTIONS[function].value(*values))
