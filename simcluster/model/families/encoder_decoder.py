"""T5 (arXiv 1910.10683) by dimensions: an encoder, and a decoder with cross attention to its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.document import PositiveInt, Refused
from simcluster.model.family_spec import AttentionKeys, TextKeys, VocabularyKeys
from simcluster.model.graph import Block, BlockBuilder, Graph, Instance, TensorType
from simcluster.model.layers import HIDDEN, K_WEIGHT, LOGITS, Q_WEIGHT, Layers
from simcluster.model.model import Model
from simcluster.model.operators import Cast, CrossEntropy, Embedding, Matmul, RelativeBias
from simcluster.model.shard_counts import ShardCounts
from simcluster.work import DType

_MEMORY = ("batch", "keys", "hidden")


@dataclass(frozen=True, slots=True)
class EncoderDecoder(Model):
    """A T5 of these dimensions."""

    encoder_layers: int
    """Layers of the encoder, which the first pipeline stages have."""
    decoder_layers: int
    """Layers of the decoder."""
    hidden: int
    """Size of the hidden state."""
    heads: int
    """Heads of queries, keys and values."""
    head_dim: int
    """Elements of a head."""
    ffn: int
    """Inner size of the MLP."""
    vocab: int
    """Rows of the token table."""
    activation: str = "relu"
    """Activation of the MLP, as of ``Layers``."""
    tied: bool = True
    """Whether the head shares the embedding's weights."""
    buckets: int = 32
    """Buckets of relative positions."""
    max_distance: int = 128
    """Distances from here on share the last bucket."""
    decoder_seq_len: int = 0
    """Tokens of a target sequence; 0: as many as of the inputs."""
    dropout: float = 0.0
    """Rate of dropout behind attention and MLP."""
    attention_dropout: float = 0.0
    """Rate of dropout of attention weights."""
    flash: bool = True
    """Whether attention is one kernel that keeps no scores (``FrameworkDependent.computed``)."""
    logits: DType | None = None
    """The dtype in which the loss reads logits; None: that of all activations."""

    tensor_recipe: ClassVar[str] = "megatron"
    vocabulary_operators: ClassVar[tuple[str, ...]] = (
        "encoder.embedding.tokens",
        "decoder.embedding.tokens",
        "head.logits",
    )

    @property
    def num_layers(self) -> int:
        """Layers that pipeline stages share, those of the encoder first."""
        return self.encoder_layers + self.decoder_layers

    @property
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario."""
        names = ["encoder_layers", "decoder_layers", "hidden", "heads", "head_dim", "ffn", "vocab"]
        names += ["decoder_seq_len"] if self.decoder_seq_len else []
        return {name: getattr(self, name) for name in names}

    def computed(self, *, flash: bool, logits: DType | None) -> EncoderDecoder:
        """Attention in one kernel or several, logits in the type of activations or another."""
        return replace(self, flash=flash, logits=logits)

    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> EncoderDecoder:
        """Small sizes that divide as these do; each side keeps its share of the layers, at least one."""
        vocab = ways("vocab", 32)
        encoder = min(max(1, round(layers * self.encoder_layers / self.num_layers)), layers - 1)
        return replace(
            self,
            encoder_layers=encoder,
            decoder_layers=layers - encoder,
            hidden=min(self.hidden, ways("hidden", 16)),
            heads=min(self.heads, ways("heads", 2)),
            head_dim=min(self.head_dim, ways("head_dim", 4)),
            ffn=min(self.ffn, ways("ffn", 8)),
            vocab=min(self.vocab, vocab - 3 if padded else vocab),
            buckets=min(self.buckets, 8),
            max_distance=min(self.max_distance, 6),
            decoder_seq_len=min(self.decoder_seq_len, ways("seq", 2)),
        )

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch of ``batch`` pairs of an input and a target sequence.

        ``num_tokens`` are the input tokens of the whole step; the loss is a mean over its target tokens.
        """
        targets = self.decoder_seq_len or seq_len
        memory = TensorType((batch, seq_len, self.hidden), dtype)
        hidden = TensorType((batch, targets, self.hidden), dtype)
        blocks = (
            self._embedding("encoder_embedding", "tokens", memory),
            self._positions("encoder_positions", seq_len, dtype, both=True),
            self._encoder_layer(memory),
            self._output(memory),
            self._embedding("decoder_embedding", "decoder_tokens", hidden),
            self._positions("decoder_positions", targets, dtype, both=False),
            self._decoder_layer(hidden, memory),
            self._head(hidden, num_tokens / seq_len * targets),
        )
        instances = [*self._side("encoder", self.encoder_layers, ())]
        instances.append(Instance("encoder.output", "encoder_output", (instances[-1].output("out"),)))
        instances += self._side("decoder", self.decoder_layers, (instances[-1].output("out"),))
        instances.append(Instance("head", "head", (instances[-1].output("out"),)))
        shared = ["encoder.embedding.tokens.weight", "decoder.embedding.tokens.weight"]
        shared += ["head.logits.weight"] if self.tied else []
        return Graph({block.name: block for block in blocks}, tuple(instances), (tuple(shared),))

    def _side(self, side: str, layers: int, memory: tuple[str, ...]) -> list[Instance]:
        """Embedding, bias and layers of a side."""
        last = Instance(f"{side}.embedding", f"{side}_embedding")
        bias = Instance(f"{side}.positions", f"{side}_positions")
        instances = [last, bias]
        for index in range(layers):
            inputs = (last.output("out"), bias.output("out"), *memory)
            last = Instance(f"{side}.layers.{index}", f"{side}_layer", inputs)
            instances.append(last)
        return instances

    @property
    def _layers(self) -> Layers:
        return Layers(
            self.hidden,
            self.heads,
            self.head_dim,
            self.ffn,
            bias=False,
            layer_norm=False,
            eps=1e-6,
            activation=self.activation,
            scaled=False,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            inner_dropout=True,
            flash=self.flash,
        )

    def _embedding(self, name: str, feed: str, hidden: TensorType) -> Block:
        build = BlockBuilder(name, hidden.dtype)
        ids = build.feed(feed, TensorType(hidden.shape[:2], DType.INT64), self.vocab)
        table = build.parameter("tokens.weight", (self.vocab, self.hidden))
        x = build.add("tokens", Embedding(), ids, table)
        return build.block(outputs={"out": self._layers.dropped(build, "dropout", x)})

    def _positions(self, name: str, length: int, dtype: DType, *, both: bool) -> Block:
        build = BlockBuilder(name, dtype)
        table = build.parameter("bias.weight", (self.buckets, self.heads, 1))
        bias = RelativeBias(length, length, self.buckets, both, self.max_distance)
        return build.block(outputs={"out": build.add("bias", bias, table)})

    def _bias(self, build: BlockBuilder, length: int) -> str:
        return build.input("bias", TensorType((self.heads, 1, length, length), build.dtype))

    def _encoder_layer(self, hidden: TensorType) -> Block:
        build = BlockBuilder("encoder_layer", hidden.dtype)
        x = build.input("in", hidden)
        x = self._self_attention(build, x, self._bias(build, hidden.shape[1]), causal=False)
        return build.block(outputs={"out": self._mlp(build, x)})

    def _decoder_layer(self, hidden: TensorType, memory: TensorType) -> Block:
        build, layers = BlockBuilder("decoder_layer", hidden.dtype), self._layers
        x = build.input("in", hidden)
        bias = self._bias(build, hidden.shape[1])
        encoded = build.input("memory", memory)
        x = self._self_attention(build, x, bias, causal=True)
        (q,) = layers.linear(
            build, "cross.query", layers.norm(build, "cross.norm", x), HIDDEN, {"q": Q_WEIGHT}
        )
        k, v = layers.linear(build, "cross.kv", encoded, _MEMORY, {"k": K_WEIGHT, "v": K_WEIGHT})
        y = layers.attended(build, "cross", q, k, v, causal=False, bias=None)
        x = layers.residual(build, "cross", x, y)
        return build.block(outputs={"out": self._mlp(build, x)})

    def _self_attention(self, build: BlockBuilder, x: str, bias: str, *, causal: bool) -> str:
        layers = self._layers
        y = layers.norm(build, "attention.norm", x)
        return layers.residual(build, "attention", x, layers.attention(build, y, causal=causal, bias=bias))

    def _mlp(self, build: BlockBuilder, x: str) -> str:
        layers = self._layers
        return layers.residual(build, "mlp", x, layers.mlp(build, layers.norm(build, "mlp.norm", x)))

    def _output(self, hidden: TensorType) -> Block:
        """What the decoder reads of the encoder."""
        build, layers = BlockBuilder("encoder_output", hidden.dtype), self._layers
        x = layers.norm(build, "norm", build.input("in", hidden))
        return build.block(outputs={"out": layers.dropped(build, "dropout", x)})

    def _head(self, hidden: TensorType, num_targets: float) -> Block:
        """The last norm, logits and loss; ``num_targets`` are the target tokens of the whole step."""
        build, layers = BlockBuilder("head", hidden.dtype), self._layers
        x = layers.norm(build, "norm", build.input("in", hidden))
        x = layers.dropped(build, "dropout", x)
        targets = build.feed("targets", TensorType(hidden.shape[:2], DType.INT64), self.vocab)
        weight = build.parameter("logits.weight", (self.vocab, self.hidden))
        y = build.add("logits", Matmul(HIDDEN, (("vocab", "hidden"),), (LOGITS,)), x, weight)
        if self.logits not in (None, hidden.dtype):
            assert self.logits is not None
            y = build.add("logits.cast", Cast(LOGITS, hidden.dtype, self.logits), y)
        return build.block(outputs={}, loss=build.add("loss", CrossEntropy(1 / num_targets), y, targets))


