from __future__ import annotations

from simcluster.layout import Movement
from simcluster.model import Phase, Role
from simcluster.plan.recompute import recompute
from tests.unit.plan.graphs import told
from tests.unit.plan.planned import plan

MESH = {"data": 2, "tensor": 2}


def test_only_layers_are_recomputed():
    graph = plan(MESH, recompute={"layers": "all"}).graph
    assert [each.block for each in graph.instances] == ["embedding", *["layer.recompute"] * 4, "head"]


def test_the_whole_forward_runs_again_with_its_collectives():
    kept, again = (plan(MESH, recompute={"layers": each}).graph for each in ("none", "all"))
    plain, block = kept.blocks["layer"], again.blocks["layer.recompute"]
    forward = [node.name for node in plain.phase(Phase.FORWARD)]
    assert [node.name for node in block.phase(Phase.FORWARD)] == forward
    backward = [node.name for node in block.phase(Phase.BACKWARD)]
    assert backward[: len(forward)] == [f"{name}.recompute" for name in forward]
    assert backward[len(forward) :] == [node.name for node in plain.phase(Phase.BACKWARD)]
    assert told(block, Phase.BACKWARD) == ["all_reduce tensor"] * 4


def test_backward_reads_only_what_enters_the_layer_and_what_it_made_again():
    block = plan(MESH, recompute={"layers": "all"}).graph.blocks["layer.recompute"]
    made = {value for node in block.phase(Phase.FORWARD) for value in node.outputs}
    read = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
    assert not made & read
    known = {*block.inputs, *block.parameters, *block.gradients.values()}
    for node in block.phase(Phase.BACKWARD):
        assert set(node.inputs) <= known
        known.update(node.outputs)


def test_recomputed_values_are_laid_out_like_the_first_ones():
    block = plan(MESH, recompute={"layers": "all"}).graph.blocks["layer.recompute"]
    for node in block.phase(Phase.FORWARD):
        for value in node.outputs:
            first, again = block.values[value], block.values[f"{value}.recompute"]
            assert (first.type, first.layout) == (again.type, again.layout)
            assert again.role is Role.ACTIVATION
    copies = [node for node in block.nodes if node.name.endswith(".recompute")]
    for node in copies:
        first = block.node(node.name.removesuffix(".recompute"))
        assert (node.operator, node.strategy, node.masked) == (first.operator, first.strategy, first.masked)
        assert node.source == first.source or isinstance(node.operator, Movement)


def test_a_recomputed_loss_is_not_added_again():
    graph = recompute(plan({"data": 2}).graph, "head")
    head = graph.blocks["head.recompute"]
    assert head.values[head.loss].role is Role.ACCUMULATOR
    assert head.values[f"{head.loss}.recompute"].role is Role.ACTIVATION


def test_a_pattern_that_fits_nothing_changes_nothing():
    graph = plan({"data": 2}).graph
    assert recompute(graph, "nothing") == graph
