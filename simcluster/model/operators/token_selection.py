"""The lightning indexer of DeepSeek-V3.2: which tokens each query attends to, by scores of its own.

``I[t, s] = factor * sum_h w[t, h] relu(q[t, h] . k[s])``, with one key for all heads (DeepSeek-V3.2, section
2.1; ``Indexer`` of its inference/model.py, from memory, which scales by 1 / sqrt(heads x head size)). The
Hadamard transform of its queries and keys there changes no product and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import Scores
from simcluster.model.graph import (
    Array,
    Operator,
    Region,
    Reorder,
    Rewrite,
    RingTurns,
    SequenceSlice,
    TensorType,
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

WHOLE = (
    ("seq", "a query chooses among the tokens before it, of which there are more for a later one"),
    ("keys", "the best are sought among all of them"),
    ("chosen", "the tokens of a query are chosen together"),
    ("index_heads", "scores are summed over them before they are compared"),
    ("index_dim", "scores are summed over it inside the operator"),
)
"""Dims of the indexer that no rank may split, and why."""

_SCORE_BYTES = 4
"""Scores are compared in fp32."""


class WholeSequences(Operator):
    """Base of the operators of sparse attention, which need whole sequences in their order."""

    def rewrite(self, request: Rewrite) -> Operator | None:
        """ValueError where sequences are split, ordered anew, or worked on slice by slice."""
        if isinstance(request, RingTurns | Reorder | SequenceSlice):
            raise ValueError("tokens are chosen among those of whole sequences (model.latent.sparse)")
        return None


def index_products(q: Array, k: Array) -> tuple[Array, Any]:
    """The products [batch, seq, index_heads, keys] of all pairs, and the factor of scores."""
    return contract("bqhd,bkd->bqhk", q, k), q.dtype.type((q.shape[-2] * q.shape[-1]) ** -0.5)


def chosen_pairs(ids: Array, keys: int) -> Array:
    """Whether a query [batch, seq] has chosen a key: booleans [batch, seq, keys]."""
    marks = np.zeros((*ids.shape[:-1], keys + 1), dtype=bool)
    np.put_along_axis(marks, ids, values=True, axis=-1)  # -1 is the last place, which is cut off
    return marks[..., :keys]


@dataclass(frozen=True, slots=True)
class SelectTokens(WholeSequences):
    """The ids [batch, seq, chosen] of the ``tokens`` best keys of every query: inputs are the indexer's
    queries [batch, seq, index_heads, index_dim], keys [batch, keys, index_dim] and weights [batch, seq,
    index_heads].

    Of equal ones the first is better; no query chooses a later token. Which are chosen has no gradient.
    """

    tokens: int

    kind: ClassVar[str] = "select_tokens"
    family: ClassVar[str] = "attention"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As many ids as there are keys, at most ``tokens``."""
        batch, seq = inputs[0].shape[:2]
        return (TensorType((batch, seq, min(self.tokens, inputs[1].shape[1])), DType.INT32),)

    def dims(self) -> Dims:
        """Every sequence stands alone."""
        return Dims(INDEXER, (CHOSEN,), unsplittable=WHOLE)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """A product for every pair of which the key is not later, whose fp32 scores go through memory once,
        tile by tile; and one pass over them that keeps the best.
        """
        batch, seq, heads, size = inputs[0].shape
        pairs = Scores().pairs(seq, inputs[1].shape[1])  # of a query and a key, twice their number
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
        marks = Scores().masked(marks, region)
        ids = np.argsort(-marks, axis=-1, kind="stable")[..., : self.tokens]
        return (np.where(np.isfinite(np.take_along_axis(marks, ids, axis=-1)), ids, -1),)
