"""What the indexer of sparse attention learns from: how the heads share their attention among chosen tokens.

Per query the loss is ``KL(p || softmax(I))`` over its chosen tokens, with p the mean over heads of their
attention weights (DeepSeek-V3.2, section 2.1, sparse stage). p is a constant: only the indexer learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import QUERY, STATISTICS, Scores
from simcluster.model.graph import Array, Operator, Region, TensorType, Zigzag
from simcluster.model.operators.contraction import contract
from simcluster.model.operators.token_selection import (
    CHOSEN,
    INDEXER,
    chosen_pairs,
    index_products,
    whole_dims,
)
from simcluster.work import DType, Kernel, Work

_KEY = ("batch", "keys", "heads", "head_dim")
_WHOLE_HEADS = ("head_dim", "scores are summed over it inside the operator")


@dataclass(frozen=True, slots=True)
class IndexerLoss:
    """The loss of an indexer: ``scale`` times the sum over queries; it learns from so many ``heads``.

    ``gathered``: its gradient is computed from the chosen tokens alone, else from the whole causal triangle.
    ``order`` is that of tokens.
    """

    heads: int
    scale: float
    gathered: bool = True
    order: Zigzag | None = None

    def rule(self, chosen: int) -> Scores:
        """Which pairs of queries and keys are computed: as many as with a window, if these are chosen."""
        return Scores(window=chosen if self.gathered else 0, order=self.order)


@dataclass(frozen=True, slots=True)
class AttendedShares(Operator):
    """The attention weights that each chosen token gets, summed over heads: queries, keys, ids [batch, seq,
    chosen] and the log-sum-exp of every row to fp32 [batch, seq, chosen].

    ``scale`` multiplies products of queries and keys. Where heads are split, sums are partial.
    """

    loss: IndexerLoss
    scale: float

    kind: ClassVar[str] = "attended_shares"
    family: ClassVar[str] = "attention"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A share for every id."""
        return (TensorType(inputs[2].shape, DType.FP32),)

    def dims(self) -> Dims:
        """Heads are summed; each one's weights follow from its statistics."""
        whole = (*whole_dims(self.loss.order, _KEY, CHOSEN), _WHOLE_HEADS)
        # No weight is left of a head of infinite statistics.
        neutral = ((3, np.inf),)
        return Dims((QUERY, _KEY, CHOSEN, STATISTICS), (CHOSEN,), unsplittable=whole, neutral=neutral)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """The products of queries and keys once more; each query reads its keys for itself if gathered."""
        q, k, ids, statistics = inputs
        batch, seq, heads, group, size = q.shape
        pairs = self.loss.rule(ids.shape[-1]).pairs(seq, k.shape[1])  # twice their number
        rows = batch * heads * pairs // 2 * size if self.loss.gathered else k.num_elements
        read = q.num_bytes + rows * k.dtype.itemsize + ids.num_bytes + statistics.num_bytes
        # Gathered, every query has keys of its own.
        apart, together = (seq, 1) if self.loss.gathered else (1, seq)
        return (
            Work(
                Kernel.GEMM,
                q.dtype,
                flops=batch * heads * group * pairs * size,
                bytes_read=read,
                bytes_written=outputs[0].num_bytes,
                sizes=(
                    ("b", batch * apart * heads),
                    ("m", together * group),
                    ("n", -(-pairs // (2 * seq))),
                    ("k", size),
                ),
            ),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Weights by scores and statistics, summed."""
        q, k, ids, statistics = inputs
        scores = contract("bqhgd,bkhd->bhgqk", q, k) * q.dtype.type(self.scale) - statistics[..., None]
        seen = chosen_pairs(ids, k.shape[1])[:, None, None] & np.isfinite(statistics)[..., None]
        shares = np.exp(np.where(seen, scores, -np.inf)).sum(axis=(1, 2))
        return (np.where(ids >= 0, np.take_along_axis(shares, np.maximum(ids, 0), axis=-1), 0),)


@dataclass(frozen=True, slots=True)
class IndexerLossGrad(Operator):
    """The gradients of the indexer's queries, keys and weights by its loss, from these, the ids of chosen
    tokens and what all heads together attend to them.
    """

    loss: IndexerLoss

    kind: ClassVar[str] = "indexer_loss_grad"
    family: ClassVar[str] = "attention"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like queries, keys and weights."""
        return tuple(inputs[:3])

    def dims(self) -> Dims:
        """Every sequence stands alone."""
        return Dims(
            (*INDEXER, CHOSEN, CHOSEN), INDEXER, unsplittable=whole_dims(self.loss.order, *INDEXER, CHOSEN)
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Three products for every pair of a query and one of its tokens, back to back: the scores again, and
        the gradients of queries and of keys; keys are read by each query, and added to in fp32.
        """
        q, k, weights, ids, shares = inputs
        batch, seq, heads, size = q.shape
        pairs = self.loss.rule(ids.shape[-1]).pairs(seq, k.shape[1])  # twice their number
        rows = batch * pairs // 2 * size if self.loss.gathered else k.num_elements
        apart, together = (seq, 1) if self.loss.gathered else (1, seq)
        return (
            Work(
                Kernel.GEMM,
                q.dtype,
                flops=3 * batch * pairs * heads * size,
                bytes_read=sum(tensor.num_bytes for tensor in (q, weights, ids, shares))
                + rows * k.dtype.itemsize,
                bytes_written=q.num_bytes + weights.num_bytes + rows * DType.FP32.itemsize,
                sizes=(
                    ("b", batch * apart),
                    ("m", together * heads),
                    ("n", -(-pairs // (2 * seq))),
                    ("k", 3 * size),
                ),
            ),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``dI = scale (softmax(I) - p)``, back through the sum over heads and through relu."""
        q, k, weights, ids, shares = inputs
        products, factor = index_products(q, k)
        positive = np.maximum(products, 0)
        scores = contract("bqhk,bqh->bqk", positive, weights) * factor
        seen = chosen_pairs(ids, k.shape[1])
        raised = np.where(
            seen, np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf, where=seen)), 0
        )
        target = np.zeros((*ids.shape[:-1], k.shape[1] + 1), dtype=scores.dtype)
        np.put_along_axis(target, ids, shares.astype(scores.dtype), axis=-1)
        slopes = raised / raised.sum(axis=-1, keepdims=True) - target[..., :-1] / self.loss.heads
        slopes *= factor * scores.dtype.type(self.loss.scale)
        back = np.where(products > 0, slopes[:, :, None] * weights[..., None], 0)
        dq, dk = contract("bqhk,bkd->bqhd", back, k), contract("bqhk,bqhd->bkd", back, q)
        return (dq, dk, contract("bqhk,bqk->bqh", positive, slopes))
