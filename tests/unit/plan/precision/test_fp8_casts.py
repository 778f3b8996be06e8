"""How long fp8 copies live: a phase, a micro-batch or a step."""

from __future__ import annotations

import pytest

from simcluster.layout import Movement, MovementKind
from simcluster.model import Phase, Role
from simcluster.model.operators.cast import Cast
from simcluster.model.operators.fp8 import Fp8Cast, Fp8Transpose
from simcluster.plan.precision.fp8_casts import cast_once_per_step, cast_per_use, repeat_casts
from simcluster.plan.precision.fp8_matmuls import Fp8Plan, quantise
from simcluster.work import DType
from tests.support import pass_graphs
from tests.support.fp8_plans import FP8, casts, plan
from tests.support.scenarios import TINY

GATHERED = ["mlp.norm.out", "attention.norm.out"]
"""What sequence parallelism gathers in forward."""


def sharded(**more):
    return plan({"tensor": 2}, recipe="megatron_sp", **more).graph.blocks["layer"]


def of(block, phase):
    return [node for node in casts(block) if node.phase is phase]


def source(block, value):
    """What a value was before it was moved."""
    makers = {out: node for node in block.nodes for out in node.outputs}
    while isinstance(makers[value].operator, Movement):
        value = makers[value].inputs[0]
    return value


def test_what_was_cast_behind_a_gathering_is_gathered_and_cast_again():
    block = sharded()
    again = [node for node in of(block, Phase.BACKWARD) if node.name.endswith(".again")]
    assert [source(block, node.inputs[0]) for node in again] == GATHERED
    for node in again:
        (copy,) = node.outputs
        readers = [other for other in block.nodes if copy in other.inputs]
        assert [(reader.phase, reader.name.rpartition(".")[2]) for reader in readers] == [
            (Phase.BACKWARD, "wgrad")
        ]
        nodes = list(block.nodes)
        assert nodes.index(node) < nodes.index(readers[0])
    forward = {value for node in of(block, Phase.FORWARD) for value in node.outputs}
    late = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
    # Only what was not moved is kept.
    assert {source(block, value) for value in forward & late} == {
        "attention.core.out.fp8",
        "mlp.activation.out.fp8",
    }


def test_each_phase_makes_the_copies_that_it_reads():
    block = sharded(framework={"fp8_transposes": True})
    read = {phase: {v for node in block.phase(phase) for v in node.inputs} for phase in Phase}
    for node in casts(block):
        assert node.operator.copies == len(node.outputs)
        for value in node.outputs:
            assert any(value in values for values in read.values())
    moved = [node for node in of(block, Phase.FORWARD) if source(block, node.inputs[0]) in GATHERED]
    assert [node.operator.copies for node in moved] == [1, 1]


def test_a_copy_that_travels_itself_is_kept_as_it_was_made():
    block = sharded(precision={**FP8, "fp8": {"communication": "fp8"}})
    assert not [node for node in block.nodes if node.name.endswith(".again")]
    (cast,) = [node for node in casts(block) if node.inputs == ("mlp.norm.out",)]
    assert block.values[cast.outputs[0]].layout.dims == ((), ("tensor",), ())


def test_one_copy_of_what_is_gathered_travels_and_is_transposed_where_it_arrives():
    fp8 = {**FP8, "fp8": {"communication": "fp8"}}
    blocks = [
        sharded(precision=fp8, framework={"fp8_transposes": said}) for said in (False, True, "behind_gathers")
    ]
    alone, both, behind = ([node for node in block.nodes if _gathers_fp8(block, node)] for block in blocks)
    # Backward gathers two inputs and two gradients; of these both copies, if both travel.
    assert [len(gathers) for gathers in (alone, both, behind)] == [6, 8, 6]
    transposes = [node for node in blocks[2].nodes if isinstance(node.operator, Fp8Transpose)]
    assert len(transposes) == 4
    for node in transposes:
        (reader,) = [other for other in blocks[2].nodes if node.outputs[0] in other.inputs]
        assert reader.name.endswith("wgrad")
        assert blocks[2].values[node.outputs[0]].layout == blocks[1].values[node.outputs[0]].layout


@pytest.mark.parametrize("matmul", ["fp8", "mxfp8"])
@pytest.mark.parametrize(
    ("mesh", "more", "axes"),
    [
        ({"expert": 2}, {}, 1),
        ({"expert": 2, "tensor": 2}, {"recipe": "megatron_sp"}, 1),
        (
            {"expert": 2, "tensor": 2},
            {
                "recipe": "megatron_sp",
                "strategies": [{"match": "*.experts.*", "split": {"experts": ["expert", "tensor"]}}],
            },
            2,
        ),
    ],
    ids=["whole experts", "split experts", "experts over both axes"],
)
def test_tokens_of_experts_are_exchanged_in_one_copy_and_transposed_where_they_arrive(
    mesh, more, axes, matmul
):
    """Tokens in the forward, and in the backward the gradients that go back to the experts."""
    block = plan(
        mesh,
        precision={"compute": "bf16", "matmul": matmul, "fp8": {"communication": "fp8"}},
        host="dgx-b200" if matmul == "mxfp8" else "dgx-h100",
        model=TINY | {"experts": {"count": 4, "top_k": 2, "ffn": 64}},
        framework={"fp8_transposes": True},
        **more,
    ).graph.blocks["mixture"]
    sent = [
        node.phase
        for node in block.nodes
        if isinstance(node.operator, Movement)
        and node.operator.kind is MovementKind.ALL_TO_ALL
        and block.values[node.inputs[0]].type.dtype.bits == 8
    ]
    assert sent == [Phase.FORWARD] * axes + [Phase.BACKWARD] * axes
    made = {node.outputs[0] for node in block.nodes if isinstance(node.operator, Fp8Transpose)}
    for product in ("mlp.experts.up.wgrad", "mlp.experts.down.wgrad"):
        sources = [source(block, value) for value in block.node(product).inputs]
        assert not made.isdisjoint(sources)
    order = {value: at for at, node in enumerate(block.nodes) for value in node.outputs}
    for node in block.nodes:
        if isinstance(node.operator, Fp8Transpose):
            assert order[node.inputs[0]] < order[node.outputs[0]]


