"""fp8 products: what is cast, how often, where, and what then travels."""

from __future__ import annotations

from collections import Counter

import pytest

from simcluster.errors import PlanError, ScenarioError
from simcluster.layout import Movement, MovementKind
from simcluster.model import Operator, Phase, Role
from simcluster.model.operators.fp8 import E4M3, E5M2, Fp8Cast
from simcluster.model.operators.matmul import Matmul, MatmulSum
from simcluster.plan import make_plan
from simcluster.plan.precision.fp8_matmuls import Fp8Plan, quantise
from simcluster.work import DType
from tests.support import pass_graphs
from tests.support.fp8_plans import FP8, casts, plan
from tests.support.scenarios import TINY, TINY_GPT, scenario


def products(block):
    return [node for node in block.nodes if isinstance(node.operator, (Matmul, MatmulSum))]


@pytest.mark.parametrize("model", [TINY, TINY_GPT], ids=["llama", "gpt"])
def test_products_of_the_layers_read_fp8_and_write_what_they_wrote(model):
    graph = plan(model=model).logical
    plain = plan(model=model, precision="bf16").logical
    for name, block in graph.blocks.items():
        before = {node.name: node for node in plain.blocks[name].nodes}
        for node in products(block):
            fp8 = {block.values[value].type.dtype for value in node.inputs}
            assert fp8 == ({DType.FP8} if name == "layer" else {DType.BF16}), node.name
            assert node.outputs == before[node.name].outputs
            for value in node.outputs:
                assert block.values[value].type == plain.blocks[name].values[value].type
    others = [node for node in graph.blocks["layer"].nodes if node not in products(graph.blocks["layer"])]
    for node in others:
        assert DType.FP8 not in {graph.blocks["layer"].values[value].type.dtype for value in node.inputs}


def test_every_operand_is_cast_once_and_shared():
    block = plan().logical.blocks["layer"]
    counts = Counter(node.inputs[0] for node in casts(block))
    assert set(counts.values()) == {1}
    roles = Counter(block.values[node.inputs[0]].role for node in casts(block))
    # qkv, out, up (gate and up) and down: an input and a gradient for each result, and seven weights.
    assert roles == {Role.ACTIVATION: 4, Role.PARAMETER: 7, Role.GRADIENT: 7}
    readers = Counter(value for node in products(block) for value in node.inputs)
    for node in casts(block):
        assert [readers[value] for value in node.outputs] == [2], node.name


def test_gradients_have_a_format_of_their_own():
    block = plan().logical.blocks["layer"]
    for node in casts(block):
        gradient = block.values[node.inputs[0]].role is Role.GRADIENT
        assert node.operator.significant == (E5M2 if gradient else E4M3)
        assert node.phase is (Phase.BACKWARD if gradient else Phase.FORWARD)


def test_weights_are_cast_once_per_step():
    block = plan().graph.blocks["layer"]
    weights = [node for node in casts(block) if node.inputs[0] in block.parameters]
    assert len(weights) == 7
    assert {node.phase for node in weights} == {Phase.BEGIN}
    assert {block.values[node.outputs[0]].role for node in weights} == {Role.COPY}
    assert {node.phase for node in casts(block) if node not in weights} == {Phase.FORWARD, Phase.BACKWARD}


def test_weights_that_are_gathered_once_per_step_are_cast_behind():
    block = plan({"data": 4}, optimizer_sharding={"zero": 1}).graph.blocks["layer"]
    begin = [node for node in block.nodes if node.phase is Phase.BEGIN]
    kinds = [isinstance(node.operator, Fp8Cast) for node in begin]
    assert kinds == sorted(kinds)
    assert sum(kinds) == 7


def sent(block):
    """(phase, dtype) of every all-gather of an operand."""
    return Counter(
        (node.phase, block.values[node.inputs[0]].type.dtype)
        for node in block.nodes
        if isinstance(node.operator, Movement) and node.operator.kind is MovementKind.ALL_GATHER
    )


def test_operands_travel_as_they_are_unless_asked():
    """Sequence parallelism gathers two inputs forward; backward, them again and two gradients."""
    mesh = {"tensor": 2}
    wide = plan(mesh, recipe="megatron_sp").graph.blocks["layer"]
    assert sent(wide) == {(Phase.FORWARD, DType.BF16): 2, (Phase.BACKWARD, DType.BF16): 4}
    again = plan(mesh, recipe="megatron_sp", precision="bf16").graph.blocks["layer"]
    assert sent(again) == {(Phase.FORWARD, DType.BF16): 2, (Phase.BACKWARD, DType.BF16): 4}
    narrow = {**FP8, "fp8": {"communication": "fp8"}}
    small = plan(mesh, recipe="megatron_sp", precision=narrow).graph.blocks["layer"]
    assert sent(small) == {(Phase.FORWARD, DType.FP8): 2, (Phase.BACKWARD, DType.FP8): 4}


