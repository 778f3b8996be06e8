"""Every function of the elementwise table, and how operands broadcast."""

from __future__ import annotations

import numpy as np

from simcluster.model.operators.elementwise import FUNCTIONS, Elementwise
from tests.contracts.operator_case import Case, normal

_HIDDEN = ("batch", "seq", "hidden")
_X = (4, 8, 4)
_ONE = frozenset({"one"})
_MASKS = {"where": (0,), "keep": (0,), "drop": (0,), "and": (0, 1), "or": (0, 1), "xor": (0, 1), "not": (0,)}
_POSITIVE = {"div", "div_slope", "reciprocal", "reciprocal_slope", "pow", "pow_slope", "exponent_slope"} | {
    "sqrt",
    "sqrt_slope",
    "log",
}
_EQUAL = {"indicator", "equal"}


def _drawn(name: str, shapes):
    """Arrays for a function: masks where it reads them, positive ones where it needs them."""

    def draw(rng):
        arrays = list(normal(*shapes)(rng))
        if name in _POSITIVE:
            arrays = [np.abs(array) + 0.5 for array in arrays]
        if name in _EQUAL:
            arrays = [np.round(array) for array in arrays]
        for place in _MASKS.get(name, ()):
            arrays[place] = (arrays[place] > 0).astype(np.uint8)
        return tuple(arrays)

    return draw


def _plain(name: str) -> Case:
    """The function of tensors of one shape; what is no tensor in practice is a number."""
    function = FUNCTIONS[name]
    constants = ((1, 0.25),) if name.startswith("leaky_relu") else ()
    count = function.arity - len(constants)
    operator = Elementwise(name, (_HIDDEN,) * count, _HIDDEN, constants)
    return Case(
        f"elementwise {name}", operator, _drawn(name, (_X,) * count), (0,) if any(function.slopes) else None
    )


def _case(title: str, name: str, *operands, constants=(), **more) -> Case:
    """The function of operands with dims of their own; sizes by name."""
    sizes = {"batch": 4, "seq": 8, "hidden": 4, "one": 1}
    shapes = [tuple(sizes[each] for each in names) for names in operands]
    operator = Elementwise(name, tuple(operands), _HIDDEN, constants)
    odd = _ONE if any("one" in names for names in operands) else frozenset()
    return Case(title, operator, _drawn(name, shapes), (0,), odd=odd, **more)


_LAST = ("hidden",)
_COLUMN = ("batch", "seq", "one")

CASES = (
    *map(_plain, FUNCTIONS),
    _case("add of a row", "add", _HIDDEN, _LAST),
    _case("sub of a column", "sub", _HIDDEN, _COLUMN),
    _case("sub from a row", "sub", _LAST, _HIDDEN),
    _case("mul by a column", "mul", _HIDDEN, _COLUMN),
    _case("mul of a column by a row", "mul", _COLUMN, _LAST),
    _case("div by a column", "div", _HIDDEN, _COLUMN),
    _case("maximum with a row", "maximum", _HIDDEN, _LAST),
    _case("where of a mask over all samples", "where", ("seq", "hidden"), _HIDDEN, _LAST),
    _case("add of a number", "add", _HIDDEN, constants=((1, 3.0),)),
    _case("sub from a number", "sub", _HIDDEN, constants=((0, 3.0),)),
    _case("mul by a number", "mul", _HIDDEN, constants=((1, 3.0),)),
    _case("div of a number", "div", _HIDDEN, constants=((0, 3.0),)),
    _case("square", "pow", _HIDDEN, constants=((1, 2.0),)),
    _case("power of a number", "pow", _HIDDEN, constants=((0, 2.0),)),
    _case("maximum with a number", "maximum", _HIDDEN, constants=((1, 0.25),)),
    _case("where with a number", "where", _HIDDEN, _HIDDEN, constants=((2, -9.0),)),
)
