"""Products, norms, softmax, reductions and lookups of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from simcluster.document import Refused
from simcluster.model.graph import UNIT, Labels
from simcluster.model.onnx.block_writer import BATCH, Known, Tensor, Translator, Writer, axis_of
from simcluster.model.onnx.onnx_file import FileNode
from simcluster.model.operators import (
    Bias,
    Embedding,
    Extreme,
    LayerNorm,
    Matmul,
    OneHot,
    SoftmaxOver,
    SumTo,
    TopK,
)
from simcluster.work import DType


def _matmul(writer: Writer, node: FileNode) -> Sequence[Known]:
    left, right = map(writer.tensor, node.inputs)
    if min(left.rank, right.rank) < 2:
        raise Refused("a product with a vector")
    if left.shape[-1] != right.shape[-2]:
        raise Refused(f"{list(left.shape)} by {list(right.shape)}: {left.shape[-1]} is not {right.shape[-2]}")
    if left.batch == left.rank - 1 or right.batch == right.rank - 2:
        raise Refused("adds up over the dim of samples")
    leading = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    lead = writer.broadcast([_leading(left), _leading(right)], leading)
    for operand in (left, right):
        own = operand.shape[:-2]
        if own != leading[len(leading) - len(own) :]:
            raise Refused(f"{list(left.shape)} by {list(right.shape)}: matrices that are repeated over a dim")
    rows = BATCH if left.batch == left.rank - 2 else "rows"
    columns = BATCH if right.batch == right.rank - 1 else "out"
    names = (
        (*lead[len(lead) - left.rank + 2 :], rows, "in"),
        (*lead[len(lead) - right.rank + 2 :], "in", columns),
        (*lead, rows, columns),
    )
    return [_product(writer, left, right, *names)]


def _leading(x: Tensor) -> Tensor:
    """The dims before those of the matrices."""
    batch = x.batch if x.batch is not None and x.batch < x.rank - 2 else None
    return Tensor(x.name, type(x.type)(x.shape[:-2], x.type.dtype), batch)


def _product(
    writer: Writer, left: Tensor, right: Tensor, rows: Labels, columns: Labels, result: Labels
) -> Tensor:
    if result.count(BATCH) > 1:
        raise Refused("combines every sample with every other")
    return writer.add(Matmul(rows, (columns,), (result,)), left, right)


def _gemm(writer: Writer, node: FileNode) -> Sequence[Known]:
    given = node.attributes
    left, right = (writer.tensor(name) for name in node.inputs[:2])
    across, along = (1, 0) if given.get("transA") else (0, 1)
    if left.batch == along:
        raise Refused("adds up over the dim of samples")
    rows = BATCH if left.batch == across else "rows"
    names = ("in", rows) if given.get("transA") else (rows, "in")
    columns = ("out", "in") if given.get("transB") else ("in", "out")
    made = _product(writer, left, right, names, columns, (rows, "out"))
    if given.get("alpha", 1.0) != 1.0:
        made = writer.elementwise("mul", [made, np.asarray(given["alpha"])], suffix="alpha")
    if len(node.inputs) < 3 or not node.inputs[2]:
        return [made]
    added = writer.value(node.inputs[2])
    if given.get("beta", 1.0) != 1.0:
        added = writer.elementwise("mul", [added, np.asarray(given["beta"])], suffix="beta")
    if isinstance(added, Tensor) and added.shape == made.shape[-1:]:
        return [writer.add(Bias(made.labels, made.labels[-1:]), made, added, suffix="bias")]
    return [writer.elementwise("add", [made, added], suffix="bias")]


def _softmax(*, log: bool) -> Translator:
    def translate(writer: Writer, node: FileNode) -> Sequence[Known]:
        x = writer.tensor(node.inputs[0])
        axis = axis_of(node, x, -1)
        writer.no_samples(x, (axis,), "a softmax over")
        return [writer.add(SoftmaxOver(x.labels, x.labels[axis], log), x)]

    return translate


def _layer_norm(writer: Writer, node: FileNode) -> Sequence[Known]:
    x, *weights = (writer.tensor(name) for name in node.inputs)
    axis = axis_of(node, x, -1)
    if axis != x.rank - 1:
        raise Refused(f"a norm over {x.rank - axis} dims; over the last only")
    writer.no_samples(x, (axis,), "a norm over")
    operator = LayerNorm(x.labels, float(node.attributes.get("epsilon", 1e-5)), bias=len(weights) > 1)
    return [writer.add(operator, x, *weights)]


def _reduced(how: Literal["sum", "mean", "max", "min"]) -> Translator:
    def translate(writer: Writer, node: FileNode) -> Sequence[Known]:
        x = writer.tensor(node.inputs[0])
        axes = writer.integers(node, 1, "axes")
        if axes is None:
            if node.attributes.get("noop_with_empty_axes"):
                return [x]
            axes = list(range(x.rank))
        places = {axis % x.rank for axis in axes}
        writer.no_samples(x, tuple(places), "a reduction over")
        keeps = node.attributes.get("keepdims", 1)
        kept = tuple(
            UNIT if place in places else name
            for place, name in enumerate(x.labels)
            if keeps or place not in places
        )
        if how in ("sum", "mean"):
            return [writer.add(SumTo.of(x.labels, kept, x.shape, mean=how == "mean"), x)]
        assert how in ("max", "min")
        return [writer.add(Extreme(x.labels, kept, "max" if how == "max" else "min"), x)]

    return translate


def _top_k(writer: Writer, node: FileNode) -> Sequence[Known]:
    x = writer.tensor(node.inputs[0])
    axis = axis_of(node, x, -1)
    writer.no_samples(x, (axis,), "a search over")
    count = writer.integers(node, 1, "k")
    assert count is not None
    largest = bool(node.attributes.get("largest", 1))
    return writer.adds(TopK(x.labels, axis, x.shape[axis], count[0], largest), x)


def _one_hot(writer: Writer, node: FileNode) -> Sequence[Known]:
    ids = writer.tensor(node.inputs[0])
    depth, values = writer.integers(node, 1, "depth"), writer.array(node, 2, "values")
    if int(node.attributes.get("axis", -1)) not in (-1, ids.rank):
        raise Refused("the ones lie along an axis that is not the last")
    if values is None or [float(number) for number in np.ravel(values)] != [0.0, 1.0]:
        raise Refused("other values than 0 and 1")
    assert depth is not None
    writer.looked_up(ids, depth[0])
    return [writer.add(OneHot(ids.labels, depth[0], writer.build.dtype), ids)]


def rows(writer: Writer, table: Tensor, ids: Tensor) -> Tensor:
    """Rows of a table by ids."""
    if table.rank != 2 or table.batch is not None:
        raise Refused(f"ids that pick among the dims {list(table.shape)} of a tensor; of a table's rows only")
    if ids.type.dtype is not DType.INT64:
        raise Refused(f"ids of {ids.type.dtype}")
    writer.looked_up(ids, table.shape[0])
    return writer.add(Embedding(ids.labels, ("rows", "columns")), ids, table)


PRODUCTS: Mapping[str, Translator] = {
    "Gemm": _gemm,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _softmax(log=True),
    "MatMul": _matmul,
    "OneHot": _one_hot,
    "ReduceMax": _reduced("max"),
    "ReduceMean": _reduced("mean"),
    "ReduceMin": _reduced("min"),
    "ReduceSum": _reduced("sum"),
    "Softmax": _softmax(log=False),
    "TopK": _top_k,
}
