"""From scores to attention weights: which keys a query sees, and what its distance to them costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import Array, Region, TensorType, Zigzag, token_positions
from simcluster.work import Kernel, Work

LABELS = ("batch", "heads", "group", "seq", "keys")
"""The dims of scores: key-value heads, and the query heads that each of them serves."""

QUERY = ("batch", "seq", "heads", "group", "head_dim")
"""The dims of queries."""

STATISTICS = ("batch", "heads", "group", "seq")
"""The dims of the log-sum-exp of every row of scores."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The mask and the biases of attention scores [batch, heads, group, seq, keys] before the softmax.

    ``causal``: a query sees no later keys. ``window``: of the earlier ones it sees only the last so many,
    itself included; 0 for all. ``alibi``: minus a slope per head times the distance is added (arXiv
    2108.12409); (heads, group) of the whole model, or None. ``order``: the order of queries and keys along
    the sequence, if it is not that of their positions.
    """

    causal: bool = True
    window: int = 0
    alibi: tuple[int, int] | None = None
    order: Zigzag | None = None

    def pairs(self, queries: int, keys: int) -> int:
        """Twice the number of (query, key) pairs that are computed: half of the square for a causal triangle.

        Fewer queries than keys, a slice in zigzag order, have an equal share of it.
        """
        if not self.causal:
            return 2 * queries * keys
        hidden = max(0, keys - self.window) if self.window else 0
        if self.order is not None:
            return queries * keys - hidden * hidden * queries // keys
        return queries * keys - hidden * max(0, queries - self.window)

    def masked(self, scores: Array, region: Region) -> Array:
        """The scores with their penalties, -inf where a query does not see a key."""
        rows, columns = scores.shape[-2:]
        distance = np.subtract.outer(
            token_positions(self.order, region.start("seq"), rows),
            token_positions(self.order, region.start("keys"), columns),
        )
        if self.alibi is not None:
            heads, group = scores.shape[1:3]
            first, part = region.start("heads"), region.start("group")
            table = np.array(alibi_slopes(self.alibi[0] * self.alibi[1])).reshape(self.alibi)
            # Padding may lie beyond the last head.
            rows = np.minimum(first + np.arange(heads), self.alibi[0] - 1)
            columns = np.minimum(part + np.arange(group), self.alibi[1] - 1)
            slopes = table[np.ix_(rows, columns)][..., None, None]
            scores = scores - (slopes * np.abs(distance)).astype(scores.dtype)
        if self.causal:
            seen = distance >= 0
            if self.window:
                seen &= distance < self.window
            scores = np.where(seen, scores, -np.inf).astype(scores.dtype)
        return np.asarray(scores)


def attention_work(
    rule: Scores,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    *,
    keys: int,
    value_dim: int | None,
    backward: bool,
    before: int = 0,
) -> tuple[Work, ...]:
    """One attention kernel of queries ``inputs[0]`` [batch, seq, heads, group, head_dim] on ``keys`` keys.

    The first ``before`` keys lie before all queries.

    Two products per pair of query and key; the gradient five: the scores again and four gradients. Pairs are
    those of whole sequences up to the last key less those before the queries. ``value_dim``: the size of
    values where it is not that of keys.
    """
    batch, queries, heads, group, head_dim = inputs[0].shape
    value_size = head_dim if value_dim is None else value_dim
    products = 3 * head_dim + 2 * value_size if backward else head_dim + value_size
    pairs = rule.pairs(before + queries, keys) - (rule.pairs(before, before) if before else 0)
    return (
        Work(
            Kernel.ATTENTION,
            inputs[0].dtype,
            flops=products * batch * heads * group * pairs,
            bytes_read=sum(tensor.num_bytes for tensor in inputs),
            bytes_written=sum(tensor.num_bytes for tensor in outputs),
            sizes=(
                ("b", batch),
                ("h", heads * group),
                ("sq", queries),
                ("skv", keys),
                ("d", head_dim),
                *((("dv", value_dim),) if value_dim is not None else ()),
                ("causal", int(rule.causal)),
                *((("before", before),) if before else ()),
                ("backward", int(backward)),
            ),
        ),
    )


@cache
def alibi_slopes(heads: int) -> tuple[float, ...]:
    """ALiBi's slope of every head: powers of ``2^(-8/n)``, n the largest power of two in ``heads``.

    The heads beyond n get every second slope of 2n heads, as in the paper's code (BLOOM has 112 heads).
    """
    base = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (index + 1) / base) for index in range(base)]
    extra = [2.0 ** (-4 * (index + 1) / base) for index in range(0, 2 * (heads - base), 2)]
    return tuple(slopes + extra)
