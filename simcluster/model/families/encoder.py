"""BERT (arXiv 1810.04805) by dimensions: a bidirectional encoder with its two pre-training heads.

Post-layer-norm as in the original: ``x = norm(x + attention(x))``, ``x = norm(x + mlp(x))``. The masked
language model predicts a fixed number of positions per sequence (``max_predictions_per_seq`` of the original
code), which are gathered before the head; its mean over all of them and the mean of next-sentence prediction
over all sequences add up to the loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Fraction, PositiveInt
from simcluster.model.family_spec import AttentionKeys, LayerKeys, PositionKeys, VocabularyKeys
from simcluster.model.graph import Block, BlockBuilder, Graph, Instance, TensorType
from simcluster.model.layers import HIDDEN, Layers, linear
from simcluster.model.model import Model
from simcluster.model.operators import (
    Add,
    Bias,
    Cast,
    CrossEntropy,
    Embedding,
    First,
    Gather,
    Gelu,
    Matmul,
    Positions,
    Tanh,
)
from simcluster.model.shard_counts import ShardCounts
from simcluster.work import DType

_PICKED = ("batch", "picked", "hidden")
_TRANSFORMED = ("batch", "picked", "transformed")
_LOGITS = ("batch", "picked", "vocab")
_EPS = 1e-12


@dataclass(frozen=True, slots=True)
class Encoder(Model):
    """A BERT of these dimensions."""

    layers: int
    """Layers that pipeline stages share."""
    hidden: int
    """Size of the hidden state."""
    heads: int
    """Query heads."""
    head_dim: int
    """Elements of a head."""
    ffn: int
    """Inner size of the MLP."""
    vocab: int
    """Rows of the token table."""
    max_positions: int
    """Rows of the position table: the longest sequence."""
    token_types: int = 2
    """Rows of the table of segments."""
    masked: float = 0.15
    """The share of a sequence's positions that is predicted."""
    dropout: float = 0.0
    """Rate of dropout behind embedding, attention and MLP."""
    attention_dropout: float = 0.0
    """Rate of dropout of attention weights."""
    flash: bool = True
    """Whether attention is one kernel that keeps no scores (``FrameworkDependent.computed``)."""
    logits: DType | None = None
    """The dtype in which the loss reads logits; None: that of all activations."""

    tensor_recipe: ClassVar[str] = "megatron"
    vocabulary_operators: ClassVar[tuple[str, ...]] = ("embedding.tokens", "head.logits")

    @property
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario."""
        names = ("layers", "hidden", "heads", "head_dim", "ffn", "vocab", "max_positions")
        return {name: getattr(self, name) for name in names}

    @property
    def num_layers(self) -> int:
        """Layers that pipeline stages share."""
        return self.layers

    @property
    def max_seq_len(self) -> int:
        """The rows of the position table."""
        return self.max_positions

    @property
    def num_parameters(self) -> int:
        """Embeddings, layers and pooler, as published; the heads of pre-training are not counted."""
        graph = self.graph(batch=1, seq_len=1, dtype=DType.BF16, num_tokens=1)
        heads = ("head.transform.", "head.logits.", "head.next.")
        return sum(kind.num_elements for name, kind in graph.parameters() if not name.startswith(heads))

    def predictions(self, seq_len: int) -> int:
        """Masked positions that are predicted per sequence: 76 of 512, as MLPerf's reference has them."""
        return max(1, math.floor(seq_len * self.masked + 1e-9))

    def computed(self, *, flash: bool, logits: DType | None) -> Encoder:
        """Attention in one kernel or several, logits in the type of activations or another."""
        return replace(self, flash=flash, logits=logits)

    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> Encoder:
        """Small sizes that divide as these do; half of the positions are predicted, so that some repeat."""
        vocab = ways("vocab", 32)
        return replace(
            self,
            layers=layers,
            hidden=min(self.hidden, ways("hidden", 16)),
            heads=min(self.heads, ways("heads", 2)),
            head_dim=min(self.head_dim, ways("head_dim", 4)),
            ffn=min(self.ffn, ways("ffn", 8)),
            vocab=min(self.vocab, vocab - 3 if padded else vocab),
            max_positions=min(self.max_positions, max(ways("seq", 4), 8)),
            masked=0.5,
        )

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch; the step has ``num_tokens / seq_len`` sequences."""
        tokens = TensorType((batch, seq_len), DType.INT64)
        hidden = TensorType((batch, seq_len, self.hidden), dtype)
        blocks = (
            self._embedding(tokens, dtype),
            self._layer(hidden),
            self._head(hidden, num_tokens / seq_len),
        )
        instances = [Instance("embedding", "embedding")]
        for index in range(self.layers):
            instances.append(Instance(f"layers.{index}", "layer", (instances[-1].output("out"),)))
        instances.append(Instance("head", "head", (instances[-1].output("out"),)))
        ties = (("embedding.tokens.weight", "head.logits.weight"),)
        return Graph({block.name: block for block in blocks}, tuple(instances), ties)

    @property
    def _layers(self) -> Layers:
        return Layers(
            self.hidden,
            self.heads,
            self.head_dim,
            self.ffn,
            eps=_EPS,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            flash=self.flash,
        )

    def _embedding(self, tokens: TensorType, dtype: DType) -> Block:
        build = BlockBuilder("embedding", dtype)
        ids = build.feed("tokens", tokens, self.vocab)
        types = build.feed("token_types", tokens, self.token_types)
        table = build.parameter("tokens.weight", (self.vocab, self.hidden))
        x = build.add("tokens", Embedding(), ids, table)
        rows = build.parameter("positions.weight", (self.max_positions, self.hidden))
        x = build.add("positions", Positions(), x, rows)
        kinds = build.parameter("types.weight", (self.token_types, self.hidden))
        y = build.add("types", Embedding(), types, kinds)
        x = build.add("residual", Add(HIDDEN), x, y)
        x = self._layers.norm(build, "norm", x)
        return build.block(outputs={"out": self._layers.dropped(build, "dropout", x)})

    def _layer(self, hidden: TensorType) -> Block:
        build, layers = BlockBuilder("layer", hidden.dtype), self._layers
        x = build.input("in", hidden)
        x = layers.residual(build, "attention", x, layers.attention(build, x))
        x = layers.norm(build, "attention.norm", x)
        x = layers.residual(build, "mlp", x, layers.mlp(build, x))
        return build.block(outputs={"out": layers.norm(build, "mlp.norm", x)})

    def _head(self, hidden: TensorType, sequences: float) -> Block:
        """Both heads; ``sequences`` is their number in the whole step."""
        build = BlockBuilder("head", hidden.dtype)
        x = build.input("in", hidden)
        losses = (self._masked(build, x, hidden, sequences), self._next(build, x, hidden, sequences))
        return build.block(outputs={}, loss=build.add("loss.sum", Add(()), *losses))

    def _masked(self, build: BlockBuilder, x: str, hidden: TensorType, sequences: float) -> str:
        batch, seq_len, _ = hidden.shape
        picked = TensorType((batch, self.predictions(seq_len)), DType.INT64)
        positions = build.feed("masked", picked, seq_len)
        targets = build.feed("targets", picked, self.vocab)
        y = build.add("gather", Gather(seq_len), positions, x)
        sizes = {"hidden": self.hidden, "transformed": self.hidden}
        weights = {"": ("hidden", "transformed")}
        (y,) = linear(build, "transform", y, _PICKED, weights, sizes, bias=True)
        y = build.add("transform.activation", Gelu(_TRANSFORMED), y)
        y = self._layers.norm(build, "transform.norm", y, _TRANSFORMED)
        weight = build.parameter("logits.weight", (self.vocab, self.hidden))
        y = build.add("logits", Matmul(_TRANSFORMED, (("vocab", "transformed"),), (_LOGITS,)), y, weight)
        bias = build.parameter("logits.bias", (self.vocab,))
        y = build.add("logits.bias", Bias(_LOGITS, ("vocab",)), y, bias)
        if self.logits not in (None, hidden.dtype):
            assert self.logits is not None
            y = build.add("logits.cast", Cast(_LOGITS, hidden.dtype, self.logits), y)
        scale = 1 / (sequences * picked.shape[1])
        return build.add("loss", CrossEntropy(scale, _LOGITS), y, targets)

    def _next(self, build: BlockBuilder, x: str, hidden: TensorType, sequences: float) -> str:
        batch, seq_len, _ = hidden.shape
        follows = build.feed("follows", TensorType((batch,), DType.INT64), 2)
        sizes = {"hidden": self.hidden, "pooled": self.hidden, "classes": 2}
        y = build.add("first", First(seq_len), x)
        (y,) = linear(build, "pooler", y, ("batch", "hidden"), {"": ("hidden", "pooled")}, sizes, bias=True)
        pooled = ("batch", "pooled")
        y = build.add("pooler.activation", Tanh(pooled), y)
        (y,) = linear(build, "next", y, pooled, {"": ("pooled", "classes")}, sizes, bias=True)
        return build.add("next.loss", CrossEntropy(1 / sequences, ("batch", "classes")), y, follows)


class BertSpec(LayerKeys, AttentionKeys, VocabularyKeys, PositionKeys):
    """A BERT."""

    kind: ClassVar[str] = "bert"
    network: ClassVar[type[Model]] = Encoder

    token_types: PositiveInt | None = None
    """BERT: number of token types, such as first and second sentence; 2 if absent."""

    masked: Fraction | None = None
    """BERT: share of the positions of a sequence that are predicted, rounded down; 0.15 if absent."""
