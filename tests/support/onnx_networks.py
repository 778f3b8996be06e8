"""Small networks as files, written as exporters write them."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


class File:
    """A graph under way: nodes are added, arrays by name."""

    def __init__(self, weights=True):
        self.nodes, self.arrays, self.inputs, self.weights = [], [], [], weights
        self.rng = np.random.default_rng(0)

    def input(self, name, *shape, kind=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def weight(self, name, *shape):
        if not self.weights:
            tensor = TensorProto(name=name, data_type=FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
            tensor.external_data.add(key="location", value="weights.bin")
            self.arrays.append(tensor)
            return name
        return self.array(name, self.rng.standard_normal(shape).astype(np.float32))

    def array(self, name, value):
        self.arrays.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op, *inputs, name="", outputs=1, **attributes):
        made = [f"{op}_{len(self.nodes)}.{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, name=name, **attributes))
        return made[0] if outputs == 1 else made

    def integers(self, *values):
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(values, dtype=np.int64)))

    def scalar(self, value, kind=np.float32):
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(value, dtype=kind)))

    def save(self, path, *outputs, opset=18):
        values = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "network", self.inputs, values, self.arrays)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 9
        path.write_bytes(model.SerializeToString())
        return path


def mlp(path, *, batch="batch", classes=8):
    """Two hidden layers as Gemm with transposed weights."""
    file = File()
    x = file.input("x", batch, 16)
    for index, (width, wider) in enumerate(((16, 32), (32, 32), (32, classes))):
        weight = file.weight(f"fc{index}.weight", wider, width)
        bias = file.weight(f"fc{index}.bias", wider)
        x = file.add("Gemm", x, weight, bias, name=f"/fc{index}/Gemm", transB=1)
        if index < 2:
            x = file.add("Relu", x, name=f"/act{index}/Relu")
    return file.save(path, x)


def transformer(path, *, layers=1, seq=8, hidden=16, heads=4, vocab=32, batch="N", weights=True):
    """Causal layers behind token and position tables, with a head: an exported language model.

    Shapes are computed from the input's as exporters do, and so is the mask; GELU is spelled out. Without
    ``weights`` they are said to lie in a file of their own, which is not there.
    """
    file = File(weights)
    ids = file.input("ids", batch, seq, kind=INT)
    x = file.add("Gather", file.weight("tokens.weight", vocab, hidden), ids, name="/tokens/Gather")
    places = file.array("places", np.arange(seq)[None])
    rows = file.add("Gather", file.weight("positions.weight", seq, hidden), places, name="/positions/Gather")
    x = file.add("Add", x, rows, name="/Add")
    size = file.add("Gather", file.add("Shape", ids), file.integers(0), axis=0)
    ones = file.add(
        "ConstantOfShape", file.integers(1, 1, seq, seq), value=numpy_helper.from_array(np.ones(1))
    )
    mask = file.add("Cast", file.add("Trilu", ones, upper=0), to=TensorProto.BOOL)
    for index in range(layers):
        x = _layer(file, f"h.{index}", x, size, mask, seq, hidden, heads)
    x = _norm(file, x, "norm", hidden)
    head = file.weight("head.weight", hidden, vocab)
    return file.save(path, file.add("MatMul", x, head, name="/head/MatMul"))


def _layer(file, at, x, size, mask, seq, hidden, heads):
    y = _norm(file, x, f"{at}/norm1", hidden)
    qkv = _dense(file, y, f"{at}/qkv", hidden, 3 * hidden)
    parts = file.add("Split", qkv, outputs=3, axis=-1, num_outputs=3, name=f"/{at}/Split")
    shape = file.add("Concat", size, file.integers(seq), file.integers(heads), file.integers(-1), axis=0)
    q, k, v = (
        file.add("Transpose", file.add("Reshape", part, shape), perm=perm)
        for part, perm in zip(parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
    )
    scores = file.add("MatMul", q, k, name=f"/{at}/scores/MatMul")
    scores = file.add("Div", scores, file.scalar((hidden // heads) ** 0.5), name=f"/{at}/scores/Div")
    scores = file.add("Where", mask, scores, file.scalar(-1e9), name=f"/{at}/scores/Where")
    weights = file.add("Softmax", scores, axis=-1, name=f"/{at}/Softmax")
    context = file.add("MatMul", weights, v, name=f"/{at}/context/MatMul")
    context = file.add("Transpose", context, perm=(0, 2, 1, 3), name=f"/{at}/context/Transpose")
    context = file.add("Reshape", context, file.integers(0, 0, -1), name=f"/{at}/context/Reshape")
    x = file.add("Add", x, _dense(file, context, f"{at}/out", hidden, hidden), name=f"/{at}/residual1/Add")
    y = _dense(file, _norm(file, x, f"{at}/norm2", hidden), f"{at}/up", hidden, 4 * hidden)
    half = file.add("Mul", y, file.scalar(0.5), name=f"/{at}/gelu/Mul")
    erf = file.add("Div", y, file.scalar(2**0.5), name=f"/{at}/gelu/Div")
    erf = file.add("Erf", erf, name=f"/{at}/gelu/Erf")
    erf = file.add("Add", erf, file.scalar(1.0), name=f"/{at}/gelu/Add")
    y = file.add("Mul", half, erf, name=f"/{at}/gelu/Mul_1")
    y = _dense(file, y, f"{at}/down", 4 * hidden, hidden)
    return file.add("Add", x, y, name=f"/{at}/residual2/Add")


def _norm(file, x, name, hidden):
    scale, shift = file.weight(f"{name}.weight", hidden), file.weight(f"{name}.bias", hidden)
    return file.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5, name=f"/{name}")


def _dense(file, x, name, width, wider):
    made = file.add("MatMul", x, file.weight(f"{name}.weight", width, wider), name=f"/{name}/MatMul")
    return file.add("Add", made, file.weight(f"{name}.bias", wider), name=f"/{name}/Add")


def pictures(path):
    """Convolutions with batch norm, pools of every kind, and a projection."""
    file = File()
    x = file.input("x", "batch", 3, 16, 16)
    for index, (channels, filters, stride) in enumerate(((3, 4, 1), (4, 8, 2))):
        weight = file.weight(f"conv{index}.weight", filters, channels, 3, 3)
        geometry = {"kernel_shape": (3, 3), "strides": (stride, stride), "pads": (1, 1, 1, 1)}
        x = file.add("Conv", x, weight, name=f"/conv{index}", **geometry)
        parts = [file.weight(f"bn{index}.{part}", filters) for part in ("weight", "bias", "mean", "var")]
        x = file.add("BatchNormalization", x, *parts, name=f"/bn{index}", outputs=3, training_mode=1)[0]
        x = file.add("Relu", x, name=f"/relu{index}")
    x = file.add("MaxPool", x, name="/pool0", kernel_shape=(2, 2), strides=(2, 2))
    weight, shift = file.weight("conv2.weight", 8, 8, 1, 1), file.weight("conv2.bias", 8)
    x = file.add("Conv", x, weight, shift, name="/conv2", kernel_shape=(1, 1))
    x = file.add("AveragePool", x, name="/pool1", kernel_shape=(2, 2), strides=(2, 2))
    x = file.add("Flatten", file.add("GlobalAveragePool", x, name="/pool2"))
    weight, shift = file.weight("fc.weight", 8, 8), file.weight("fc.bias", 8)
    return file.save(path, file.add("Gemm", x, weight, shift, transB=1, name="/fc"))


def mixture(path):
    """What the others lack: reductions, concat, slice, pad, top-k, one-hot, clip, expand, yes and no."""
    file = File()
    x = file.input("x", "batch", 8, 4)
    kind = file.input("kind", "batch", kind=INT)
    low = file.add("ReduceMin", x, file.integers(2), keepdims=0, name="/low")
    high = file.add("ReduceMax", x, file.integers(-1), keepdims=0, name="/high")
    mean = file.add("ReduceMean", x, file.integers(1), keepdims=1, name="/mean")
    centred = file.add("Sub", x, mean)
    power = file.add("Pow", centred, file.scalar(2.0))
    total = file.add("ReduceSum", power, file.integers(1), keepdims=0)
    deviation = file.add("Sqrt", file.add("Add", total, file.scalar(1e-3)))
    best = file.add("TopK", centred, file.integers(3), axis=1, outputs=2)[0]
    best = file.add("Flatten", file.add("Sigmoid", best))
    first = file.add("Gather", x, file.scalar(0, np.int64), axis=1)
    some = file.add("Slice", x, file.integers(1), file.integers(7), file.integers(1), file.integers(2))
    some = file.add("Flatten", file.add("Clip", some, file.scalar(-1.0), file.scalar(1.0)))
    padded = file.add("Pad", high, file.integers(0, 1, 0, 3))
    values = file.array("values", np.asarray([0.0, 1.0], dtype=np.float32))
    hot = file.add("OneHot", kind, file.scalar(4, np.int64), values, axis=-1)
    wide = file.add("Expand", file.add("Unsqueeze", hot, file.integers(1)), file.integers(1, 2, 4))
    wide = file.add("Squeeze", file.add("ReduceMax", wide, file.integers(1), keepdims=1), file.integers(1))
    joined = file.add("Concat", low, padded, deviation, best, first, some, wide, axis=1)
    width = 8 + 12 + 4 + 12 + 4 + 12 + 4
    y = file.add("Tanh", _dense(file, joined, "hidden", width, 16))
    gate = file.add("LogSoftmax", _dense(file, y, "gate", 16, 16), axis=1, name="/gate")
    y = file.add("Mul", file.add("LeakyRelu", y, alpha=0.1), file.add("Exp", file.add("Neg", gate)))
    return file.save(path, _dense(file, y, "answer", 16, 1))


def renamed(path, name):
    """The same file with its values called ``name(0), name(1), ...`` in the order in which they come."""
    model = onnx.load(path)
    graph = model.graph
    made = (value for node in graph.node for value in node.output)
    values = [*(each.name for each in (*graph.input, *graph.initializer)), *made]
    new = {value: name(place) for place, value in enumerate(dict.fromkeys(values))}
    for each in (*graph.input, *graph.initializer, *graph.output):
        each.name = new[each.name]
    for node in graph.node:
        node.input[:] = [new.get(value, value) for value in node.input]
        node.output[:] = [new[value] for value in node.output]
    path.write_bytes(model.SerializeToString())
    return path
