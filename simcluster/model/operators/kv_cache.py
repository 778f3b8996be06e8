"""The cache of generation: what attention keeps of the tokens it has read, and attention over it.

A cache [flights, batch, positions, ...] has room for every token that a sequence will have. The sequences
that take turns in a pipeline are ``flights`` of it: the number of their micro-batch says which one is theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import QUERY, Scores
from simcluster.model.graph import (
    Array,
    Labels,
    MemoryBound,
    MemoryPass,
    Operator,
    Region,
    TensorType,
    memory_bound,
)
from simcluster.model.operators.contraction import contract
from simcluster.work import DType, Kernel, Work

_WHOLE = (
    ("flights", "the number of a micro-batch says which of them is read and written"),
    ("positions", "where a token is kept depends on no rank's share"),
)


def cache_dims(labels: Labels) -> Labels:
    """The dims of a cache of what has ``labels`` (batch, seq, ...)."""
    return ("flights", labels[0], "positions", *labels[2:])


@dataclass(frozen=True, slots=True)
class CacheWrite(Operator):
    """Caches with the tokens from ``position`` on: inputs are the caches, then what is written into each.

    ``operands`` are the dims of what is written, (batch, seq, ...). All is one launch, as with paged caches
    (vLLM's reshape_and_cache).
    """

    operands: tuple[Labels, ...]
    position: int

    kind: ClassVar[str] = "cache_write"
    family: ClassVar[str] = "gather"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The caches."""
        return tuple(inputs[: len(self.operands)])

    def dims(self) -> Dims:
        """Of the tokens a rank keeps its heads; they stand behind each other, in whole sequences."""
        caches = tuple(map(cache_dims, self.operands))
        whole = (*_WHOLE, ("seq", "tokens are kept where they stand in their sequence"))
        return Dims((*caches, *self.operands), caches, unsplittable=whole)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads and writes the new tokens, not the cache."""
        count = len(self.operands)
        new = inputs[count:]
        made = [TensorType(x.shape, cache.dtype) for x, cache in zip(new, outputs, strict=True)]
        return (memory_bound(Kernel.GATHER_SCATTER, new, made),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The caches with the new tokens of this micro-batch."""
        count = len(self.operands)
        caches = []
        for cache, x in zip(inputs[:count], inputs[count:], strict=True):
            made = cache.copy()
            made[region.micro_batch, :, self.position : self.position + x.shape[1]] = x
            caches.append(made)
        return tuple(caches)


@dataclass(frozen=True, slots=True)
class CachedAttention(Operator):
    """Attention of queries [batch, seq, heads, group, head_dim] from ``position`` on to a cache of keys and
    one of values [flights, batch, positions, heads, head_dim], those of their own tokens among them.

    ``rule`` and ``scale`` are those of attention without a cache.
    """

    position: int
    rule: Scores
    scale: float

    kind: ClassVar[str] = "cached_attention"
    family: ClassVar[str] = "attention"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the queries."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Heads and sequences stand alone; nothing partial passes."""
        cache = cache_dims(("batch", "seq", "heads", "head_dim"))
        whole = (
            *_WHOLE,
            ("seq", "a query sees the tokens before it, of which there are more for a later one"),
            ("head_dim", "scores are summed over it inside the operator"),
        )
        return Dims((QUERY, cache, cache), (QUERY,), unsplittable=whole)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads the keys and values that any query sees, each once for all queries that share them; every
        query meets all of these.
        """
        query, keys, _ = inputs
        batch, queries, heads, group, head_dim = query.shape
        seen = min(
            self.position + queries, self.rule.window + queries - 1 if self.rule.window else keys.shape[2]
        )
        read = 2 * keys.dtype.num_bytes(batch * seen * heads * head_dim)
        return (
            Work(
                Kernel.ATTENTION,
                query.dtype,
                flops=4 * batch * heads * group * head_dim * queries * seen,
                bytes_read=query.num_bytes + read,
                bytes_written=outputs[0].num_bytes,
                sizes=(
                    ("b", batch),
                    ("h", heads * group),
                    ("sq", queries),
                    ("skv", seen),
                    ("d", head_dim),
                    ("causal", 0),
                    ("backward", 0),
                ),
            ),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The values found, by the scores of all tokens up to each query's own."""
        query, keys, values = inputs
        end = self.position + query.shape[1]
        flight = (region.micro_batch, slice(None), slice(0, end))
        k, v = keys[flight], values[flight]
        scores = contract("bqhgd,bkhd->bhgqk", query, k) * query.dtype.type(self.scale)
        placed = replace(region, starts={**region.starts, "seq": self.position, "keys": 0})
        scores = self.rule.masked(scores, placed)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        return (contract("bhgqk,bkhd->bqhgd", weights, v),)


@dataclass(frozen=True, slots=True)
class Greedy(MemoryBound):
    """The likeliest token: of logits [batch, seq, vocab] the id [batch, seq] of the largest, the first of
    equals. Only the first ``known`` of the vocabulary are tokens, the rest pads it.
    """

    known: int

    kind: ClassVar[str] = "greedy"
    family: ClassVar[str] = "reduction"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Ids."""
        return (TensorType(inputs[0].shape[:-1], DType.INT64),)

    def dims(self) -> Dims:
        """The vocabulary is compared as a whole."""
        whole = (("vocab", "all logits of a token are compared inside the operator"),)
        return Dims((("batch", "seq", "vocab"),), (("batch", "seq"),), unsplittable=whole)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The ids."""
        return (np.asarray(inputs[0][..., : self.known].argmax(axis=-1)),)
