"""What is known before the network runs: shapes, indices, masks, computed with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from simcluster.document import Refused
from simcluster.model.graph import Array
from simcluster.model.onnx.onnx_file import FileNode

Fold = Callable[[FileNode, Sequence[Array | None]], Array]

_TYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
"""Element types by their number in the standard."""


_MOST = 2**26
"""Elements of the largest array that is computed beforehand: a mask of 8,192 x 8,192 tokens."""


def _bounded(shape: Sequence[int]) -> Sequence[int]:
    """The shape; Refused if an array of it is too large to be computed beforehand."""
    if (size := math.prod(shape)) > _MOST:
        raise Refused(f"makes an array of {size:,} elements; at most {_MOST:,} are computed beforehand")
    return shape


def _elementwise(function: Callable[..., Any]) -> Fold:
    def fold(node: FileNode, inputs: Sequence[Array | None]) -> Array:
        _bounded(np.broadcast_shapes(*(array.shape for array in inputs if array is not None)))
        return np.asarray(function(*inputs))

    return fold


def _range(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    start, limit, step = (np.asarray(array).item() for array in inputs)
    _bounded([max(0, math.ceil((limit - start) / step))])
    return np.arange(start, limit, step, dtype=_first(inputs).dtype)


def _axes(node: FileNode, inputs: Sequence[Array | None], rank: int) -> tuple[int, ...]:
    """The axes of an operator that has them as an attribute or, since opset 13, as an input."""
    given = inputs[1] if len(inputs) > 1 and inputs[1] is not None else node.attributes.get("axes")
    return tuple(range(rank)) if given is None else tuple(int(axis) % rank for axis in np.ravel(given))


def _squeezed(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    (x, *_) = inputs
    assert x is not None
    given = len(inputs) > 1 or "axes" in node.attributes
    return np.squeeze(x, _axes(node, inputs, x.ndim) if given else None)


def _unsqueezed(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    (x, *_) = inputs
    assert x is not None
    given = inputs[1] if len(inputs) > 1 else node.attributes["axes"]
    return np.expand_dims(x, tuple(int(axis) for axis in np.ravel(np.asarray(given))))


def _sliced(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    x, starts, ends, *rest = inputs
    assert x is not None
    assert starts is not None
    assert ends is not None
    axes = rest[0] if rest and rest[0] is not None else np.arange(len(starts))
    steps = rest[1] if len(rest) > 1 and rest[1] is not None else np.ones(len(starts), dtype=np.int64)
    at = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        at[int(axis)] = slice(int(start), int(end), int(step))
    return x[tuple(at)]


def _constant(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    given = {name: value for name, value in node.attributes.items() if name.startswith("value")}
    ((name, value),) = given.items()
    return np.asarray(value, dtype=np.float32 if name.startswith("value_float") else None)


def _filled(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    value = node.attributes.get("value")
    shape = _bounded([int(size) for size in np.ravel(_first(inputs))])
    return np.broadcast_to(np.float32(0) if value is None else np.ravel(value)[0], shape)


def _reshaped(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    x, target = inputs
    assert x is not None
    assert target is not None
    keeps = not node.attributes.get("allowzero", 0)
    shape = [x.shape[place] if size == 0 and keeps else int(size) for place, size in enumerate(target)]
    return x.reshape(shape)


def _expanded(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    x, target = inputs
    assert x is not None
    assert target is not None
    shape = np.broadcast_shapes(x.shape, tuple(int(size) for size in target))
    return np.broadcast_to(x, _bounded(shape))


def _triangle(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    offset = int(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else 0
    return (np.triu if node.attributes.get("upper", 1) else np.tril)(_first(inputs), offset)


def _cast(node: FileNode, inputs: Sequence[Array | None]) -> Array:
    return _first(inputs).astype(_TYPES[node.attributes["to"]])


def _first(inputs: Sequence[Array | None]) -> Array:
    assert inputs[0] is not None
    return inputs[0]


def _divided(a: Array, b: Array) -> Array:
    """Of integers without remainder, as the standard truncates."""
    return np.asarray(a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype))


FOLDS: Mapping[str, Fold] = {
    "Add": _elementwise(np.add),
    "And": _elementwise(np.logical_and),
    "Cast": _cast,
    "Concat": lambda node, inputs: np.concatenate([np.asarray(x) for x in inputs], node.attributes["axis"]),
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "Div": _elementwise(_divided),
    "Equal": _elementwise(np.equal),
    "Expand": _expanded,
    "Floor": _elementwise(np.floor),
    "Gather": lambda node, inputs: np.take(
        _first(inputs), np.asarray(inputs[1]), axis=node.attributes.get("axis", 0)
    ),
    "Greater": _elementwise(np.greater),
    "GreaterOrEqual": _elementwise(np.greater_equal),
    "Identity": lambda node, inputs: _first(inputs),
    "Less": _elementwise(np.less),
    "LessOrEqual": _elementwise(np.less_equal),
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "Not": _elementwise(np.logical_not),
    "Or": _elementwise(np.logical_or),
    "Pow": _elementwise(np.power),
    "Range": _range,
    "ReduceProd": lambda node, inputs: np.prod(
        _first(inputs),
        axis=_axes(node, inputs, _first(inputs).ndim),
        keepdims=bool(node.attributes.get("keepdims", 1)),
    ),
    "Reciprocal": _elementwise(np.reciprocal),
    "Reshape": _reshaped,
    "Slice": _sliced,
    "Sqrt": _elementwise(np.sqrt),
    "Squeeze": _squeezed,
    "Sub": _elementwise(np.subtract),
    "Transpose": lambda node, inputs: np.transpose(_first(inputs), node.attributes.get("perm")),
    "Trilu": _triangle,
    "Unsqueeze": _unsqueezed,
    "Where": _elementwise(np.where),
}
"""Operators that are computed beforehand where all they read is known; missing inputs are None."""
