"""Multi-head latent attention (arXiv 2405.04434, section 2.1): queries, keys and values out of low ranks.

Keys and values of all heads are made from one short vector per token; positions turn a part of their own,
which all heads of keys share. Written as it is trained, with keys and values of every head; or ``absorbed``,
for kernels that read the short vector itself in place of both: what makes keys is then multiplied into the
queries, what makes values follows attention (section 2.1.2, the mode of multi-query attention).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import BlockBuilder, Labels
from simcluster.model.layers.lightning_indexer import LightningIndexer
from simcluster.model.layers.transformer_layers import HIDDEN, KEY, QUERY, linear
from simcluster.model.operators import JoinHeads, Matmul, RmsNorm, Rotary
from simcluster.model.shard_counts import ShardCounts


@dataclass(frozen=True, slots=True)
class LatentOperands:
    """What attention reads, by the names of the values.

    Queries [batch, seq, heads, group, ..], keys and values [batch, seq, heads, ..], and with sparse attention
    the ids of chosen tokens and the indexer's queries, keys and weights. ``heads`` is 1 if absorbed, else
    ``group`` is.
    """

    q: str
    k: str
    v: str
    ids: str = ""
    indexer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Sizes of latent attention, named as in the scenario's model section.

    ``q_rank`` and ``kv_rank``: the short vectors of queries (0: queries come from the hidden state), and of
    keys and values. Heads of queries and keys have ``nope_dim`` elements without and ``rope_dim`` with
    positions, those of values ``value_dim``. ``sparse``: what chooses the tokens a query attends to; None: it
    attends to all before it.
    """

    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    q_rank: int = 0
    sparse: LightningIndexer | None = None

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
            sparse=self.sparse and self.sparse.shrunk(),
        )

    def write(
        self,
        build: BlockBuilder,
        x: str,
        hidden: int,
        heads: int,
        theta: float,
        *,
        absorbed: bool = False,
    ) -> LatentOperands:
        """What attention reads."""
        sizes = {"hidden": hidden, "heads": heads, "group": 1}
        if absorbed:
            sizes |= {"heads": 1, "group": heads}
        sizes |= {"q_rank": self.q_rank, "kv_rank": self.kv_rank}
        sizes |= {"nope_dim": self.nope_dim, "rope_dim": self.rope_dim, "value_dim": self.value_dim}

        def made(name: str, y: str, left: Labels, weights: Mapping[str, Labels]) -> list[str]:
            return linear(build, name, y, left, weights, sizes, bias=False)

        rank, y = "hidden", x
        if self.q_rank:
            rank = "q_rank"
            (y,) = made("attention.latent.q", x, HIDDEN, {"": ("hidden", rank)})
            y = self._norm(build, "attention.latent.q_norm", y, ("batch", "seq", rank), self.q_rank)
        extents = (hidden, self.q_rank, self.rope_dim)
        sparse = self.sparse.write(build, x, y, extents, theta) if self.sparse else ("", ())
        heads_of = {
            "nope": (rank, "heads", "group", "nope_dim"),
            "rope": (rank, "heads", "group", "rope_dim"),
        }
        q_own, q_placed = made("attention.query", y, ("batch", "seq", rank), heads_of)
        latent = ("heads", "kv_rank") if absorbed else ("kv_rank",)
        short = {"latent": ("hidden", *latent), "rope": ("hidden", "rope_dim")}
        y, k_placed = made("attention.latent.kv", x, HIDDEN, short)
        y = self._norm(build, "attention.latent.kv_norm", y, ("batch", "seq", *latent), self.kv_rank)
        rotary = Rotary((QUERY, (*HIDDEN[:-1], "head_dim")), theta)
        joined = JoinHeads(KEY[:-1], self.kv_rank if absorbed else self.nope_dim, ("heads",))
        if absorbed:
            q_own = self._absorbed(build, "attention.query.absorbed", q_own, heads, "nope_dim", back=True)
            q_placed, k_placed = build.adds("attention.rotary", rotary, q_placed, k_placed)
            q = build.add("attention.query.heads", JoinHeads(QUERY[:-1], self.kv_rank), q_own, q_placed)
            return LatentOperands(q, build.add("attention.kv.heads", joined, y, k_placed), y, *sparse)
        parts = {"k": ("kv_rank", "heads", "nope_dim"), "v": ("kv_rank", "heads", "value_dim")}
        k_own, v = made("attention.kv", y, ("batch", "seq", "kv_rank"), parts)
        q_placed, k_placed = build.adds("attention.rotary", rotary, q_placed, k_placed)
        q = build.add("attention.query.heads", JoinHeads(QUERY[:-1], self.nope_dim), q_own, q_placed)
        return LatentOperands(q, build.add("attention.kv.heads", joined, k_own, k_placed), v, *sparse)

    def values(self, build: BlockBuilder, o: str, heads: int) -> str:
        """The values of every head from what absorbed attention gives."""
        return self._absorbed(build, "attention.kv.absorbed", o, heads, "value_dim", back=False)

    def _absorbed(self, build: BlockBuilder, name: str, y: str, heads: int, dim: str, *, back: bool) -> str:
        """Heads times the weights that make keys or values of a latent vector; ``back``: to that vector."""
        size = self.nope_dim if back else self.value_dim
        part = "k" if back else "v"
        weight = build.parameter(f"attention.kv.{part}.weight", (self.kv_rank, 1, heads, size))
        tokens, latent, own = ("batch", "seq", "heads", "group"), "kv_rank", dim
        one, other = (own, latent) if back else (latent, own)
        product = Matmul((*tokens, one), ((latent, *tokens[2:], own),), ((*tokens, other),))
        return build.add(name, product, y, weight)

    def _norm(self, build: BlockBuilder, name: str, x: str, labels: Labels, size: int) -> str:
        weight = build.parameter(f"{name}.weight", (size,))
        return build.add(name, RmsNorm(labels), x, weight)
