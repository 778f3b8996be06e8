"""What layers of transformers are written with: projections, norms, attention and MLPs, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simcluster.deferred_dataclass import dataclass
from simcluster.model.attributes import LABELS as SCORES
from simcluster.model.attributes import Scores
from simcluster.model.graph import BlockBuilder, Labels, Operator
from simcluster.model.operators import (
    Add,
    Attention,
    Bias,
    ClampedSwiglu,
    Dropout,
    Geglu,
    Gelu,
    LayerNorm,
    Matmul,
    Relu,
    RmsNorm,
    Softmax,
    SquaredRelu,
    Swiglu,
)

HIDDEN = ("batch", "seq", "hidden")
FFN = ("batch", "seq", "ffn")
LOGITS = ("batch", "seq", "vocab")
QUERY = ("batch", "seq", "heads", "group", "head_dim")
KEY = ("batch", "seq", "heads", "head_dim")
KEYS = ("batch", "keys", "heads", "head_dim")

PLAIN: Mapping[str, Callable[[Labels], Operator]] = {"gelu": Gelu, "relu": Relu, "squared_relu": SquaredRelu}
GATED: Mapping[str, Callable[[Labels], Operator]] = {
    "swiglu": Swiglu,
    "geglu": Geglu,
    "clamped_swiglu": ClampedSwiglu,
}

ATTENTION_CORES = "layers.*.attention.core"
"""What a pattern calls the attention kernels of all layers of a decoder."""

Q_WEIGHT = ("hidden", "heads", "group", "head_dim")
K_WEIGHT = ("hidden", "heads", "head_dim")


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
    stems = {part: f"{name}.{part}" if part else name for part in weights}
    operands = [
        build.parameter(f"{stems[part]}.weight", tuple(sizes[dim] for dim in labels))
        for part, labels in weights.items()
    ]
    product = Matmul(left, tuple(weights.values()), tuple(results.values()))
    made = list(build.adds(name, product, x, *operands))
    if bias:
        for index, (part, labels) in enumerate(weights.items()):
            dims = tuple(dim for dim in labels if dim not in left)
            added = build.parameter(f"{stems[part]}.bias", tuple(sizes[dim] for dim in dims))
            made[index] = build.add(f"{stems[part]}.bias", Bias(results[part], dims), made[index], added)
    return made


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """Attention of queries to keys and values: mask, scale, dropout of weights, one kernel or several.

    ``scale`` multiplies products of queries and keys before anything is added to them. ``own_values``: heads
    of values have a size of their own; ``head_multiple``: as of ``Attention``.
    """

    rule: Scores
    scale: float
    dropout: float = 0.0
    flash: bool = True
    own_values: bool = False
    head_multiple: int = 0

    def write(self, build: BlockBuilder, name: str, q: str, k: str, v: str, bias: str | None = None) -> str:
        """The operators called ``name``; ``bias`` [heads, group, seq, keys] is added to scores."""
        added = [] if bias is None else [bias]
        if self.flash:
            rule = self.rule
            core = Attention(
                rule.causal,
                rule.window,
                rule.alibi,
                self.dropout,
                name,
                self.scale,
                biased=bool(added),
                own_values=self.own_values,
                head_multiple=self.head_multiple,
            )
            return build.add(name, core, q, k, v, *added)
        scores = build.add(f"{name}.scores", Matmul(QUERY, (KEYS,), (SCORES,)), q, k)
        scale = self.scale
        if bias is not None:
            assert scale == 1, "a bias is added to scores that are not scaled"
            scores = build.add(f"{name}.bias", Bias(SCORES, SCORES[1:]), scores, bias)
        weights = build.add(f"{name}.softmax", Softmax(scale, self.rule), scores)
        if self.dropout:
            weights = build.add(f"{name}.dropout", Dropout(SCORES, self.dropout, name), weights)
        return build.add(f"{name}.context", Matmul(SCORES, (KEYS,), (QUERY,)), weights, v)


@dataclass(frozen=True, slots=True)
class Layers:
    """Writes the parts of layers of one size into blocks; every head has keys and values of its own."""

    hidden: int
    """Size of the hidden state."""
    heads: int
    """Heads of queries, keys and values."""
    head_dim: int
    """Elements of a head."""
    ffn: int
    """Inner size of the MLP."""
    bias: bool = True
    """Whether projections have biases."""
    layer_norm: bool = True
    """Layer norm with scale and shift; else RMS norm with a scale."""
    eps: float = 1e-5
    """Added to the variance in norms."""
    activation: str = "gelu"
    """Activation of the MLP, a key of ``PLAIN`` or ``GATED``."""
    scaled: bool = True
    """Whether scores are divided by the root of the head's size."""
    dropout: float = 0.0
    """Rate of dropout behind each part of a layer."""
    attention_dropout: float = 0.0
    """Rate of dropout of attention weights."""
    inner_dropout: bool = False
    """Whether the MLP drops behind its activation, too."""
    flash: bool = True
    """Whether attention is one kernel that keeps no scores."""

    @property
    def sizes(self) -> dict[str, int]:
        """Extents of the dims of weights."""
        sizes = {"hidden": self.hidden, "heads": self.heads, "group": 1}
        return sizes | {"head_dim": self.head_dim, "ffn": self.ffn}

    def norm(self, build: BlockBuilder, name: str, x: str, labels: Labels = HIDDEN) -> str:
        """Layer norm with scale and shift, or RMS norm with a scale."""
        weight = build.parameter(f"{name}.weight", (self.hidden,))
        if not self.layer_norm:
            return build.add(name, RmsNorm(labels, self.eps), x, weight)
        shift = build.parameter(f"{name}.bias", (self.hidden,))
        return build.add(name, LayerNorm(labels, self.eps), x, weight, shift)

    def dropped(self, build: BlockBuilder, name: str, x: str, labels: Labels = HIDDEN) -> str:
        """The value after dropout, if there is any."""
        return build.add(name, Dropout(labels, self.dropout, name), x) if self.dropout else x

    def residual(self, build: BlockBuilder, part: str, x: str, y: str) -> str:
        """``x + y``, with dropout on y."""
        y = self.dropped(build, f"{part}.dropout", y)
        return build.add(f"{part}.residual", Add(HIDDEN), x, y)

    def linear(
        self, build: BlockBuilder, name: str, x: str, left: Labels, weights: Mapping[str, Labels]
    ) -> list[str]:
        """A projection with the layer's sizes and biases."""
        return linear(build, name, x, left, weights, self.sizes, bias=self.bias)

    def attention(self, build: BlockBuilder, x: str, *, causal: bool = False, bias: str | None = None) -> str:
        """Self-attention, in both directions unless causal; ``bias`` is added to scores."""
        weights = {"q": Q_WEIGHT, "k": K_WEIGHT, "v": K_WEIGHT}
        q, k, v = self.linear(build, "attention.qkv", x, HIDDEN, weights)
        return self.attended(build, "attention", q, k, v, causal=causal, bias=bias)

    def attended(
        self, build: BlockBuilder, part: str, q: str, k: str, v: str, *, causal: bool, bias: str | None
    ) -> str:
        """The attention of q to k and v, projected back to the hidden size."""
        scale = self.head_dim**-0.5 if self.scaled else 1.0
        core = AttentionForm(Scores(causal), scale, self.attention_dropout, self.flash)
        o = core.write(build, f"{part}.core", q, k, v, bias)
        weights = {"": ("heads", "group", "head_dim", "hidden")}
        return self.linear(build, f"{part}.out", o, QUERY, weights)[0]

    def mlp(self, build: BlockBuilder, x: str) -> str:
        """Up, activation, down."""
        up = ("hidden", "ffn")
        if self.activation in GATED:
            gate, y = self.linear(build, "mlp.up", x, HIDDEN, {"gate": up, "up": up})
            y = build.add("mlp.activation", GATED[self.activation](FFN), gate, y)
        else:
            (y,) = self.linear(build, "mlp.up", x, HIDDEN, {"": up})
            y = build.add("mlp.activation", PLAIN[self.activation](FFN), y)
        if self.inner_dropout:
            y = self.dropped(build, "mlp.activation.dropout", y, FFN)
        return self.linear(build, "mlp.down", y, FFN, {"": ("ffn", "hidden")})[0]
