"""Decoder-only transformers by dimensions: the GPT and Llama families as graphs of named operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from simcluster.model.decoder import DecoderBlock
from simcluster.model.dimensions import Dimensions
from simcluster.model.graph import Graph, Instance
from simcluster.model.model import Model
from simcluster.model.operator import TensorType
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Transformer(Dimensions, Model):
    """A decoder-only transformer of these dimensions."""

    @property
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario."""
        names = ["layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab"]
        names += ["window"] if self.window else []
        return {name: getattr(self, name) for name in names}

    @property
    def num_layers(self) -> int:
        """Layers that pipeline stages share."""
        return self.layers

    @property
    def vocabulary(self) -> int:
        """Rows of the token table."""
        return self.vocab

    @property
    def longest(self) -> int | None:
        """The longest sequence a position table has rows for."""
        tables = self.positions == "learned" or self.query_layer
        return self.max_positions if tables else None

    def padded(self, multiple: int) -> Transformer:
        """The vocabulary rounded up to a multiple."""
        return replace(self, vocab=-(-self.vocab // multiple) * multiple)

    def computed(self, *, flash: bool, logits: DType | None) -> Transformer:
        """Attention in one kernel or several, logits in the type of activations or another."""
        return replace(self, flash=flash, logits=logits)

    def shrunk(self, layers: int, ways: Callable[[str], int], *, padded: bool) -> Transformer:
        """Small sizes that divide as these do; grouped heads stay grouped, windows shorter than sequences."""
        kv_heads = min(self.kv_heads, ways("heads"))
        group = min(self.group, (2 if self.group > 1 else 1) * ways("group"))
        vocab = 32 * ways("vocab")
        return replace(
            self,
            layers=layers,
            hidden=min(self.hidden, 16 * ways("hidden")),
            heads=kv_heads * group,
            kv_heads=kv_heads,
            head_dim=min(self.head_dim, round(4 / self.rotary_fraction) * ways("head_dim")),
            ffn=min(self.ffn, 8 * ways("ffn")),
            vocab=min(self.vocab, vocab - 3 if padded else vocab),
            max_positions=min(self.max_positions, max(4 * ways("seq"), 8)),
            window=min(self.window, 2),
        )

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch of ``batch`` sequences over all ranks.

        ``num_tokens`` is the number of tokens of the whole step, by which the summed loss is divided.
        """
        tokens = TensorType((batch, seq_len), DType.INT64)
        hidden = TensorType((batch, seq_len, self.hidden), dtype)

        def write(name: str) -> DecoderBlock:
            return DecoderBlock(name, self, dtype)

        blocks = [write("embedding").embedding(tokens)]
        instances = [Instance("embedding", "embedding")]
        kinds = ["layer"] * self.layers
        if self.query_layer:
            kinds[-1] = "query_layer"
            blocks.append(write("query_layer").query_layer(hidden, tokens))
        if "layer" in kinds:
            blocks.append(write("layer").layer(hidden))
        blocks.append(write("head").head(hidden, tokens, num_tokens))
        last = instances[0].output("out")
        for index, kind in enumerate(kinds):
            layer = Instance(f"layers.{index}", kind, (last,))
            instances.append(layer)
            last = layer.output("out")
        instances.append(Instance("head", "head", (last,)))
        ties = (("embedding.tokens.weight", "head.logits.weight"),) if self.tied else ()
        return Graph({block.name: block for block in blocks}, tuple(instances), ties)
