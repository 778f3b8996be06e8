"""The lightning indexer of DeepSeek-V3.2: which tokens each query attends to, by scores of its own.

``I[t, s] = factor * sum_h w[t, h] relu(q[t, h] . k[s])``, with one key for all heads (DeepSeek-V3.2, section
2.1; ``Indexer`` of its inference/model.py, from memory, which scales by 1 / sqrt(heads x head size)). The
Hadamard transform of its queries and keys there changes no product and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import Scores
from simcluster.model.graph import (
    Array,
    Labels,
    Operator,
    Region,
    Reorder,
    Rewrite,
    RingTurns,
    SequenceSlice,
    TensorType,
    Zigzag,
)
from simcluster.model.operators.contraction import contract
from simcluster.work import DType, Kernel, Work

CHOSEN = ("batch", "seq", "chosen")
"""The dims of the ids of chosen tokens: for each query, the best first; -1 where it sees fewer."""

INDEXER = (
    ("batch", "seq", "index_heads", "index_dim"),
    ("batch", "keys", "index_dim"),
    ("batch", "seq", "index_heads"),
)
"""The dims of the indexer's queries, keys and weights of heads."""

_SEQ = ("seq", "a query chooses among the tokens before it, of which there are more for a later one")

_WHOLE = (
    ("keys", "the best are sought among all of them"),
    ("chosen", "the tokens of a query are chosen together"),
    ("index_heads", "scores are summed over them before they are compared"),
    ("index_dim", "scores are summed over it inside the operator"),
)
_SCORE_BYTES = 4
"""Scores are compared in fp32."""


def whole_dims(order: Zigzag | None, *operands: Labels) -> tuple[tuple[str, str], ...]:
    """Which dims of operands may not be split: all of the indexer's, and sequences if they lie in no order in
    which parts of them have equal work.
    """
    names = {name for labels in operands for name in labels}
    return tuple(pair for pair in (_WHOLE if order is not None else (_SEQ, *_WHOLE)) if pair[0] in names)


def refuse_parts(request: Rewrite) -> None:
    """ValueError where keys would go around in a ring, or sequences be worked on slice by slice."""
    if isinstance(request, RingTurns | SequenceSlice):
        raise ValueError("sparse attention chooses among the keys of whole sequences: gather them")


def index_products(q: Array, k: Array) -> tuple[Array, Any]:
    """The products [batch, seq, index_heads, keys] of all pairs, and the factor of scores."""
    return contract("bqhd,bkd->bqhk", q, k), q.dtype.type((q.shape[-2] * q.shape[-1]) ** -0.5)


def chosen_pairs(ids: Array, keys: int) -> Array:
    """Whether a query [batch, seq] has chosen a key: booleans [batch, seq, keys]."""
    marks = np.zeros((*ids.shape[:-1], keys + 1), dtype=bool)
    np.put_along_axis(marks, ids, values=True, axis=-1)  # -1 is the last place, which is cut off
    return marks[..., :keys]


@dataclass(frozen=True, slots=True)
class SelectTokens(Operator):
    """The ids [batch, seq, chosen] of the ``tokens`` best keys of every query: inputs are the indexer's
    queries [batch, seq, index_heads, index_dim], keys [batch, keys, index_dim] and weights [batch, seq,
    index_heads].

    Of equal ones the first is better; no query chooses a later token. Which are chosen has no gradient. Ids
    say where keys lie; ``order`` is that of tokens.
    """

    tokens: int
    order: Zigzag | None = None

    kind: ClassVar[str] = "select_tokens"
    family: ClassVar[str] = "attention"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As many ids as there are keys, at most ``tokens``."""
        batch, seq = inputs[0].shape[:2]
        return (TensorType((batch, seq, min(self.tokens, inputs[1].shape[1])), DType.INT32),)

    def dims(self) -> Dims:
        """Every sequence stands alone."""
        return Dims(INDEXER, (CHOSEN,), unsplittable=whole_dims(self.order, *INDEXER, CHOSEN))

    def rewrite(self, request: Rewrite) -> Operator | None:
        """In an order; ValueError for parts of sequences."""
        refuse_parts(request)
        return replace(self, order=request.order) if isinstance(request, Reorder) else None

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """A product for every pair of which the key is not later, whose fp32 scores go through memory once,
        tile by tile; and one pass over them that keeps the best.
        """
        batch, seq, heads, size = inputs[0].shape
        pairs = Scores(order=self.order).pairs(
            seq, inputs[1].shape[1]
        )  # of a query and a key, twice their number
        scores = batch * pairs * _SCORE_BYTES // 2
        product = Work(
            Kernel.GEMM,
            inputs[0].dtype,
            flops=batch * heads * size * pairs,
            bytes_read=sum(tensor.num_bytes for tensor in inputs),
            bytes_written=scores,
            sizes=(("b", batch), ("m", seq * heads), ("n", -(-pairs // (2 * seq))), ("k", size)),
        )
        best = Work(
            Kernel.REDUCTION,
            DType.FP32,
            flops=batch * pairs // 2,
            bytes_read=scores,
            bytes_written=outputs[0].num_bytes,
        )
        return (product, best)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The ids."""
        q, k, weights = inputs
        products, factor = index_products(q, k)
        marks = contract("bqhk,bqh->bqk", np.maximum(products, 0), weights) * factor
        marks = Scores(order=self.order).masked(marks, region)
        ids = np.argsort(-marks, axis=-1, kind="stable")[..., : self.tokens]
        seen = np.isfinite(np.take_along_axis(marks, ids, axis=-1))
        return (np.where(seen, ids, -1).astype(np.int32),)
