"""The backward in two halves: what other stages wait for, and the rest."""

from __future__ import annotations

import pytest

from simcluster.model import Phase, Role
from simcluster.model.operators.matmul import Matmul, MatmulSum
from simcluster.plan.autodiff.backward_split import split_backward
from simcluster.plan.recompute.selective_recompute import SUFFIX
from tests.support import pass_graphs
from tests.support.planned import GPT, LLAMA, plan

MESH = {"pipeline": 2, "data": 2, "tensor": 2}
OPTIONS = [
    {},
    {"recompute": {"layers": "all"}},
    {"recompute": {"operators": ["layers.*.mlp.activation"]}, "recipe": "megatron_sp"},
    {"optimizer_sharding": {"zero": 2}},
    {"optimizer_sharding": {"zero": 3}},
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)
every_model = pytest.mark.parametrize("model", [LLAMA, GPT], ids=["llama", "gpt"])


def blocks(model, options):
    """(block in one, block in two halves) of every block."""
    whole = plan(MESH, model=model, schedule="1f1b", **options).graph
    split = plan(MESH, model=model, schedule="zb_h1", **options).graph
    assert list(whole.blocks) == list(split.blocks)
    return list(zip(whole.blocks.values(), split.blocks.values(), strict=True))


def leads(block) -> set[str]:
    """The backward nodes from which a path leads to a gradient of what enters the block."""
    backward = list(block.phase(Phase.BACKWARD, Phase.WEIGHTS))
    out = {block.gradients[value] for value in block.inputs if value in block.gradients}
    found: set[str] = set()
    while True:
        reached = {value for node in backward if node.name in found for value in node.inputs} | out
        more = {node.name for node in backward if not reached.isdisjoint(node.outputs)} - found
        if not more:
            return found
        found |= more


@every_option
@every_model
def test_the_halves_are_the_whole(model, options):
    for whole, split in blocks(model, options):
        assert sorted(node.name for node in whole.nodes) == sorted(node.name for node in split.nodes)
        for phase in (Phase.BACKWARD, Phase.WEIGHTS):
            names = [node.name for node in split.phase(phase)]
            assert names == [node.name for node in whole.phase(Phase.BACKWARD) if node.name in names]
        assert not list(whole.phase(Phase.WEIGHTS))


@every_option
@every_model
def test_the_second_half_is_what_nobody_else_waits_for(model, options):
    for _, block in blocks(model, options):
        first = {node.name for node in block.phase(Phase.BACKWARD)}
        needed = leads(block)
        assert needed <= first
        # Beside these: what is computed again, and what reads weights that are gathered for the first half.
        for name in first - needed:
            roles = {block.values[value].role for value in block.node(name).inputs}
            assert name.endswith(SUFFIX) or Role.GATHERED in roles
        late = {value for node in block.phase(Phase.WEIGHTS) for value in node.outputs}
        assert late.isdisjoint(value for node in block.phase(Phase.BACKWARD) for value in node.inputs)
        assert not any(node.name.endswith(SUFFIX) for node in block.phase(Phase.WEIGHTS))


@every_option
@every_model
def test_the_products_for_weights_are_all_in_the_second_half(model, options):
    """Of a layer's matrix products a third is forward, a third each half; so zero bubble can fill bubbles."""
    for _, block in blocks(model, options):
        if not block.name.startswith("layer"):
            continue
        count = {
            phase: sum(
                isinstance(node.operator, Matmul | MatmulSum) and not node.name.endswith(SUFFIX)
                for node in block.phase(phase)
            )
            for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS)
        }
        assert count[Phase.FORWARD] == count[Phase.BACKWARD] == count[Phase.WEIGHTS] > 0


def test_what_is_made_of_no_input_has_a_second_half_only():
    (embedding,) = (block for _, block in blocks(GPT, {}) if block.name.startswith("embedding"))
    assert not list(embedding.phase(Phase.BACKWARD))
    assert any(embedding.phase(Phase.WEIGHTS))


def test_the_pass_moves_weight_gradients_behind_and_changes_nothing_else():
    before = pass_graphs.sharded()
    graph = split_backward(before)
    old, block = (one.blocks["layer"] for one in (before, graph))
    weights = [node.name for node in block.phase(Phase.WEIGHTS)]
    assert weights == ["mlp.down.wgrad", "mlp.up.wgrad", "attention.out.wgrad", "attention.qkv.wgrad"]
    assert [node.name for node in block.nodes[-4:]] == weights
    kept = [node for node in block.nodes if node.phase is not Phase.WEIGHTS]
    assert kept == [node for node in old.nodes if node.name not in weights]
    # Nothing leads out of an embedding but the gradients of its weights.
    assert not any(graph.blocks["embedding"].phase(Phase.BACKWARD))
