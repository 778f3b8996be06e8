"""Sequences in zigzag order and ring attention: which operators change, and what is refused."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.model import RingTurns
from simcluster.model.graph import TensorType
from simcluster.plan.sequence.sequence_order import balance_causal_order, to_ring_attention
from simcluster.work import DType
from tests.support import pass_graphs
from tests.support.plan_graphs import LLAMA

PATH = "parallel.context"


def changed(before, after):
    """The operators that a pass has replaced, by block."""
    assert before.instances == after.instances
    return {
        f"{name}.{old.name}": new.operator
        for name, block in before.blocks.items()
        for old, new in zip(block.nodes, after.blocks[name].nodes, strict=True)
        if old != new
    }


def test_what_asks_where_tokens_stand_is_told_their_order():
    graph = LLAMA.graph(4, 8, DType.FP32, 32)
    found = changed(graph, balance_causal_order(graph, 2, PATH))
    assert set(found) == {"layer.attention.rotary", "layer.attention.core"}
    assert {(operator.order.slices, operator.order.length) for operator in found.values()} == {(2, 8)}


def test_sequences_that_are_not_split_stay_in_order():
    graph = pass_graphs.forward()
    assert balance_causal_order(graph, 1, PATH) is graph


def test_two_chunks_for_every_rank_make_up_a_sequence():
    with pytest.raises(PlanError, match="do not make up sequences of 4 tokens") as refused:
        balance_causal_order(pass_graphs.forward(), 4, PATH)
    assert refused.value.problems[0].path == PATH


def test_attention_goes_around_in_as_many_turns_as_there_are_slices():
    graph = pass_graphs.forward()
    found = changed(graph, to_ring_attention(graph, 2, PATH))
    assert [(name, operator.turns) for name, operator in found.items()] == [("layer.attention.core", 2)]
    with pytest.raises(PlanError, match="turns need equal parts"):
        to_ring_attention(graph, 3, PATH)


def test_turns_that_mask_compute_every_score_twice_the_causal_work():
    graph = pass_graphs.forward()
    works = []
    for masked in (False, True):
        (operator,) = changed(graph, to_ring_attention(graph, 2, PATH, masked=masked)).values()
        # Ranks ask again for the turns of their own mesh, and keep how these are computed.
        again = operator.rewrite(RingTurns(2, operator.slice_length * 2))
        steps = [part[1] for part in again.decompose(frozenset({"seq"})).parts if "turn" in part[0]]
        q = TensorType((1, 4, 2, 1, 8), DType.FP32)
        k = TensorType((1, 4, 2, 8), DType.FP32)
        works.append([step.work((q, k, k), step.infer((q, k, k)))[0].flops for step in steps])
    assert works[1] == [2 * flops for flops in works[0]]


def test_products_and_softmax_by_themselves_take_no_turns():
    plain = LLAMA.computed(flash=False, logits=None).graph(4, 4, DType.FP32, 16)
    with pytest.raises(PlanError, match="nothing in this model takes turns"):
        to_ring_attention(plain, 2, PATH)
