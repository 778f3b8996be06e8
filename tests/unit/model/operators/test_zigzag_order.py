"""Zigzag order: equal slices of causal attention, and the same mathematics as in the order of tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.model import Region
from simcluster.model.attributes.attention_scores import Scores
from simcluster.model.graph.rewrite import Reorder
from simcluster.model.graph.zigzag_order import Zigzag, token_positions
from simcluster.model.operators.attention import Attention, AttentionGrad
from simcluster.model.operators.embedding import PositionRows, Positions, PositionsGrad
from simcluster.model.operators.rotary import Rotary
from simcluster.model.operators.softmax import Softmax

WHOLE = Region({})
ORDER = Zigzag(2, 8)
LIE = ORDER.positions(0, 8)
QUERY = ("batch", "seq", "heads", "group", "head_dim")


def test_slice_r_holds_chunk_r_and_the_one_as_far_from_the_end():
    assert LIE.tolist() == [0, 1, 6, 7, 2, 3, 4, 5]
    assert ORDER.positions(4, 4).tolist() == [2, 3, 4, 5]
    assert token_positions(None, 4, 3).tolist() == [4, 5, 6]


@given(st.integers(1, 8), st.integers(1, 5))
def test_every_slice_sees_as_many_keys(slices, chunk):
    length = 2 * slices * chunk
    order = Zigzag(slices, length)
    assert sorted(order.positions(0, length)) == list(range(length))
    seen = [
        (order.positions(start, length // slices) + 1).sum() for start in range(0, length, length // slices)
    ]
    assert set(seen) == {length * (length + 1) // 2 // slices}


def draw(*shapes):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape) for shape in shapes]


def moved(array, dim):
    return np.take(array, LIE, axis=dim)


QKV = ((2, 8, 2, 2, 4), (2, 8, 2, 4), (2, 8, 2, 4))


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"alibi": (2, 2)}, {"causal": False}])
def test_attention_gives_what_it_gives_in_the_order_of_tokens(options):
    plain, ordered = Attention(**options), Attention(**options).rewrite(Reorder(ORDER))
    q, k, v = draw(*QKV)
    output, statistics = plain.evaluate((q, k, v), WHOLE)
    found = ordered.evaluate((moved(q, 1), moved(k, 1), moved(v, 1)), WHOLE)
    np.testing.assert_allclose(found[0], moved(output, 1))
    np.testing.assert_allclose(found[1], moved(statistics, 3))
    (grad,) = draw(q.shape)
    back = AttentionGrad(**options)
    wanted = back.evaluate((q, k, v, output, statistics, grad), WHOLE)
    inputs = (moved(q, 1), moved(k, 1), moved(v, 1), *found, moved(grad, 1))
    grads = AttentionGrad(**options, order=ORDER).evaluate(inputs, WHOLE)
    for each, other in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(each, moved(other, 1), atol=1e-12)


def test_what_tells_positions_apart_does_so_in_the_order_too():
    (x, table) = draw((2, 8, 6), (10, 6))
    for operator, inputs in (
        (Positions(1), (x, table)),
        (PositionRows(), (np.zeros((2, 8), dtype=int), table)),
        (Rotary((("batch", "seq", "head_dim"),)), (x,)),
    ):
        (wanted,) = operator.evaluate(inputs, WHOLE)
        (found,) = operator.rewrite(Reorder(ORDER)).evaluate((moved(inputs[0], 1), *inputs[1:]), WHOLE)
        np.testing.assert_allclose(found, moved(wanted, 1))
    (rows,) = PositionsGrad(1).evaluate((x, table), WHOLE)
    np.testing.assert_allclose(PositionsGrad(1, ORDER).evaluate((moved(x, 1), table), WHOLE)[0], rows)
    (scores,) = draw((2, 2, 2, 8, 8))
    (wanted,) = Softmax(rule=Scores(window=3)).evaluate((scores,), WHOLE)
    found = (
        Softmax(rule=Scores(window=3)).rewrite(Reorder(ORDER)).evaluate((moved(moved(scores, 3), 4),), WHOLE)
    )
    np.testing.assert_allclose(found[0], moved(moved(wanted, 3), 4))


@pytest.mark.parametrize(("window", "rounded"), [(0, 0), (3, 1)])
def test_the_work_of_slices_is_that_of_the_whole(window, rounded):
    """In a window the number of pairs need not divide."""
    scores = Scores(window=window, order=Zigzag(4, 16))
    assert abs(4 * scores.pairs(4, 16) - scores.pairs(16, 16)) <= 4 * rounded
    assert Scores(window=window).pairs(16, 16) == scores.pairs(16, 16)
