"""Decoder-only transformers by dimensions: the GPT and Llama families as graphs of named operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from simcluster.model.builder import BlockBuilder
from simcluster.model.graph import Block, Graph, Instance
from simcluster.model.layers import FFN, HIDDEN, KEY, QUERY, linear
from simcluster.model.model import Model
from simcluster.model.operator import TensorType
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.embedding import Embedding, Positions
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.norm import LayerNorm, RmsNorm
from simcluster.model.operators.pointwise import Add, Gelu, Swiglu
from simcluster.model.operators.rotary import Rotary
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Transformer(Model):
    """Dimensions of a decoder-only transformer.

    ``heads`` are query heads, ``kv_heads`` key-value heads (``heads`` is a multiple of it); ``max_positions``
    sizes a learned position table and is unused with rotary positions.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    norm: str = "rms"
    activation: str = "swiglu"
    positions: str = "rotary"
    max_positions: int = 0
    rope_theta: float = 10000.0
    bias: bool = False
    tied: bool = False

    @property
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario."""
        names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
        return {name: getattr(self, name) for name in names}

    @property
    def vocabulary(self) -> int:
        """Rows of the token table."""
        return self.vocab

    @property
    def longest(self) -> int | None:
        """The rows of a learned position table."""
        return self.max_positions if self.positions == "learned" else None

    def padded(self, multiple: int) -> Transformer:
        """The vocabulary rounded up to a multiple."""
        return replace(self, vocab=-(-self.vocab // multiple) * multiple)

    def shrunk(self, layers: int, ways: Callable[[str], int], *, padded: bool) -> Transformer:
        """Small sizes that divide as these do; grouped heads stay grouped."""
        grouped = self.heads // self.kv_heads
        kv_heads = min(self.kv_heads, ways("heads"))
        group = min(grouped, (2 if grouped > 1 else 1) * ways("group"))
        vocab = 32 * ways("vocab")
        return replace(
            self,
            layers=layers,
            hidden=min(self.hidden, 16 * ways("hidden")),
            heads=kv_heads * group,
            kv_heads=kv_heads,
            head_dim=min(self.head_dim, 4 * ways("head_dim")),
            ffn=min(self.ffn, 8 * ways("ffn")),
            vocab=min(self.vocab, vocab - 3 if padded else vocab),
            max_positions=min(self.max_positions, max(4 * ways("seq"), 8)),
        )

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: int) -> Graph:
        """The forward graph of one micro-batch of ``batch`` sequences over all ranks.

        ``num_tokens`` is the number of tokens of the whole step, by which the summed loss is divided.
        """
        tokens = TensorType((batch, seq_len), DType.INT64)
        hidden = TensorType((batch, seq_len, self.hidden), dtype)
        blocks = (self._embedding(tokens, dtype), self._layer(hidden), self._head(hidden, tokens, num_tokens))
        instances = [Instance("embedding", "embedding")]
        last = instances[0].output("out")
        for index in range(self.layers):
            layer = Instance(f"layers.{index}", "layer", (last,))
            instances.append(layer)
            last = layer.output("out")
        instances.append(Instance("head", "head", (last,)))
        ties = (("embedding.tokens.weight", "head.logits.weight"),) if self.tied else ()
        return Graph({block.name: block for block in blocks}, tuple(instances), ties)

    def _embedding(self, tokens: TensorType, dtype: DType) -> Block:
        build = BlockBuilder("embedding", dtype)
        ids = build.feed("tokens", tokens, self.vocab)
        table = build.parameter("tokens.weight", (self.vocab, self.hidden))
        x = build.add("tokens", Embedding(), ids, table)
        if self.positions == "learned":
            rows = build.parameter("positions.weight", (self.max_positions, self.hidden))
            x = build.add("positions", Positions(), x, rows)
        return build.block(outputs={"out": x})

    def _layer(self, hidden: TensorType) -> Block:
        build = BlockBuilder("layer", hidden.dtype)
        x = build.input("in", hidden)
        x = self._attention(build, x)
        x = self._mlp(build, x)
        return build.block(outputs={"out": x})

    def _attention(self, build: BlockBuilder, x: str) -> str:
        group = self.heads // self.kv_heads
        inner = {"heads": self.kv_heads, "group": group, "head_dim": self.head_dim}
        y = self._norm(build, "attention.norm", x)
        labels = (("hidden", "heads", "group", "head_dim"), ("hidden", "heads", "head_dim"))
        q, k, v = self._linear(
            build, "attention.qkv", y, HIDDEN, {"q": labels[0], "k": labels[1], "v": labels[1]}, inner
        )
        if self.positions == "rotary":
            q, k = build.adds("attention.rotary", Rotary((QUERY, KEY), self.rope_theta), q, k)
        o, _ = build.adds("attention.core", Attention(), q, k, v)
        out = (("heads", "group", "head_dim", "hidden"),)
        (y,) = self._linear(build, "attention.out", o, QUERY, {"": out[0]}, inner)
        return build.add("attention.residual", Add(HIDDEN), x, y)

    def _mlp(self, build: BlockBuilder, x: str) -> str:
        sizes = {"ffn": self.ffn}
        y = self._norm(build, "mlp.norm", x)
        up = ("hidden", "ffn")
        if self.activation == "swiglu":
            gate, y = self._linear(build, "mlp.up", y, HIDDEN, {"gate": up, "up": up}, sizes)
            y = build.add("mlp.activation", Swiglu(FFN), gate, y)
        else:
            (y,) = self._linear(build, "mlp.up", y, HIDDEN, {"": up}, sizes)
            y = build.add("mlp.activation", Gelu(FFN), y)
        (y,) = self._linear(build, "mlp.down", y, FFN, {"": ("ffn", "hidden")}, sizes)
        return build.add("mlp.residual", Add(HIDDEN), x, y)

    def _head(self, hidden: TensorType, tokens: TensorType, num_tokens: int) -> Block:
        build = BlockBuilder("head", hidden.dtype)
        x = build.input("in", hidden)
        targets = build.feed("targets", tokens, self.vocab)
        x = self._norm(build, "norm", x)
        weight = build.parameter("logits.weight", (self.vocab, self.hidden))
        product = Matmul(HIDDEN, (("vocab", "hidden"),), (("batch", "seq", "vocab"),))
        logits = build.add("logits", product, x, weight)
        loss, _ = build.adds("loss", CrossEntropy(1 / num_tokens), logits, targets)
        return build.block(outputs={}, loss=loss)

    def _norm(self, build: BlockBuilder, name: str, x: str) -> str:
        weight = build.parameter(f"{name}.weight", (self.hidden,))
        if self.norm == "rms":
            return build.adds(name, RmsNorm(HIDDEN), x, weight)[0]
        bias = build.parameter(f"{name}.bias", (self.hidden,))
        return build.adds(name, LayerNorm(HIDDEN), x, weight, bias)[0]

    def _linear(
        self,
        build: BlockBuilder,
        name: str,
        x: str,
        left: tuple[str, ...],
        weights: dict[str, tuple[str, ...]],
        sizes: dict[str, int],
    ) -> list[str]:
        """A projection by one or more weights that share their input, each with its bias if biases are on."""
        extent = sizes | {"hidden": self.hidden}
        return linear(build, name, x, left, weights, extent, bias=self.bias)
