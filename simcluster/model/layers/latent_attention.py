"""Multi-head latent attention (arXiv 2405.04434, section 2.1): queries, keys and values out of low ranks.

Keys and values of all heads are made from one short vector per token; positions turn a part of their own,
which all heads of keys share. Written as it is trained, with keys and values of every head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import BlockBuilder, Labels
from simcluster.model.layers.transformer_layers import HIDDEN, KEY, QUERY, linear
from simcluster.model.operators import JoinHeads, RmsNorm, Rotary
from simcluster.model.shard_counts import ShardCounts


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Sizes of latent attention, named as in the scenario's model section.

    ``q_rank`` and ``kv_rank``: the short vectors of queries (0: queries come from the hidden state), and of
    keys and values. Heads of queries and keys have ``nope_dim`` elements without and ``rope_dim`` with
    positions, those of values ``value_dim``.
    """

    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    q_rank: int = 0

    @property
    def head_dim(self) -> int:
        """Elements of a head of queries and keys."""
        return self.nope_dim + self.rope_dim

    def shrunk(self, ways: ShardCounts) -> LatentAttention:
        """Small sizes that stay different and divide as these do."""
        return replace(
            self,
            q_rank=min(self.q_rank, ways("q_rank", 12)),
            kv_rank=min(self.kv_rank, ways("kv_rank", 8)),
            nope_dim=min(self.nope_dim, ways("nope_dim", 4)),
            rope_dim=min(self.rope_dim, 2),
            value_dim=min(self.value_dim, ways("value_dim", 3)),
        )

    def write(
        self, build: BlockBuilder, x: str, hidden: int, heads: int, theta: float
    ) -> tuple[str, str, str]:
        """Queries [batch, seq, heads, 1, head_dim], keys and values [batch, seq, heads, ..]."""
        sizes = {"hidden": hidden, "heads": heads, "group": 1}
        sizes |= {"q_rank": self.q_rank, "kv_rank": self.kv_rank}
        sizes |= {"nope_dim": self.nope_dim, "rope_dim": self.rope_dim, "value_dim": self.value_dim}

        def made(name: str, y: str, left: Labels, weights: Mapping[str, Labels]) -> list[str]:
            return linear(build, name, y, left, weights, sizes, bias=False)

        rank, y = "hidden", x
        if self.q_rank:
            rank = "q_rank"
            (y,) = made("attention.latent.q", x, HIDDEN, {"": ("hidden", rank)})
            y = self._norm(build, "attention.latent.q_norm", y, rank, self.q_rank)
        heads_of = {
            "nope": (rank, "heads", "group", "nope_dim"),
            "rope": (rank, "heads", "group", "rope_dim"),
        }
        q_own, q_placed = made("attention.query", y, ("batch", "seq", rank), heads_of)
        short = {"latent": ("hidden", "kv_rank"), "rope": ("hidden", "rope_dim")}
        y, k_placed = made("attention.latent.kv", x, HIDDEN, short)
        y = self._norm(build, "attention.latent.kv_norm", y, "kv_rank", self.kv_rank)
        parts = {"k": ("kv_rank", "heads", "nope_dim"), "v": ("kv_rank", "heads", "value_dim")}
        k_own, v = made("attention.kv", y, ("batch", "seq", "kv_rank"), parts)
        rotary = Rotary((QUERY, (*HIDDEN[:-1], "head_dim")), theta)
        q_placed, k_placed = build.adds("attention.rotary", rotary, q_placed, k_placed)
        q = build.add("attention.query.heads", JoinHeads(QUERY[:-1], self.nope_dim), q_own, q_placed)
        joined = JoinHeads(KEY[:-1], self.nope_dim, ("heads",))
        return q, build.add("attention.kv.heads", joined, k_own, k_placed), v

    def _norm(self, build: BlockBuilder, name: str, x: str, label: str, size: int) -> str:
        weight = build.parameter(f"{name}.weight", (size,))
        return build.add(name, RmsNorm(("batch", "seq", label)), x, weight)