def test_a_profile_may_gather_operands_as_they_are_cast():
    """But not what experts exchange."""
    gathering = {"quantised_gathers": True}
    small = plan({"tensor": 2}, recipe="megatron_sp", framework=gathering).graph.blocks["layer"]
    assert sent(small) == {(Phase.FORWARD, DType.FP8): 2, (Phase.BACKWARD, DType.FP8): 4}
    model = {**TINY, "experts": {"count": 4, "top_k": 2, "ffn": 32}}
    exchanged = {
        block.values[node.inputs[0]].type.dtype
        for block in plan({"data": 2, "expert": 2}, model=model, framework=gathering).graph.blocks.values()
        for node in block.nodes
        if isinstance(node.operator, Movement) and node.operator.kind is MovementKind.ALL_TO_ALL
    }
    assert DType.BF16 in exchanged and DType.FP8 not in exchanged


@pytest.mark.parametrize("narrow", [DType.MXFP8, DType.NVFP4])
def test_formats_with_scales_of_blocks_have_a_copy_for_every_dim_that_is_summed_over(narrow):
    """Weights in nvfp4, in square blocks, are not transformed; no profile spares a copy."""
    block = plan(precision=str(narrow), host="dgx-b200").logical.blocks["layer"]
    for node in casts(block):
        weight = block.values[node.inputs[0]].role is Role.PARAMETER
        assert node.operator.copies == 2
        assert getattr(node.operator, "transformed", not weight) is not weight, node.name
        assert {block.values[value].type.dtype for value in node.outputs} == {narrow}


def test_what_is_kept_for_the_weight_gradient():
    kept = plan().logical.blocks["layer"]
    assert not [node for node in casts(kept) if node.name.endswith(".recast")]
    wide = plan(precision={**FP8, "fp8": {"saved": "compute"}}).logical.blocks["layer"]
    again = [node for node in casts(wide) if node.name.endswith(".recast")]
    assert {node.phase for node in again} == {Phase.BACKWARD}
    assert [node.inputs[0] for node in again] == [
        "mlp.activation.out",
        "mlp.norm.out",
        "attention.core.out",
        "attention.norm.out",
    ]


