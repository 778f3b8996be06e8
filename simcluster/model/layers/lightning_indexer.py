"""The indexer of DeepSeek sparse attention (DSA): small heads that choose the tokens a query attends to."""

from __future__ import annotations

from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import BlockBuilder, Labels
from simcluster.model.operators import DetachedMatmul, LayerNorm, Matmul, Rotary, SelectTokens

_HIDDEN = ("batch", "seq", "hidden")
_QUERY = ("batch", "seq", "index_heads", "head_dim")
_KEY = ("batch", "seq", "head_dim")


@dataclass(frozen=True, slots=True)
class LightningIndexer:
    """Sizes of an indexer (DeepSeek-V3.2, section 2.1), named as in the scenario's model section.

    ``heads`` of ``head_dim`` elements, of which the first turn with positions as in latent attention, choose
    ``tokens`` tokens for every query. Queries come from the latent vector of attention's queries, one key
    with a layer norm and the weights of heads from the hidden state. None of these learns from attention.
    """

    heads: int
    head_dim: int
    tokens: int

    def shrunk(self) -> LightningIndexer:
        """Small sizes; fewer tokens than sequences have."""
        return replace(
            self, heads=min(self.heads, 3), head_dim=min(self.head_dim, 4), tokens=min(self.tokens, 2)
        )

    def write(
        self, build: BlockBuilder, x: str, latent: str, sizes: tuple[int, int, int], theta: float
    ) -> tuple[str, tuple[str, str, str]]:
        """The ids of chosen tokens [batch, seq, chosen]; and the indexer's queries, keys and weights.

        ``x`` is the hidden state, ``latent`` that of queries; ``sizes`` are those of the two, and how many
        elements of a head turn.
        """
        hidden, rank, placed = sizes
        q = self._made(build, "query", latent, ("batch", "seq", "q_rank"), _QUERY[2:], rank)
        k = self._made(build, "key", x, _HIDDEN, _KEY[2:], hidden)
        norm = [build.parameter(f"attention.indexer.norm.{name}", (self.head_dim,)) for name in _AFFINE]
        k = build.add("attention.indexer.norm", LayerNorm(_KEY), k, *norm)
        rotary = Rotary((_QUERY, _KEY), theta, fraction=placed / self.head_dim)
        q, k = build.adds("attention.indexer.rotary", rotary, q, k)
        weights = self._made(build, "weights", x, _HIDDEN, _QUERY[2:3], hidden)
        made = (q, k, weights)
        return build.add("attention.indexer.select", SelectTokens(self.tokens), *made), made

    def _made(self, build: BlockBuilder, name: str, x: str, left: Labels, right: Labels, size: int) -> str:
        extent = {"index_heads": self.heads, "head_dim": self.head_dim}
        name = f"attention.indexer.{name}"
        weight = build.parameter(f"{name}.weight", (size, *(extent[dim] for dim in right)))
        product = Matmul(left, ((left[-1], *right),), ((*left[:-1], *right),))
        return build.add(name, DetachedMatmul(product), x, weight)


_AFFINE = ("weight", "bias")
