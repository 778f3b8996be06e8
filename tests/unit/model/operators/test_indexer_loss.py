"""The indexer's gradient against its loss, by finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.model import Region
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.indexer_loss import AttendedShares, IndexerLoss, IndexerLossGrad
from simcluster.model.operators.sparse_attention import SparseAttention
from simcluster.model.operators.token_selection import SelectTokens

WHOLE = Region({})
BATCH, SEQ, HEADS, TOKENS, SCALE = 2, 6, 3, 3, 0.25


def divergence(indexer, ids, shares):
    """``scale`` times the sum over queries of KL(p || softmax(I)) over chosen tokens, pair by pair."""
    q, k, weights = indexer
    total = 0.0
    for b, t in np.ndindex(BATCH, SEQ):
        tokens = [token for token in ids[b, t] if token >= 0]
        factor = (q.shape[2] * q.shape[3]) ** -0.5
        marks = np.array([weights[b, t] @ np.maximum(q[b, t] @ k[b, s], 0) * factor for s in tokens])
        own = marks - np.log(np.exp(marks).sum())
        p = shares[b, t, : len(tokens)] / HEADS
        total += (p * (np.log(p) - own)).sum()
    return SCALE * total


def test_its_gradient_is_that_of_the_divergence_from_what_heads_attend_to():
    rng = np.random.default_rng(5)
    indexer = [rng.standard_normal(shape) for shape in ((BATCH, SEQ, 2, 4), (BATCH, SEQ, 4), (BATCH, SEQ, 2))]
    q, k, v = (rng.standard_normal((BATCH, SEQ, HEADS, *rest)) for rest in ((1, 4), (4,), (4,)))
    (ids,) = SelectTokens(TOKENS).evaluate(indexer, WHOLE)
    _, statistics = SparseAttention(Attention(scale=0.5)).evaluate((q, k, v, ids), WHOLE)
    loss = IndexerLoss(HEADS, SCALE)
    (shares,) = AttendedShares(loss, 0.5).evaluate((q, k, ids, statistics), WHOLE)
    assert np.allclose(shares.sum(axis=-1), HEADS)
    gradients = IndexerLossGrad(loss).evaluate((*indexer, ids, shares), WHOLE)
    for index, gradient in enumerate(gradients):
        direction = rng.standard_normal(gradient.shape)
        ahead, behind = (
            divergence(
                [*indexer[:index], indexer[index] + step * direction, *indexer[index + 1 :]], ids, shares
            )
            for step in (1e-6, -1e-6)
        )
        assert (gradient * direction).sum() == pytest.approx((ahead - behind) / 2e-6, rel=1e-5)
