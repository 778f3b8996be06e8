"""What an imported network computes is what the reference evaluator of ONNX computes of the file."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.model import Region
from simcluster.model.graph.graph import Phase
from simcluster.model.onnx import load_onnx
from simcluster.model.onnx.constant_folding import FOLDS
from simcluster.model.onnx.elementwise_operators import POINTWISE
from simcluster.model.onnx.image_operators import PICTURES
from simcluster.model.onnx.matmul_and_reductions import PRODUCTS
from simcluster.model.onnx.shape_operators import ARRANGEMENT
from simcluster.work import DType
from tests.support.onnx_networks import INT, File, mixture, mlp, pictures, transformer

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

BATCH = 4


def feeds(model, rng):
    """Numbers and ids for every input of the file."""
    block = model.graph(BATCH, model.fixed_seq_len, DType.FP32, 1).blocks["network"]
    found = {}
    for each in model.file.inputs:
        shape = (BATCH, *each.shape[1:])
        if each.dtype is None:
            found[each.name] = rng.standard_normal(shape).astype(np.float32)
        else:
            found[each.name] = rng.integers(0, block.values[each.name].num_ids, shape)
    return block, found


def computed(path):
    """The logits by the block's operators, and by the reference."""
    model = load_onnx(path)
    block, given = feeds(model, np.random.default_rng(3))
    file = onnx.load(path)
    values = {each.name: numpy_helper.to_array(each) for each in file.graph.initializer}
    values = {name: values[name] for name in block.parameters} | given
    loss = next(node for node in block.nodes if block.loss in node.outputs)
    for node in block.phase(Phase.FORWARD):
        if node is loss:
            break
        if set(node.outputs) <= set(node.inputs):
            continue  # running statistics, which nothing reads
        made = node.operator.evaluate([values[name] for name in node.inputs], Region({}))
        for name, array in zip(node.outputs, made, strict=True):
            assert array.shape == block.values[name].type.shape
            values[name] = array
    (wanted,) = ReferenceEvaluator(file).run(None, given)
    return values[loss.inputs[0]], wanted


@pytest.mark.parametrize("write", [mlp, transformer, mixture, pictures], ids=lambda each: each.__name__)
def test_a_network(tmp_path, write):
    have, wanted = computed(write(tmp_path / "network.onnx"))
    np.testing.assert_allclose(have, wanted, rtol=2e-4, atol=2e-5)


def picture(op, *weights, **attributes):
    """Of a picture: the input as one channel per four elements of a sample."""

    def write(file, x):
        x = file.add("Reshape", file.add("Concat", x, x, axis=1), file.integers(0, 4, 4, 4))
        given = [file.weight(f"w{index}", *shape) for index, shape in enumerate(weights)]
        return file.add(op, x, *given, **attributes)

    return write


def normed(file, x):
    x = file.add("Reshape", x, file.integers(0, 2, 4, 4))
    parts = [file.weight(name, 2) for name in ("w", "b", "mean", "var")]
    return file.add("BatchNormalization", x, *parts, outputs=3, training_mode=1, epsilon=1e-3)[0]


def of_two(op):
    return lambda file, x: file.add(op, x, file.add("Sigmoid", file.input("y", "batch", 1, 4)))


def of_one(op, **attributes):
    return lambda file, x: file.add(op, x, **attributes)


def positive(op):
    """Of numbers above zero."""
    return lambda file, x: file.add(op, file.add("Add", file.add("Exp", x), file.scalar(0.5)))


def where(op, *, both=True):
    """One of two values, by a mask that the operator gives."""

    def write(file, x):
        other = file.input("y", "batch", 8, 4)
        mask = file.add("Greater", x, file.scalar(0.25))
        second = [file.add("Less", other, x)] if both else []
        return file.add("Where", file.add(op, mask, *second), x, other)

    return write


def compared(op):
    def write(file, x):
        y = file.input("y", "batch", 8, 4)
        return file.add("Where", file.add(op, x, y), x, file.scalar(-2.0))

    return write


def gemm(file, x):
    x = file.add("Flatten", x)
    weight, shift = file.weight("w", 32, 8), file.weight("c", 1, 8)
    return file.add("Gemm", x, weight, shift, alpha=0.5, beta=2.0)


def picked(file, x):
    ids = file.input("ids", "batch", 3, kind=INT)
    return file.add("Gather", file.weight("table", 10, 4), ids)


def scattered(file, x):
    rows = file.array("rows", np.asarray([[3, 1], [4, 1]]))
    found = file.add("Gather", file.weight("table", 10, 4), rows)
    return file.add("MatMul", x, file.add("Reshape", found, file.integers(4, 4)))


