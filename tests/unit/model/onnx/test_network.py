"""Networks from ONNX files: what they become, that they train as on one device, and what is refused."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model.graph.graph import Phase
from simcluster.model.model_flops import forward_flops
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.work import DType
from tests.support.onnx_networks import INT, File, helper, mlp, transformer


def load(path):
    return validate_data({"onnx": path.name}, ModelSpec).build(path.parent)


def operators(model):
    block = model.graph(4, model.fixed_seq_len, DType.FP32, 4).blocks["network"]
    return [(node.name, node.operator.kind) for node in block.phase(Phase.FORWARD)]


# -- what a file becomes ---------------------------------------------------------------------------------


def test_an_mlp_is_products_biases_and_activations(tmp_path):
    model = load(mlp(tmp_path / "mlp.onnx"))
    assert operators(model) == [
        ("fc0.Gemm", "matmul"),
        ("fc0.Gemm.bias", "bias"),
        ("act0.Relu", "relu"),
        ("fc1.Gemm", "matmul"),
        ("fc1.Gemm.bias", "bias"),
        ("act1.Relu", "relu"),
        ("fc2.Gemm", "matmul"),
        ("fc2.Gemm.bias", "bias"),
        ("loss", "cross_entropy"),
    ]
    assert model.num_parameters == 16 * 32 + 32 + 32 * 32 + 32 + 32 * 8 + 8
    assert forward_flops(model.graph(1, 1, DType.FP32, 1)).counted == 2 * (16 * 32 + 32 * 32 + 32 * 8)


def test_a_language_model_counts_the_tokens_of_its_loss(tmp_path):
    model = load(transformer(tmp_path / "lm.onnx"))
    assert (model.fixed_seq_len, model.max_seq_len) == (8, 8)
    hidden, vocab, seq = 16, 32, 8
    layer = 4 * hidden * hidden + 8 * hidden * hidden + (3 + 1 + 4 + 1) * hidden + 3 * 2 * hidden
    assert model.num_parameters == layer + 2 * vocab * hidden + seq * hidden
    attention = 2 * 2 * seq * seq * hidden
    expected = 2 * seq * (12 * hidden * hidden + vocab * hidden) + attention
    assert forward_flops(model.graph(1, 8, DType.FP32, 8)).counted == expected
    assert model.graph(2, 8, DType.FP32, 16).blocks["network"].values["ids"].num_ids == vocab


def test_shapes_are_computed_beforehand(tmp_path):
    """No operator is left of those that compute shapes; the mask is an array of the model."""
    kinds = [kind for _, kind in operators(load(transformer(tmp_path / "lm.onnx")))]
    assert kinds.count("reshape") == 5
    assert kinds.count("constant") == 1
    assert kinds.count("concat") == 0


def test_a_loss_of_the_file_is_the_loss(tmp_path):
    file = File()
    x, targets = file.input("x", "batch", 4), file.input("y", "batch", kind=INT)
    logits = file.add("MatMul", x, file.weight("w", 4, 8))
    path = file.save(
        tmp_path / "loss.onnx", file.add("SoftmaxCrossEntropyLoss", logits, targets, name="/loss")
    )
    model = load(path)
    block = model.graph(4, 1, DType.FP32, 4).blocks["network"]
    assert block.feeds == ("x", "y")
    assert block.values["y"].num_ids == 8


def test_what_the_output_does_not_need_is_left_out(tmp_path):
    file = File()
    x = file.input("x", "batch", 4)
    file.input("unused", "batch", 4)
    file.add("MatMul", x, file.weight("other", 4, 4))
    path = file.save(tmp_path / "two.onnx", file.add("MatMul", x, file.weight("w", 4, 8)))
    block = load(path).graph(4, 1, DType.FP32, 4).blocks["network"]
    assert block.feeds == ("x", "targets")
    assert block.parameters == ("w",)


SHIPPED = Path(__file__).parents[4] / "scenarios" / "networks" / "language-model.onnx"


def test_the_shipped_network_is_what_it_is_said_to_be(tmp_path):
    """Four layers of 128 over 64 tokens; its weights, whose values nobody reads, lie in no file."""
    sizes = {"layers": 4, "seq": 64, "hidden": 128, "heads": 4, "vocab": 1024}
    written = transformer(tmp_path / "again.onnx", weights=False, **sizes)
    assert SHIPPED.read_bytes() == written.read_bytes()


# -- it trains as on one device --------------------------------------------------------------------------


# -- what is refused -------------------------------------------------------------------------------------


def refused(path):
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert {problem.path for problem in caught.value.problems} == {"model.onnx"}
    return [f"{problem.message} {problem.hint}" for problem in caught.value.problems]


def test_every_unknown_operator_is_named_at_once(tmp_path):
    file = File()
    x = file.add("Sinh", file.add("Sofmax", file.add("Sinh", file.input("x", "batch", 4))))
    first, second = refused(file.save(tmp_path / "odd.onnx", x))
    assert first.startswith("odd.onnx: operator Sinh is not supported (2 nodes)")
    assert second == "odd.onnx: operator Sofmax is not supported (1 node) did you mean 'Softmax'?"


def test_open_dims_are_those_of_samples_only(tmp_path):
    file = File()
    file.input("y", "other", 4)
    x = file.add("Relu", file.input("x", "batch", "length"))
    first, second = refused(file.save(tmp_path / "open.onnx", x))
    assert first.startswith("open.onnx: input 'x' leaves dim 'length' open besides that of samples")
    assert second.startswith(
        "open.onnx: the inputs' first dims are batch, other: all should be that of samples"
    )
    assert first.endswith("export it with a symbolic first dim and static others")
    (fixed,) = refused(mlp(tmp_path / "fixed.onnx", batch=8))
    assert fixed.startswith("fixed.onnx: input 'x' [8, 16] has no open dim of samples")


def test_a_number_of_samples_that_is_written_into_a_shape_is_found(tmp_path):
    file = File()
    x = file.add("Reshape", file.input("x", "batch", 4), file.integers(2, 4), name="/fixed/Reshape")
    (found,) = refused(file.save(tmp_path / "baked.onnx", x))
    assert "node '/fixed/Reshape' (Reshape): [6, 4] does not become [2, 4]: the number of samples" in found


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda file, x: file.add("Softmax", x, axis=0), "a softmax over the dim of samples"),
        (lambda file, x: file.add("ReduceMean", x, file.integers(0)), "a reduction over the dim of samples"),
        (
            lambda file, x: file.add("Concat", x, x, axis=0),
            "side by side along the dim of samples",
        ),
        (
            lambda file, x: file.add("MatMul", x, file.add("Transpose", x, perm=(1, 0))),
            "combines every sample with every other",
        ),
        (
            lambda file, x: file.add("MatMul", file.add("Transpose", x, perm=(1, 0)), x),
            "adds up over the dim of samples",
        ),
        (lambda file, x: file.add("MatMul", x, file.weight("w", 3, 4)), "[2, 4] by [3, 4]: 4 is not 3"),
        (
            lambda file, x: file.add("Add", x, file.weight("w", 2, 3)),
            "[2, 4] and [2, 3] are shapes that do not",
        ),
        (
            lambda file, x: file.add("Transpose", x, perm=(1, 0)),
            "first dim is not that of samples",
        ),
        (lambda file, x: file.add("GlobalAveragePool", x), "is not the shape of pictures"),
        (lambda file, x: file.add("Cast", file.add("Greater", x, x), to=1), "a cast of uint8"),
        (lambda file, x: file.add("Relu", "nothing"), "reads 'nothing', which nothing makes before"),
        (lambda file, x: file.add("Gather", x, file.integers(0, 1, 3), axis=1), "not evenly spaced"),
        (
            lambda file, x: file.add("Pad", x, file.integers(0, 1, 0, 1), mode="reflect"),
            "a margin in mode reflect",
        ),
    ],
)
def test_what_a_node_cannot_do_says_so(tmp_path, write, message):
    file = File()
    (found,) = refused(file.save(tmp_path / "odd.onnx", write(file, file.input("x", "batch", 4))))
    assert message in found


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"dilations": (2, 2)}, "windows with holes: dilations [2, 2]"),
        ({"group": 2}, "channels in 2 groups"),
        ({"pads": (1, 1, 0, 0)}, "margins that differ between the sides: [1, 1, 0, 0]"),
        ({"auto_pad": "SAME_UPPER"}, "auto_pad SAME_UPPER"),
        ({}, "a window of [3, 3] is larger than [2, 8] pixels"),
    ],
)
def test_windows_that_cannot_be_laid_say_so(tmp_path, attributes, message):
    file = File()
    x = file.input("x", "batch", 4, 2, 8)
    made = file.add("Conv", x, file.weight("w", 4, 4, 3, 3), **attributes)
    (found,) = refused(file.save(tmp_path / "odd.onnx", made))
    assert message in found


def test_fixed_statistics_are_refused(tmp_path):
    file = File()
    x = file.input("x", "batch", 4, 2, 8)
    parts = [file.weight(name, 4) for name in ("w", "b", "mean", "var")]
    (found,) = refused(file.save(tmp_path / "fixed.onnx", file.add("BatchNormalization", x, *parts)))
    assert "its statistics are fixed export the network in training mode" in found


def test_a_file_that_is_not_there_or_no_onnx_file_says_so(tmp_path):
    assert refused(tmp_path / "none.onnx") == ["none.onnx: there is no such file "]
    (tmp_path / "text.onnx").write_text(json.dumps({"no": "network"}))
    assert refused(tmp_path / "text.onnx")[0].startswith("text.onnx: is not an ONNX file")
    (tmp_path / "empty.onnx").write_bytes(b"")
    assert refused(tmp_path / "empty.onnx") == ["empty.onnx: holds no network: its graph has no nodes "]


def test_nodes_that_lack_what_the_standard_wants_are_named_at_once(tmp_path):
    file = File()
    x = file.input("x", "batch", 4)
    file.add("Concat", x, x, name="/joined")
    found = refused(file.save(tmp_path / "bad.onnx", file.add("Reshape", x)))
    assert [each.partition(": ")[2] for each in found] == [
        "node '/joined' (Concat): Required attribute 'axis' is missing. ",
        "node 1 (Reshape): Node with schema(::Reshape:14) has input size 1 not in range [min=2, max=2]. ",
    ]


def test_a_loop_is_refused(tmp_path):
    file = File()
    x = file.input("x", "batch", 4)
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["z"])], "branch", [], [helper.make_empty_tensor_value_info("z")]
    )
    truth = file.add("ReduceSum", x)
    made = file.add("If", truth, then_branch=branch, else_branch=branch)
    (found,) = refused(file.save(tmp_path / "if.onnx", made))
    assert found.startswith("if.onnx: operator If is not supported (1 node)")


def test_half_a_file_is_refused(tmp_path):
    whole = mlp(tmp_path / "mlp.onnx").read_bytes()
    for size in range(1, len(whole), len(whole) // 40):
        (tmp_path / "half.onnx").write_bytes(whole[:size])
        assert refused(tmp_path / "half.onnx")


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    path = mlp(tmp_path / "mlp.onnx")
    original = builtins.__import__

    def without(name, *rest, **more):
        if name == "onnx":
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert refused(path) == [
        "mlp.onnx: reading ONNX files needs the extra onnx "
        "pip install 'simcluster[onnx]', or pip install '.[onnx]' in a checkout"
    ]


def test_a_file_leaves_no_dimension_to_the_scenario(tmp_path):
    path = mlp(tmp_path / "mlp.onnx")
    with pytest.raises(ScenarioError, match="an ONNX file says all that 'layers' could: leave it out"):
        validate_data({"onnx": str(path), "layers": 2}, ModelSpec)
