"""Vision transformers (arXiv 2010.11929) by dimensions: an image as a sequence of patches.

The sequence is a class token and the patches; its length follows from image and patch. Pre-layer-norm,
learned positions, biases everywhere; the head reads the class token after a last norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.document import PositiveInt, Refused
from simcluster.model.family_spec import AttentionKeys, LayerKeys, PictureKeys
from simcluster.model.graph import Block, BlockBuilder, Graph, Instance, TensorType
from simcluster.model.layers import Layers, linear
from simcluster.model.model import Model
from simcluster.model.operators import CrossEntropy, First, Positions, Prepend
from simcluster.model.shard_counts import ShardCounts
from simcluster.work import DType

_PATCHES = ("batch", "patches", "pixels")
_CLASSES = ("batch", "classes")


@dataclass(frozen=True, slots=True)
class VisionTransformer(Model):
    """A vision transformer of these dimensions, for square images."""

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
    image: int
    """Edge of the images in pixels."""
    patch: int
    """Edge of a patch in pixels."""
    classes: int
    """What the head tells apart."""
    channels: int = 3
    """Numbers per pixel."""
    dropout: float = 0.0
    """Rate of dropout behind attention and MLP."""
    attention_dropout: float = 0.0
    """Rate of dropout of attention weights."""
    flash: bool = True
    """Whether attention is one kernel that keeps no scores (``FrameworkDependent.computed``)."""

    tensor_recipe: ClassVar[str] = "megatron"

    @property
    def num_layers(self) -> int:
        """Layers that pipeline stages share."""
        return self.layers

    @property
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario."""
        names = ("layers", "hidden", "heads", "head_dim", "ffn", "image", "patch", "classes")
        return {name: getattr(self, name) for name in names}

    @property
    def grid(self) -> int:
        """Patches along an edge of the image; pixels that fill no patch are left out."""
        return self.image // self.patch

    @property
    def fixed_seq_len(self) -> int:
        """Always the class token and all patches."""
        return self.grid**2 + 1

    def seq_len_error(self, seq_len: int) -> str:
        """Why it cannot read sequences of this length, with the arithmetic, or nothing."""
        if seq_len == self.fixed_seq_len:
            return ""
        return (
            f"image {self.image} / patch {self.patch} = {self.grid}: {self.grid} x {self.grid} patches and a "
            f"class token are {self.fixed_seq_len} tokens, not {seq_len}"
        )

    def computed(self, *, flash: bool, logits: DType | None) -> VisionTransformer:
        """Attention in one kernel or several; its logits are too few to have a type of their own."""
        return replace(self, flash=flash)

    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> VisionTransformer:
        """Small sizes that divide as these do, with a grid whose tokens divide."""
        split = ways("seq")
        grid = next((size for size in range(2, 2 + split) if (size * size + 1) % split == 0), self.grid)
        return replace(
            self,
            layers=layers,
            hidden=min(self.hidden, ways("hidden", 16)),
            heads=min(self.heads, ways("heads", 2)),
            head_dim=min(self.head_dim, ways("head_dim", 4)),
            ffn=min(self.ffn, ways("ffn", 8)),
            image=min(self.grid, grid) * min(self.patch, 2),
            patch=min(self.patch, 2),
            classes=min(self.classes, ways("classes", 8)),
        )

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch; the step has ``num_tokens / seq_len`` images."""
        assert seq_len == self.fixed_seq_len, self.seq_len_error(seq_len)
        hidden = TensorType((batch, seq_len, self.hidden), dtype)
        blocks = (self._embedding(hidden), self._layer(hidden), self._head(hidden, num_tokens / seq_len))
        instances = [Instance("embedding", "embedding")]
        for index in range(self.layers):
            instances.append(Instance(f"layers.{index}", "layer", (instances[-1].output("out"),)))
        instances.append(Instance("head", "head", (instances[-1].output("out"),)))
        return Graph({block.name: block for block in blocks}, tuple(instances))

    @property
    def _layers(self) -> Layers:
        return Layers(
            self.hidden,
            self.heads,
            self.head_dim,
            self.ffn,
            eps=1e-6,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            flash=self.flash,
        )

    def _embedding(self, hidden: TensorType) -> Block:
        """Patches by a matmul: a convolution whose stride is its kernel."""
        build = BlockBuilder("embedding", hidden.dtype)
        batch, seq_len, _ = hidden.shape
        pixels = self.channels * self.patch**2
        x = build.feed("patches", TensorType((batch, seq_len - 1, pixels), hidden.dtype))
        sizes = {"pixels": pixels, "hidden": self.hidden}
        (x,) = linear(build, "patches", x, _PATCHES, {"": ("pixels", "hidden")}, sizes, bias=True)
        token = build.parameter("class_token.weight", (self.hidden,))
        x = build.add("class_token", Prepend(), x, token)
        rows = build.parameter("positions.weight", (seq_len, self.hidden))
        x = build.add("positions", Positions(), x, rows)
        return build.block(outputs={"out": self._layers.dropped(build, "dropout", x)})

    def _layer(self, hidden: TensorType) -> Block:
        build, layers = BlockBuilder("layer", hidden.dtype), self._layers
        x = build.input("in", hidden)
        y = layers.attention(build, layers.norm(build, "attention.norm", x))
        x = layers.residual(build, "attention", x, y)
        y = layers.mlp(build, layers.norm(build, "mlp.norm", x))
        return build.block(outputs={"out": layers.residual(build, "mlp", x, y)})

    def _head(self, hidden: TensorType, images: float) -> Block:
        build = BlockBuilder("head", hidden.dtype)
        batch, seq_len, _ = hidden.shape
        x = build.input("in", hidden)
        targets = build.feed("targets", TensorType((batch,), DType.INT64), self.classes)
        x = build.add("first", First(seq_len), self._layers.norm(build, "norm", x))
        sizes = {"hidden": self.hidden, "classes": self.classes}
        weights = {"": ("hidden", "classes")}
        (x,) = linear(build, "logits", x, ("batch", "hidden"), weights, sizes, bias=True)
        return build.block(outputs={}, loss=build.add("loss", CrossEntropy(1 / images, _CLASSES), x, targets))


class VitSpec(LayerKeys, AttentionKeys, PictureKeys):
    """A vision transformer."""

    kind: ClassVar[str] = "vit"
    network: ClassVar[type[Model]] = VisionTransformer

    patch: PositiveInt | None = None
    """Vision: width and height of a patch in pixels; a sequence has (image / patch)^2 + 1 tokens."""

    @classmethod
    def check(cls, known: Mapping[str, Any]) -> None:
        """Refused if no patch fits into the image."""
        if known["patch"] > known["image"]:
            raise Refused(f"a patch of {known['patch']} pixels is larger than the image", path="patch")
