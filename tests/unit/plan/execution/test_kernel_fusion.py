from __future__ import annotations

from simcluster.layout import Movement
from simcluster.model import Phase
from simcluster.plan.execution.kernel_fusion import fuse, kernel_nodes
from simcluster.plan.spec import FrameworkSpec
from tests.support.planned import GPT, LLAMA, plan

PAIRS = FrameworkSpec.load("ideal").fuse


def kernels(block, *phases):
    nodes = [node for node in block.nodes if node.phase in phases]
    return [[node.name for node in group] for group in kernel_nodes(nodes)]


def test_neighbours_of_a_listed_pair_run_as_one_kernel():
    block = plan({"data": 1}, model=GPT).graph.blocks["layer"]
    assert kernels(block, Phase.FORWARD) == [
        ["attention.norm"],
        ["attention.qkv", "attention.qkv.q.bias", "attention.qkv.k.bias", "attention.qkv.v.bias"],
        ["attention.core"],
        ["attention.out", "attention.out.bias", "attention.residual", "mlp.norm"],
        ["mlp.up", "mlp.up.bias", "mlp.activation"],
        ["mlp.down", "mlp.down.bias", "mlp.residual"],
    ]


def test_a_bias_that_the_next_kernel_can_add_is_left_to_it():
    block = fuse(plan({"data": 1}, model=GPT).graph, PAIRS, skip_bias_add=True).blocks["layer"]
    assert kernels(block, Phase.FORWARD) == [
        ["attention.norm"],
        ["attention.qkv", "attention.qkv.q.bias", "attention.qkv.k.bias", "attention.qkv.v.bias"],
        ["attention.core"],
        ["attention.out"],
        ["attention.out.bias", "attention.residual", "mlp.norm"],
        ["mlp.up"],
        ["mlp.up.bias", "mlp.activation"],
        ["mlp.down"],
        ["mlp.down.bias", "mlp.residual"],
    ]


def test_without_pairs_every_operator_is_launched_alone():
    graph = fuse(plan({"data": 1}, model=LLAMA).graph, ())
    for block in graph.blocks.values():
        alone = kernels(block, Phase.FORWARD, Phase.BACKWARD)
        assert all(len(group) == 1 for group in alone)


def test_a_collective_is_never_part_of_a_kernel():
    block = plan({"tensor": 2}, model=GPT).graph.blocks["layer"]
    for group in kernel_nodes(list(block.phase(Phase.FORWARD, Phase.BACKWARD))):
        collective = [isinstance(node.operator, Movement) and node.operator.is_collective for node in group]
        assert len(group) == 1 or not any(collective)


def test_only_what_reads_the_kernel_joins_it():
    block = plan({"data": 1}, model=LLAMA).graph.blocks["layer"]
    for group in kernel_nodes(list(block.phase(Phase.FORWARD, Phase.BACKWARD))):
        made: set[str] = set()
        for node in group:
            assert not made or made & set(node.inputs)
            made.update(node.outputs)


def test_phases_never_share_a_kernel():
    for block in plan({"data": 2}, model=LLAMA).graph.blocks.values():
        for group in kernel_nodes(list(block.nodes)):
            assert len({node.phase for node in group}) == 1


def test_updates_and_equal_reductions_of_a_block_run_together():
    layer = plan({"data": 2}, model=LLAMA).graph.blocks["layer"]
    end = kernels(layer, Phase.END)
    assert len(end) == 2
    assert [len(group) for group in end] == [9, 9]
    sharded = plan({"data": 2}, model=LLAMA, optimizer_sharding={"zero": 1}).graph.blocks["layer"]
    assert [len(group) for group in kernels(sharded, Phase.BEGIN)] == [9]


def test_reductions_over_other_axes_stay_apart():
    layer = plan({"data": 2, "tensor": 2}, model=LLAMA, recipe="megatron_sp").graph.blocks["layer"]
    reductions = [group for group in kernels(layer, Phase.END) if "all_reduce" in group[0]]
    assert sorted(map(len, reductions)) == [2, 7]


def test_fusing_twice_is_fusing_once():
    graph = plan({"data": 2}, model=GPT).graph
    assert fuse(graph, PAIRS) == graph