def one_hot(file, x):
    ids = file.input("ids", "batch", 3, kind=INT)
    values = file.array("values", np.asarray([0.0, 1.0], dtype=np.float32))
    return file.add("OneHot", ids, file.scalar(5, np.int64), values)


def products(file, x):
    return file.add("MatMul", x, file.add("Transpose", x, perm=(0, 2, 1)))


def norm(file, x):
    return file.add("LayerNormalization", x, file.weight("w", 4), file.weight("b", 4), epsilon=1e-3)


def shaped(file, x):
    size = file.add("Slice", file.add("Shape", x), file.integers(0), file.integers(2))
    rest = file.add("Div", file.add("Size", x), file.add("ReduceProd", size, keepdims=0))
    rest = file.add("Unsqueeze", rest, file.integers(0))
    return file.add("Reshape", x, file.add("Concat", size, rest, file.integers(1), axis=0))


def extremes(op):
    return lambda file, x: file.add(op, x, file.input("y", "batch", 1, 4), file.scalar(0.1))


def reduced(op, *axes, **attributes):
    return lambda file, x: file.add(op, x, file.integers(*axes), **attributes)


CASES = {
    "Abs": of_one("Abs"),
    "Add": of_two("Add"),
    "And": where("And"),
    "AveragePool": picture("AveragePool", kernel_shape=(2, 2), strides=(2, 2)),
    "AveragePool with margins": picture(
        "AveragePool", kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=1
    ),
    "BatchNormalization": normed,
    "Conv": picture("Conv", (2, 4, 3, 3), (2,), pads=(1, 1, 1, 1)),
    "Conv with steps": picture("Conv", (2, 4, 2, 1), strides=(2, 3), pads=(0, 1, 0, 1)),
    "GlobalAveragePool": picture("GlobalAveragePool"),
    "MaxPool": picture("MaxPool", kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    "Cast": of_one("Cast", to=1),
    "Clip": lambda file, x: file.add("Clip", x, file.scalar(-0.5), file.scalar(0.5)),
    "Clip above": lambda file, x: file.add("Clip", x, "", file.scalar(0.5)),
    "Concat": lambda file, x: file.add(
        "Concat", x, file.add("Slice", x, file.integers(0), file.integers(2), file.integers(-1)), x, axis=-1
    ),
    "Div": of_two("Div"),
    "Dropout": of_one("Dropout"),
    "Equal": compared("Equal"),
    "Erf": of_one("Erf"),
    "Exp": of_one("Exp"),
    "Expand": lambda file, x: file.add(
        "Expand", file.add("ReduceMax", x, file.integers(1)), file.integers(1, 8, 1)
    ),
    "Flatten": of_one("Flatten", axis=2),
    "Gather": picked,
    "Gather an element": lambda file, x: file.add("Gather", x, file.scalar(-1, np.int64), axis=1),
    "Gather every second": lambda file, x: file.add("Gather", x, file.integers(1, 3, 5), axis=1),
    "Gather rows anywhere": scattered,
    "Gelu": of_one("Gelu"),
    "Gelu by tanh": of_one("Gelu", approximate="tanh"),
    "Gemm": gemm,
    "Greater": compared("Greater"),
    "GreaterOrEqual": compared("GreaterOrEqual"),
    "Identity": of_one("Identity"),
    "LayerNormalization": norm,
    "LeakyRelu": of_one("LeakyRelu", alpha=0.2),
    "Less": compared("Less"),
    "LessOrEqual": compared("LessOrEqual"),
    "Log": positive("Log"),
    "LogSoftmax": of_one("LogSoftmax", axis=1),
    "MatMul": products,
    "Max": extremes("Max"),
    "Min": extremes("Min"),
    "Mul": of_two("Mul"),
    "Neg": of_one("Neg"),
    "Not": where("Not", both=False),
    "OneHot": one_hot,
    "Or": where("Or"),
    "Pad": lambda file, x: file.add("Pad", x, file.integers(0, 1, 0, 0, 0, 2), file.scalar(1.5)),
    "Pow": lambda file, x: file.add("Pow", file.add("Exp", x), file.scalar(1.5)),
    "Reciprocal": positive("Reciprocal"),
    "ReduceMax": reduced("ReduceMax", 1, 2, keepdims=0),
    "ReduceMean": reduced("ReduceMean", -1),
    "ReduceMin": reduced("ReduceMin", 1),
    "ReduceSum": reduced("ReduceSum", 2, keepdims=0),
    "Relu": of_one("Relu"),
    "Reshape": lambda file, x: file.add("Reshape", x, file.integers(0, 2, -1, 2)),
    "Shape": shaped,
    "Sigmoid": of_one("Sigmoid"),
    "Size": shaped,
    "Slice": lambda file, x: file.add(
        "Slice", x, file.integers(-7, 0), file.integers(99, 3), file.integers(1, 2), file.integers(3, 1)
    ),
    "Softmax": of_one("Softmax", axis=1),
    "Softplus": of_one("Softplus"),
    "Split": lambda file, x: file.add("Split", x, file.integers(2, 5, 1), outputs=3, axis=1)[1],
    "Sqrt": positive("Sqrt"),
    "Squeeze": lambda file, x: file.add(
        "Squeeze", file.add("ReduceSum", x, file.integers(1)), file.integers(1)
    ),
    "Sub": of_two("Sub"),
    "Sum": extremes("Sum"),
    "Tanh": of_one("Tanh"),
    "TopK": lambda file, x: file.add("TopK", x, file.integers(3), axis=1, outputs=2)[0],
    "TopK of the smallest": lambda file, x: file.add("TopK", x, file.integers(2), largest=0, outputs=2)[0],
    "Transpose": of_one("Transpose", perm=(0, 2, 1)),
    "Unsqueeze": lambda file, x: file.add("Unsqueeze", x, file.integers(-1, 1)),
    "Where": compared("Less"),
    "Xor": where("Xor"),
}


def test_every_operator_has_a_case():
    translated = {*POINTWISE, *PRODUCTS, *ARRANGEMENT, *PICTURES}
    assert translated <= {title.split()[0] for title in CASES}


@pytest.mark.parametrize("title", CASES)
def test_an_operator(tmp_path, title):
    file = File()
    made = CASES[title](file, file.input("x", "batch", 8, 4))
    path = file.save(tmp_path / "one.onnx", made, opset=20)
    have, wanted = computed(path)
    assert have.shape == wanted.shape
    np.testing.assert_allclose(have, wanted, rtol=1e-4, atol=1e-5)


FOLDED = {
    "Add": lambda file, a, b: file.add("Add", a, b),
    "Cast": lambda file, a, b: file.add("Cast", a, to=7),
    "Concat": lambda file, a, b: file.add("Slice", file.add("Concat", a, b, axis=0), b, file.integers(4)),
    "Div": lambda file, a, b: file.add("Div", a, b),
    "Floor": lambda file, a, b: file.add("Cast", file.add("Floor", file.add("Cast", a, to=1)), to=7),
    "Gather": lambda file, a, b: file.add("Gather", file.integers(5, 6, 7), b),
    "Identity": lambda file, a, b: file.add("Identity", a),
    "Mul": lambda file, a, b: file.add("Mul", a, b),
    "Neg": lambda file, a, b: file.add("Neg", file.add("Neg", a)),
    "Sub": lambda file, a, b: file.add("Sub", a, b),
    "Range": lambda file, a, b: file.add(
        "Range", file.scalar(3, np.int64), file.scalar(4, np.int64), file.scalar(1, np.int64)
    ),
    "ReduceProd": lambda file, a, b: file.add("ReduceProd", file.add("Concat", a, b, axis=0)),
    "Reshape": lambda file, a, b: file.add("Reshape", a, file.integers(-1)),
    "Slice": lambda file, a, b: file.add("Slice", file.integers(9, 8, 7), b, file.integers(2)),
    "Squeeze": lambda file, a, b: file.add(
        "Unsqueeze", file.add("Squeeze", a, file.integers(0)), file.integers(0)
    ),
    "Transpose": lambda file, a, b: file.add("Transpose", a),
    "Where": lambda file, a, b: file.add("Where", file.add("Greater", a, b), a, b),
    "Where not": lambda file, a, b: file.add("Where", file.add("Not", file.add("Less", b, a)), a, b),
    "Where equal": lambda file, a, b: file.add("Where", file.add("Equal", a, b), a, b),
    "Expand": lambda file, a, b: file.add(
        "Slice", file.add("Expand", a, file.integers(3)), b, file.integers(2)
    ),
}


@pytest.mark.parametrize("title", FOLDED)
def test_what_is_computed_beforehand(tmp_path, title):
    """As the number of rows of a tensor of ones, which is seen in the shape of what comes out."""
    file = File()
    x = file.input("x", "batch", 8, 4)
    rows = FOLDED[title](file, file.integers(6), file.integers(1))
    assert title.split()[0] in FOLDS
    ones = file.add("ConstantOfShape", file.add("Concat", rows, file.integers(4), axis=0))
    path = file.save(
        tmp_path / "folded.onnx", file.add("MatMul", x, file.add("Transpose", ones, perm=(1, 0)))
    )
    have, wanted = computed(path)
    assert have.shape == wanted.shape
