"""Elementwise operators of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from simcluster.document import Refused
from simcluster.model.onnx.block_writer import Known, Tensor, Translator, Writer
from simcluster.model.onnx.onnx_file import FileNode
from simcluster.model.operators import Add, Bias, Dropout, Gelu, Relu, Tanh

_SAME = {
    "Abs": "abs",
    "And": "and",
    "Div": "div",
    "Equal": "equal",
    "Erf": "erf",
    "Exp": "exp",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Log": "log",
    "Mul": "mul",
    "Neg": "neg",
    "Not": "not",
    "Or": "or",
    "Pow": "pow",
    "Reciprocal": "reciprocal",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Sqrt": "sqrt",
    "Sub": "sub",
    "Where": "where",
    "Xor": "xor",
}
_FLOATS = (1, 10, 11, 16)
"""The standard's numbers of the floating element types."""


def _function(name: str) -> Translator:
    def translate(writer: Writer, node: FileNode) -> Sequence[Known]:
        return [writer.elementwise(name, [writer.value(value) for value in node.inputs])]

    return translate


def _folded(name: str) -> Translator:
    """Of any number of operands, two at a time."""

    def translate(writer: Writer, node: FileNode) -> Sequence[Known]:
        first, *rest = (writer.value(value) for value in node.inputs)

        def both(left: Known, right: Known) -> Known:
            return writer.elementwise(name, [left, right], suffix=name)

        return [reduce(both, rest, first)]

    return translate


def _add(writer: Writer, node: FileNode) -> Sequence[Known]:
    """A residual, the bias of a projection, or any sum."""
    operands = [writer.value(value) for value in node.inputs]
    left, right = operands
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        if left.shape == right.shape and left.labels == right.labels:
            return [writer.add(Add(left.labels), left, right)]
        for x, bias in ((left, right), (right, left)):
            if bias.name in writer.build.parameters and bias.shape == x.shape[-1:] and x.rank > 1:
                return [writer.add(Bias(x.labels, x.labels[-1:]), x, bias)]
    return [writer.elementwise("add", operands)]


def _of_one(operator: type[Relu] | type[Tanh]) -> Translator:
    def translate(writer: Writer, node: FileNode) -> Sequence[Known]:
        x = writer.tensor(node.inputs[0])
        return [writer.add(operator(x.labels), x)]

    return translate


def _gelu(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    if node.attributes.get("approximate", "none") == "tanh":
        return [writer.add(Gelu(x.labels), x)]
    return [writer.elementwise("gelu_erf", [x])]


def _leaky(writer: Writer, node: FileNode) -> Sequence[Known]:
    slope = np.asarray(node.attributes.get("alpha", 0.01))
    return [writer.elementwise("leaky_relu", [writer.value(node.inputs[0]), slope])]


def _clip(writer: Writer, node: FileNode) -> Sequence[Known]:
    clipped = writer.value(node.inputs[0])
    for index, name, function in ((1, "min", "maximum"), (2, "max", "minimum")):
        bound = writer.array(node, index, "bounds")
        if bound is None and name in node.attributes:
            bound = np.asarray(node.attributes[name])
        if bound is not None:
            clipped = writer.elementwise(function, [clipped, bound], suffix=name)
    return [clipped]


def _cast(writer: Writer, node: FileNode) -> Sequence[Known]:
    """Between numbers nothing: the scenario decides the format of all activations."""
    x = writer.tensor(node.inputs[0])
    if x.type.dtype.is_float and node.attributes["to"] in _FLOATS:
        return [x]
    raise Refused(f"a cast of {x.type.dtype} that is computed in the network")


def _dropout(writer: Writer, node: FileNode) -> Sequence[Known]:
    """Dropout where the file trains, else nothing, as the standard says."""
    x = writer.tensor(node.inputs[0])
    rate, trains = writer.array(node, 1, "rate"), writer.array(node, 2, "mode")
    share = 0.5 if rate is None else float(rate)
    if trains is None or not bool(trains) or not share:
        return [x]
    return writer.adds(Dropout(x.labels, share, writer.stem), x)


def _same(writer: Writer, node: FileNode) -> Sequence[Known]:
    return [writer.value(node.inputs[0])]


POINTWISE: Mapping[str, Translator] = {
    **{op: _function(name) for op, name in _SAME.items()},
    "Add": _add,
    "Cast": _cast,
    "Clip": _clip,
    "Dropout": _dropout,
    "Gelu": _gelu,
    "Identity": _same,
    "LeakyRelu": _leaky,
    "Max": _folded("maximum"),
    "Min": _folded("minimum"),
    "Relu": _of_one(Relu),
    "Sum": _folded("add"),
    "Tanh": _of_one(Tanh),
}
