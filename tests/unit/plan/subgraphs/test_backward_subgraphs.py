"""Which backward operators run in the graphs of pieces."""

from __future__ import annotations

from simcluster.model import Phase
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.plan.rules.subgraph_rule import ShardRequest
from simcluster.plan.sharding.graph_sharding import shard
from simcluster.plan.subgraphs.backward_subgraphs import assign_backward_to_subgraphs
from simcluster.plan.subgraphs.subgraph import assign_subgraphs
from simcluster.work import DType
from tests.support import pass_graphs
from tests.support.pass_graphs import MESH, recipe_strategies
from tests.support.plan_graphs import router

MLP = ShardRequest("layers.*.mlp.{up,activation,down}", None, None, (), None, 0, "parallel.shard.0")


def test_operators_know_their_piece():
    before = pass_graphs.forward()
    graph, pieces = assign_subgraphs(before, [MLP])
    block = graph.block_of(graph.instances[1])
    inside = {node.name for node in block.nodes if node.piece}
    assert inside == {"mlp.up", "mlp.activation", "mlp.down"}
    (piece,) = pieces[block.name]
    assert (set(piece.nodes), piece.inputs, piece.outputs) == (inside, ("mlp.norm.out",), ("mlp.down.out",))
    assert not any(node.piece for name in ("embedding", "head") for node in graph.blocks[name].nodes)


def test_gradients_and_movements_of_a_piece_are_part_of_it():
    forward, _ = assign_subgraphs(pass_graphs.forward(), [MLP])
    logical = differentiate(forward, DType.FP32)
    before = shard(logical, recipe_strategies(forward, "megatron", MESH), MESH, router(MESH))
    graph = assign_backward_to_subgraphs(before)
    block = graph.block_of(graph.instances[1])
    inside = [node.name for node in block.phase(Phase.FORWARD) if node.piece]
    assert inside == ["mlp.up", "mlp.activation", "mlp.down", "mlp.down.all_reduce"]
    assert [node.name for node in block.phase(Phase.BACKWARD) if node.piece] == [
        "mlp.down.dgrad",
        "mlp.down.wgrad",
        "mlp.activation.grad",
        "mlp.up.dgrad",
        "mlp.up.wgrad",
        "mlp.up.dgrad.all_reduce",
    ]


def test_without_pieces_nothing_changes():
    graph = pass_graphs.sharded()
    assert assign_backward_to_subgraphs(graph).blocks == graph.blocks
    assert assign_subgraphs(graph, []) == (graph, {})
