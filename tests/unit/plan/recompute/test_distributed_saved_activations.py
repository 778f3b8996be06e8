"""What recomputed layers keep of their inputs: a part on each of the ranks that hold the same."""

from __future__ import annotations

from simcluster.layout import Layout
from simcluster.model import Phase
from simcluster.plan.recompute.distributed_saved_activations import distribute_saved_inputs, is_distributed
from simcluster.plan.recompute.layer_recompute import recompute
from tests.support import pass_graphs
from tests.support.pass_graphs import MESH
from tests.support.plan_graphs import router, told


def recomputed():
    return recompute(pass_graphs.sharded(), {"layers.0", "layers.1"})


def test_an_input_is_cut_in_the_forward_and_gathered_for_the_backward():
    before = recomputed()
    graph = distribute_saved_inputs(before, MESH, ["tensor"], router(MESH))
    assert is_distributed(graph) and not is_distributed(before)
    block = graph.block_of(graph.instances[1])
    assert block.values["in.part"].layout == Layout((("data", "tensor"), (), ()))
    cut, *_ = block.nodes
    assert (cut.inputs, cut.outputs, cut.phase) == (("in",), ("in.part",), Phase.FORWARD)
    gathered = next(block.phase(Phase.BACKWARD))
    assert (gathered.inputs, gathered.outputs) == (("in.part",), ("in.whole",))
    assert told(block, Phase.BACKWARD)[0] == "all_gather tensor"
    assert "in" not in {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}


def test_layers_that_keep_everything_are_left_alone():
    graph = pass_graphs.sharded()
    assert distribute_saved_inputs(graph, MESH, ["tensor"], router(MESH)).blocks == graph.blocks


def test_over_axes_that_split_the_input_nothing_is_the_same():
    graph = recomputed()
    assert not is_distributed(distribute_saved_inputs(graph, MESH, ["data"], router(MESH)))