def test_transposed_copies_for_products_that_sum_over_another_dim():
    """On Hopper: the weight for dx; both operands, which are summed over tokens, for dw."""
    block = plan(framework={"fp8_transposes": True}).logical.blocks["layer"]
    for node in products(block):
        flat = [value.endswith(".transposed") for value in node.inputs]
        if node.phase is Phase.FORWARD:
            assert not any(flat), node.name
        elif node.name.endswith("wgrad"):
            assert all(flat), node.name
        else:
            assert flat == [False] * (len(flat) // 2) + [True] * (len(flat) // 2), node.name
    assert {node.operator.copies for node in casts(block)} == {2}
    assert {node.operator.copies for node in casts(plan().logical.blocks["layer"])} == {1}


def test_layers_may_differ():
    precision = {**FP8, "fp8": {"operators": ["layers.{1,2}.mlp.*", "layers.3.attention.out"]}}
    graph = plan(precision=precision).graph
    blocks = {each.name: each.block for each in graph.instances}
    assert blocks["layers.1"] == blocks["layers.2"]
    assert len({blocks[f"layers.{index}"] for index in range(4)}) == 3
    found = {name: {node.origin for node in casts(graph.blocks[block])} for name, block in blocks.items()}
    assert found["layers.0"] == set()
    assert found["layers.1"] == {"mlp.up", "mlp.down"}
    assert found["layers.3"] == {"attention.out"}


def test_the_layers_of_both_sides_of_t5_are_layers():
    model = {"family": "t5", "encoder_layers": 2, "decoder_layers": 2, "hidden": 32, "heads": 4, "vocab": 64}
    graph = plan(model=model).graph
    for instance in graph.instances:
        narrow = [node for node in products(graph.block_of(instance)) if node.operator.result_dtype]
        assert bool(narrow) == ("layers." in instance.name), instance.name


def test_strategies_say_nothing_of_casts():
    found = plan({"tensor": 2}, recipe="megatron")
    assert not any("cast" in name for each in found.strategies.by_instance.values() for name in each)


# -- what is impossible ---------------------------------------------------------------------------------


def test_a_pattern_without_a_product_is_refused():
    with pytest.raises(PlanError, match=r"'layers.\*.attention.core' matches no matrix product") as caught:
        plan(precision={**FP8, "fp8": {"operators": ["layers.*.mlp.*", "layers.*.attention.core"]}})
    assert caught.value.problems[0].path == "training.precision.fp8.operators"


@pytest.mark.parametrize(
    ("precision", "path", "hint"),
    [
        ({"compute": "fp32", "matmul": "fp8"}, "training.precision.matmul", "fp32 or tf32"),
        ({"compute": "bf16", "matmul": "fp16"}, "training.precision.matmul", "bf16 or fp8"),
        ({"compute": "bf16", "fp8": {}}, "training.precision.fp8", "matmul: fp8"),
        ({"matmul": "nvfp4", "fp8": {}}, "training.precision.fp8", "matmul: fp8"),
        ({"compute": "fp16", "matmul": "nvfp4"}, "training.precision.matmul", "fp16 or fp8"),
    ],
)
def test_formats_that_do_not_go_together_are_refused(precision, path, hint):
    with pytest.raises(ScenarioError) as caught:
        plan(precision=precision)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert hint in problem.message


@pytest.mark.parametrize(
    ("host", "precision", "has"),
    [
        ("cpu-server", "fp8", "fp64, fp32, bf16"),
        ("cpu-server", "tf32", "fp64, fp32, bf16"),
        ("dgx-h100", "nvfp4", "fp64, fp32, tf32, fp16, bf16, fp8, int8"),
        ("dgx-a100", "fp8", "fp64, fp32, tf32, fp16, bf16, int8"),
        ("atlas-800t-a2", "fp8", "fp32, fp16, bf16"),
        ("atlas-800t-a2", "tf32", "fp32, fp16, bf16"),
    ],
)
def test_a_device_without_the_rate_is_refused(host, precision, has):
    found = scenario({"data": 2}, host=host, training={"precision": precision})
    with pytest.raises(PlanError, match=f"has no matrix rate in {precision}") as caught:
        make_plan(found.model, found.spec.training, found.spec.parallel, found.framework, found.cluster)
    (problem,) = caught.value.problems
    assert problem.path == "training.precision"
    assert has in problem.hint


@pytest.mark.parametrize(
    ("written", "compute", "matmul"),
    [
        ("fp32", DType.FP32, DType.FP32),
        ("tf32", DType.FP32, DType.TF32),
        ("bf16", DType.BF16, DType.BF16),
        ("fp8", DType.BF16, DType.FP8),
        ("mxfp8", DType.BF16, DType.MXFP8),
        ({"matmul": "mxfp8", "fp8": {"saved": "compute"}}, DType.BF16, DType.MXFP8),
        ("nvfp4", DType.BF16, DType.NVFP4),
        ({"compute": "fp16", "matmul": "fp8"}, DType.FP16, DType.FP8),
        ({"compute": "fp16"}, DType.FP16, DType.FP16),
    ],
)
def test_short_forms(written, compute, matmul):
    host = "dgx-b200" if matmul in (DType.MXFP8, DType.NVFP4) else "dgx-h100"
    found = plan(precision=written, host=host)
    assert (found.numerics.compute, found.numerics.matmul) == (compute, matmul)
    assert all(isinstance(node.operator, Operator) for node in found.logical.blocks["layer"].nodes)


def test_the_pass_casts_the_operands_of_the_chosen_products_once_each():
    before = pass_graphs.differentiated(DType.BF16)
    plan = Fp8Plan(
        DType.FP8, ("layers.*.mlp.up",), gathers=False, exchanges=False, keep=True, transposed=False
    )
    graph = quantise(before, plan)
    old, block = (one.blocks["layer"] for one in (before, graph))
    weights = ["mlp.up.gate.weight", "mlp.up.up.weight"]
    gradients = ["mlp.activation.grad.out", "mlp.activation.grad.out1"]
    assert [node.inputs[0] for node in casts(block)] == ["mlp.norm.out", *weights, *gradients]
    assert block.node("mlp.up").inputs == ("mlp.norm.out.fp8", *(f"{name}.fp8" for name in weights))
    read = {name: set(block.node(f"mlp.up.{name}").inputs) for name in ("dgrad", "wgrad")}
    assert read["dgrad"] == {f"{name}.fp8" for name in (*gradients, *weights)}
    assert read["wgrad"] == {f"{name}.fp8" for name in ("mlp.norm.out", *gradients)}
    others = [node for node in block.nodes if node not in casts(block) and "mlp.up" not in node.name]
    assert others == [node for node in old.nodes if "mlp.up" not in node.name]
    assert {name: graph.blocks[name] for name in ("embedding", "head")} == {
        name: before.blocks[name] for name in ("embedding", "head")
    }