def _gathers_fp8(block, node):
    return isinstance(node.operator, Movement) and block.values[node.inputs[0]].type.dtype is DType.FP8


@pytest.mark.parametrize("sharding", ["fsdp", {"fsdp": {"reshard_after_forward": False}}])
def test_weights_that_are_gathered_for_each_use_are_cast_for_each_use(sharding):
    """Else whole fp8 weights of all layers would be kept from forward to backward."""
    block = plan({"data": 4}, optimizer_sharding=sharding).graph.blocks["layer"]
    assert Role.COPY not in {value.role for value in block.values.values()}
    weights = [
        node for node in casts(block) if ".gathered" in node.inputs[0] or ".regathered" in node.inputs[0]
    ]
    assert sorted(node.phase for node in weights) == [Phase.BACKWARD] * 7 + [Phase.FORWARD] * 7
    for node in weights:
        readers = {other.phase for other in block.nodes if not set(node.outputs).isdisjoint(other.inputs)}
        assert readers == {node.phase}


@pytest.mark.parametrize("weights", ["cast", "cast_twice"])
def test_fp32_weights_are_cast_to_fp8_directly(weights):
    """Under automatic mixed precision no 16-bit copy lies between; other weights still have one."""
    block = plan({"data": 2}, framework={"weights": weights}).graph.blocks["layer"]
    copies = [node for node in casts(block) if node.inputs[0] in block.parameters]
    assert len(copies) == 7
    assert {block.values[node.inputs[0]].type.dtype for node in copies} == {DType.FP32}
    assert {node.phase for node in copies} == {Phase.BEGIN}
    others = {node.inputs[0] for node in block.nodes if isinstance(node.operator, Cast)}
    assert others & set(block.parameters) == {"attention.norm.weight", "mlp.norm.weight"}


def test_without_copies_nothing_changes():
    graph = plan({"tensor": 2}, precision="bf16", recipe="megatron_sp").graph
    assert repeat_casts(graph).blocks == dict(graph.blocks)
    assert cast_once_per_step(graph).blocks == dict(graph.blocks)
    assert not any(isinstance(node.operator, Fp8Cast) for _, node in graph.nodes())


def test_the_pass_casts_a_weight_again_for_the_backward():
    plan = Fp8Plan(
        DType.FP8, ("layers.*.mlp.up",), gathers=False, exchanges=False, keep=True, transposed=False
    )
    before = quantise(pass_graphs.differentiated(DType.BF16), plan)
    block = cast_per_use(before).blocks["layer"]
    again = [node for node in of(block, Phase.BACKWARD) if node.name.endswith(".again")]
    assert [node.inputs for node in again] == [("mlp.up.gate.weight",), ("mlp.up.up.weight",)]
    copies = {node.outputs[0] for node in again}
    assert copies <= set(block.node("mlp.up.dgrad").inputs)
    names = {node.name for node in again}
    kept = [node for node in block.nodes if node.name not in names and node.name != "mlp.up.dgrad"]
    assert kept == [node for node in before.blocks["layer"].nodes if node.name != "mlp.up.dgrad"]


def test_the_pass_repeats_the_gather_and_the_cast_of_what_was_gathered():
    before = pass_graphs.in_fp8("megatron_sp")
    block, old = (one.blocks["layer"] for one in (repeat_casts(before), before))
    (again,) = [node for node in of(block, Phase.BACKWARD) if node.name.endswith(".again")]
    assert source(block, again.inputs[0]) == "mlp.norm.out"
    backward = list(block.phase(Phase.BACKWARD))
    at = backward.index(again)
    assert isinstance(backward[at - 1].operator, Movement)
    assert backward[at + 1].name == "mlp.up.wgrad"
    assert again.outputs[0] in backward[at + 1].inputs
    assert list(block.phase(Phase.FORWARD)) == list(old.phase(Phase.FORWARD))


def test_the_pass_casts_weights_that_nothing_moves_once_per_step():
    before = pass_graphs.in_fp8("data")
    block, old = (one.blocks["layer"] for one in (cast_once_per_step(before), before))
    weights = [node for node in casts(old) if node.inputs[0] in old.parameters]
    assert [node.name for node in of(block, Phase.BEGIN)] == [node.name for node in weights]
    assert {block.values[node.outputs[0]].role for node in of(block, Phase.BEGIN)} == {Role.COPY}
    both = (Phase.FORWARD, Phase.BACKWARD)
    assert list(block.phase(*both)) == [node for node in old.phase(*both) if node not in weights]


def test_both_copies_of_a_gradient_are_gathered_before_the_first_is_read():
    """The copy that is read first is gathered last, so that its reader waits for both."""
    block = sharded(framework={"quantised_gathers": True, "fp8_transposes": True})
    names = [node.name for node in block.phase(Phase.BACKWARD)]
    first = names.index("mlp.down.dgrad")
    assert names[first - 3 : first] == [
        "out.grad.cast",
        "out.grad.cast.all_gather2",
        "out.grad.cast.all_gather",
    ]
