"""What layers of transformers are written with: projections, norms, attention and MLPs, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simcluster.model.builder import BlockBuilder
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.norm import LayerNorm, RmsNorm
from simcluster.model.operators.pointwise import Add, Bias, Gelu

Labels = tuple[str, ...]

HIDDEN = ("batch", "seq", "hidden")
FFN = ("batch", "seq", "ffn")
QUERY = ("batch", "seq", "heads", "group", "head_dim")
KEY = ("batch", "seq", "heads", "head_dim")


def linear(
    build: BlockBuilder,
    name: str,
    x: str,
    left: Labels,
    weights: Mapping[str, Labels],
    sizes: Mapping[str, int],
    *,
    bias: bool,
) -> list[str]:
    """A projection of x, with dims ``left``, by one or more weights that share it; each may have a bias.

    ``weights`` maps the part's name (``q``, or nothing for a single weight) to the weight's dims, ``sizes``
    gives their extents. Parameters are called ``name.part.weight`` and ``name.part.bias``.
    """
    results = {
        part: tuple(dim for dim in left if dim not in labels)
        + tuple(dim for dim in labels if dim not in left)
        for part, labels in weights.items()
    }
    named = {part: f"{name}.{part}.weight" if part else f"{name}.weight" for part in weights}
    operands = [
        build.parameter(named[part], tuple(sizes[dim] for dim in labels)) for part, labels in weights.items()
    ]
    product = Matmul(left, tuple(weights.values()), tuple(results.values()))
    made = list(build.adds(name, product, x, *operands))
    if bias:
        for index, (part, labels) in enumerate(weights.items()):
            dims = tuple(dim for dim in labels if dim not in left)
            suffix = f"{part}.bias" if part else "bias"
            added = build.parameter(f"{name}.{suffix}", tuple(sizes[dim] for dim in dims))
            made[index] = build.add(f"{name}.{suffix}", Bias(results[part], dims), made[index], added)
    return made


@dataclass(frozen=True, slots=True)
class Layers:
    """Writes the parts of layers of one size into blocks; every head has keys and values of its own."""

    hidden: int
    heads: int
    head_dim: int
    ffn: int
    bias: bool = True
    layer_norm: bool = True
    eps: float = 1e-5

    @property
    def sizes(self) -> dict[str, int]:
        """Extents of the dims of weights."""
        return {
            "hidden": self.hidden,
            "heads": self.heads,
            "group": 1,
            "head_dim": self.head_dim,
            "ffn": self.ffn,
        }

    def norm(self, build: BlockBuilder, name: str, x: str, labels: Labels = HIDDEN) -> str:
        """Layer norm with scale and shift, or RMS norm with a scale."""
        weight = build.parameter(f"{name}.weight", (self.hidden,))
        if not self.layer_norm:
            return build.add(name, RmsNorm(labels, self.eps), x, weight)
        shift = build.parameter(f"{name}.bias", (self.hidden,))
        return build.add(name, LayerNorm(labels, self.eps), x, weight, shift)

    def residual(self, build: BlockBuilder, name: str, x: str, y: str) -> str:
        """``x + y``."""
        return build.add(name, Add(HIDDEN), x, y)

    def linear(
        self, build: BlockBuilder, name: str, x: str, left: Labels, weights: Mapping[str, Labels]
    ) -> list[str]:
        """A projection with the layer's sizes and biases."""
        return linear(build, name, x, left, weights, self.sizes, bias=self.bias)

    def attention(self, build: BlockBuilder, x: str) -> str:
        """Self-attention in both directions."""
        query, key = ("hidden", "heads", "group", "head_dim"), ("hidden", "heads", "head_dim")
        q, k, v = self.linear(build, "attention.qkv", x, HIDDEN, {"q": query, "k": key, "v": key})
        o = build.add("attention.core", Attention(causal=False), q, k, v)
        return self.projected(build, "attention.out", o)

    def projected(self, build: BlockBuilder, name: str, o: str) -> str:
        """What the heads found, back in the hidden size."""
        return self.linear(build, name, o, QUERY, {"": ("heads", "group", "head_dim", "hidden")})[0]

    def mlp(self, build: BlockBuilder, x: str) -> str:
        """Up, GELU, down."""
        (y,) = self.linear(build, "mlp.up", x, HIDDEN, {"": ("hidden", "ffn")})
        y = build.add("mlp.activation", Gelu(FFN), y)
        return self.linear(build, "mlp.down", y, FFN, {"": ("ffn", "hidden")})[0]
