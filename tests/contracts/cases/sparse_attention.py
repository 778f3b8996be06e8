"""Cases of the operators of sparse attention."""

from __future__ import annotations

import numpy as np

from simcluster.model.graph.zigzag_order import Zigzag
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.detached_matmul import DetachedMatmul
from simcluster.model.operators.indexer_loss import AttendedShares, IndexerLoss, IndexerLossGrad
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.sparse_attention import SparseAttention, SparseAttentionGrad
from simcluster.model.operators.token_selection import SelectTokens
from tests.contracts.operator_case import WHOLE, Case, Draw, normal

_TOKENS = 4
_INDEXER = ((4, 8, 4, 2), (4, 8, 2), (4, 8, 4))
_QKV = ((4, 8, 4, 4, 4), (4, 8, 4, 4), (4, 8, 4, 2))
_ORDER = Zigzag(4, 8)
_SHARE = "a slice of causal queries computes rightly but does more or less work than another"
_CHOSEN = "the tokens of a query stay together where they are chosen"
_VALUES = "with the statistics of whole rows values could be split, but no forward is"


def _whole(order: Zigzag | None) -> Attention:
    return Attention(own_values=True, scale=0.5, order=order)


def _attended(order: Zigzag | None = None) -> Draw:
    def draw(rng):
        (ids,) = SelectTokens(_TOKENS, order).evaluate(normal(*_INDEXER)(rng), WHOLE)
        return (*normal(*_QKV)(rng), ids)

    return draw


def _grad(order: Zigzag | None = None) -> Draw:
    def draw(rng):
        inputs = _attended(order)(rng)
        made = SparseAttention(_whole(order)).evaluate(inputs, WHOLE)
        return (*inputs, *made, rng.standard_normal(made[0].shape))

    return draw


def _shares(order: Zigzag | None = None) -> Draw:
    def draw(rng):
        q, k, v, ids = _attended(order)(rng)
        _, statistics = SparseAttention(_whole(order)).evaluate((q, k, v, ids), WHOLE)
        return q, k, ids, statistics

    return draw


def _loss_grad(order: Zigzag | None = None) -> Draw:
    def draw(rng):
        inputs = normal(*_INDEXER)(rng)
        (ids,) = SelectTokens(_TOKENS, order).evaluate(inputs, WHOLE)
        return (*inputs, ids, np.where(ids >= 0, rng.random(ids.shape), 0))

    return draw


CASES = (
    Case("select_tokens", SelectTokens(_TOKENS), normal(*_INDEXER), unsplit={"seq": _SHARE}),
    Case("select_tokens in zigzag order", SelectTokens(_TOKENS, _ORDER), normal(*_INDEXER)),
    Case(
        "sparse_attention",
        SparseAttention(_whole(None)),
        _attended(),
        (0,),
        unsplit={"seq": _SHARE},
        # Values are parts of keys, where they are latent vectors.
        reads_part=frozenset({2}),
    ),
    Case(
        "sparse_attention with a mask",
        SparseAttention(_whole(_ORDER), gathered=False),
        _attended(_ORDER),
        (0,),
    ),
    Case(
        "sparse_attention_grad",
        SparseAttentionGrad(_whole(None)),
        _grad(),
        unsplit={"seq": _SHARE, "chosen": _CHOSEN, "value_dim": _VALUES},
    ),
    Case(
        "sparse_attention_grad in zigzag order",
        SparseAttentionGrad(_whole(_ORDER)),
        _grad(_ORDER),
        unsplit={"chosen": _CHOSEN, "value_dim": _VALUES},
    ),
    Case(
        "attended_shares",
        AttendedShares(IndexerLoss(16, 1.0), 0.5),
        _shares(),
        unsplit={"seq": _SHARE, "chosen": _CHOSEN},
    ),
    Case(
        "attended_shares in zigzag order",
        AttendedShares(IndexerLoss(16, 1.0, False, _ORDER), 0.5),
        _shares(_ORDER),
        unsplit={"chosen": _CHOSEN},
    ),
    Case("indexer_loss_grad", IndexerLossGrad(IndexerLoss(2, 0.5)), _loss_grad(), unsplit={"seq": _SHARE}),
    Case(
        "indexer_loss_grad in zigzag order",
        IndexerLossGrad(IndexerLoss(2, 0.5, False, _ORDER)),
        _loss_grad(_ORDER),
    ),
    Case(
        "detached_matmul",
        DetachedMatmul(Matmul(("batch", "hidden"), (("hidden", "ffn"),), (("batch", "ffn"),))),
        normal((8, 8), (8, 8)),
        (0,),
        untrained=frozenset({0}),
    ),
)
