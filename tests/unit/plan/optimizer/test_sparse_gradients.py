"""Gradients of tables as ids and rows: which parameters have them, and what else stays."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.model import Role
from simcluster.model.operators.optimizer import AdamW
from simcluster.model.operators.sparse_optimizers import LazyAdam
from simcluster.plan.optimizer.sparse_gradients import sparse_parameters, use_sparse_gradients
from tests.support import pass_graphs


def test_the_table_of_one_lookup_has_ids_and_rows():
    before = pass_graphs.differentiated()
    graph = use_sparse_gradients(before, LazyAdam(), 1)
    assert sparse_parameters(graph) == ["embedding.tokens.weight"]
    block = graph.block_of(graph.instances[0])
    rows, ids = block.row_gradients["tokens.weight"]
    assert [block.values[name].type.shape for name in (rows, ids)] == [(4, 4, 8), (4, 4)]
    assert {block.values[name].role for name in (rows, ids)} == {Role.ACCUMULATOR}
    assert "tokens.weight" not in block.gradients
    assert {name: graph.blocks[name] for name in ("layer", "head")} == {
        name: before.blocks[name] for name in ("layer", "head")
    }


def test_a_rule_for_whole_parameters_changes_nothing():
    graph = pass_graphs.differentiated()
    assert use_sparse_gradients(graph, AdamW(), 4).blocks == graph.blocks


def test_they_cannot_be_added_up():
    with pytest.raises(PlanError, match=r"cannot add up the gradient of 'embedding\.tokens\.weight'"):
        use_sparse_gradients(pass_graphs.differentiated(), LazyAdam(), 2)