class T5Spec(AttentionKeys, VocabularyKeys, TextKeys):
    """A T5."""

    kind: ClassVar[str] = "t5"
    network: ClassVar[type[Model]] = EncoderDecoder

    encoder_layers: PositiveInt | None = None
    """T5: encoder layers. Pipeline stages divide the encoder layers followed by the decoder layers."""

    decoder_layers: PositiveInt | None = None
    """T5: decoder layers."""

    buckets: PositiveInt | None = None
    """T5: number of buckets for relative positions; 32 if absent."""

    max_distance: PositiveInt | None = None
    """T5: distance from which on all distances share the last bucket; 128 if absent."""

    decoder_seq_len: PositiveInt | None = None
    """T5: tokens per target sequence; if absent, training.seq_len, the length of the input sequences."""

    @classmethod
    def check(cls, known: Mapping[str, Any]) -> None:
        """Refused if buckets of relative positions do not come out even."""
        buckets, farthest = known.get("buckets", 32), known.get("max_distance", 128)
        if buckets % 4:
            raise Refused(
                f"{buckets} buckets are not a multiple of 4: two directions, near and far", path="buckets"
            )
        if farthest <= buckets // 2:
            raise Refused(
                f"{buckets // 2} buckets hold one distance each, so that the far ones begin beyond "
                f"{farthest}",
                path="max_distance",
            )
