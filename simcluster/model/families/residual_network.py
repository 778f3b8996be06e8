"""Residual networks (arXiv 1512.03385) by dimensions: convolutions over pictures in four stages or fewer.

Every stage halves the picture's edges, but the first, and doubles the channels. A block is two convolutions
of 3 x 3 (``basic``), or one of 3 x 3 between two of 1 x 1 (``bottleneck``), each with batch norm, and adds
its input, projected where the shape changes. Where a bottleneck halves the picture, the 3 x 3 convolution
does (``v1.5``, as the frameworks ship it), or the first (``v1``, as published).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from simcluster.deferred_dataclass import dataclass
from simcluster.document import PositiveInt, Refused
from simcluster.model.attributes import PICTURE, StatisticsGroups, Windows
from simcluster.model.family_spec import PictureKeys
from simcluster.model.graph import Block, BlockBuilder, Graph, Instance, TensorType
from simcluster.model.layers import linear
from simcluster.model.model import Model
from simcluster.model.operators import (
    Add,
    BatchNorm,
    Conv2d,
    CrossEntropy,
    GlobalAveragePool,
    MaxPool2d,
    Relu,
    RunningStatistics,
)
from simcluster.model.shard_counts import ShardCounts
from simcluster.work import DType

_WIDER = {"basic": 1, "bottleneck": 4}
"""Channels that a block gives, in units of those inside it."""


@dataclass(frozen=True, slots=True)
class ResidualNetwork(Model):
    """A residual network of these dimensions, for square pictures."""

    blocks: tuple[int, ...]
    """Blocks of every stage."""
    image: int
    """Edge of the pictures in pixels."""
    classes: int
    """What the head tells apart."""
    block: str = "bottleneck"
    """``basic``: two convolutions of 3 x 3; ``bottleneck``: one between two of 1 x 1."""
    version: str = "v1.5"
    """Which convolution of a bottleneck halves the picture: the first (``v1``) or the second (``v1.5``)."""
    statistics: str = "local"
    """Batch norm over a data-parallel rank's own samples (``local``) or all ranks' (``synchronised``)."""
    width: int = 64
    """Channels inside a block of the first stage."""
    channels: int = 3
    """Numbers per pixel."""

    @property
    def num_layers(self) -> int:
        """Blocks, which pipeline stages share."""
        return sum(self.blocks)

    @property
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario, and the blocks of all stages together."""
        names = ("image", "classes", "width")
        return {"blocks": self.num_layers} | {name: getattr(self, name) for name in names}

    @property
    def fixed_seq_len(self) -> int:
        """Always one: a picture is one token."""
        return 1

    @property
    def samples(self) -> int:
        """256 pictures on eight devices (arXiv 1512.03385, section 3.4)."""
        return 32

    @property
    def reduction(self) -> int:
        """By how much the edges of a picture shrink before the last pool."""
        return int(4 * 2 ** (len(self.blocks) - 1))

    def seq_len_error(self, seq_len: int) -> str:
        """Why it cannot read sequences of this length, or nothing."""
        return "" if seq_len == 1 else f"a picture counts as one token: write seq_len: 1, not {seq_len}"

    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> ResidualNetwork:
        """As many stages as there are blocks for, with narrow blocks and small pictures that divide alike."""
        stages = min(layers, len(self.blocks))
        blocks = tuple(layers // stages + (stage < layers % stages) for stage in range(stages))
        small = replace(self, blocks=blocks)
        parts = max(ways("height"), ways("width"))
        channels = max(ways("channels"), ways("filters"))
        return replace(
            small,
            image=min(self.image, small.reduction * 2 * parts),
            width=min(self.width, 2 * channels),
            classes=min(self.classes, ways("classes", 8)),
        )

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch; the step has ``num_tokens`` pictures.

        Statistics are those of all ``batch`` pictures; a plan with local ones splits them.
        """
        assert seq_len == 1, self.seq_len_error(seq_len)
        blocks: dict[str, Block] = {}
        writer = _Writer(BlockBuilder("stem", dtype), self)
        picture = writer.build.feed(
            "images", TensorType((batch, self.channels, self.image, self.image), dtype)
        )
        x = writer.normed("conv", picture, self.width, kernel=7, stride=2)
        x = writer.build.add("relu", Relu(PICTURE), x)
        x = writer.build.add("pool", MaxPool2d(Windows.over(writer.edges(x), 3, 2, 1)), x)
        blocks["stem"] = writer.build.block(outputs={"out": x})
        instances = [Instance("stem", "stem")]
        kind = blocks["stem"].values["out"].type
        for stage, count in enumerate(self.blocks):
            for index in range(count):
                name = f"stage{stage + 1}.{'next' if index else 'first'}"
                if name not in blocks:
                    stride = 2 if stage and not index else 1
                    blocks[name] = self._block(name, kind, self.width * 2**stage, stride, dtype)
                    kind = blocks[name].values["out"].type
                label = f"layers.{len(instances) - 1}"
                instances.append(Instance(label, name, (instances[-1].output("out"),)))
        blocks["head"] = self._head(kind, num_tokens)
        instances.append(Instance("head", "head", (instances[-1].output("out"),)))
        return Graph(blocks, tuple(instances))

    def _block(self, name: str, kind: TensorType, width: int, stride: int, dtype: DType) -> Block:
        writer = _Writer(BlockBuilder(name, dtype), self)
        build = writer.build
        x = shortcut = build.input("in", kind)
        filters = width * _WIDER[self.block]
        if self.block == "basic":
            kernels = [(3, width, stride), (3, width, 1)]
        else:
            early = self.version == "v1"
            kernels = [
                (1, width, stride if early else 1),
                (3, width, 1 if early else stride),
                (1, filters, 1),
            ]
        for index, (kernel, channels, step) in enumerate(kernels, start=1):
            x = writer.normed(f"conv{index}", x, channels, kernel, step)
            if index < len(kernels):
                x = build.add(f"relu{index}", Relu(PICTURE), x)
        if stride > 1 or kind.shape[1] != filters:
            shortcut = writer.normed("shortcut", shortcut, filters, 1, stride)
        x = build.add("add", Add(PICTURE), x, shortcut)
        return build.block(outputs={"out": build.add("relu", Relu(PICTURE), x)})

    def _head(self, kind: TensorType, images: float) -> Block:
        build = BlockBuilder("head", kind.dtype)
        batch, channels, height, width = kind.shape
        x = build.input("in", kind)
        targets = build.feed("targets", TensorType((batch,), DType.INT64), self.classes)
        x = build.add("pool", GlobalAveragePool(height, width), x)
        sizes = {"channels": channels, "classes": self.classes}
        weights = {"": ("channels", "classes")}
        (x,) = linear(build, "logits", x, PICTURE[:2], weights, sizes, bias=True)
        loss = CrossEntropy(1 / images, ("batch", "classes"))
        return build.block(outputs={}, loss=build.add("loss", loss, x, targets))


@dataclass(frozen=True, slots=True)
class _Writer:
    build: BlockBuilder
    model: ResidualNetwork

    def edges(self, x: str) -> tuple[int, int]:
        """Height and width of a picture."""
        height, width = self.build.values[x].type.shape[2:]
        return height, width

    def normed(self, name: str, x: str, filters: int, kernel: int, stride: int = 1) -> str:
        """A convolution that keeps the picture's edges, up to the stride, and a batch norm."""
        batch, channels = self.build.values[x].type.shape[:2]
        windows = Windows.over(self.edges(x), kernel, stride, kernel // 2)
        weight = self.build.parameter(f"{name}.weight", (filters, channels, kernel, kernel))
        x = self.build.add(name, Conv2d(windows), x, weight)
        height, width = self.edges(x)
        group = 0 if self.model.statistics == "synchronised" else batch
        statistics = StatisticsGroups(batch * height * width, group)
        parts = [self.build.parameter(f"{name}.norm.{part}", (filters,)) for part in ("weight", "bias")]
        x, *made = self.build.adds(f"{name}.norm", BatchNorm(statistics), x, *parts)
        shape = self.build.values[made[0]].type.shape
        state = self.build.state(f"{name}.norm.running", (*shape[:-1], 2, filters))
        self.build.update(f"{name}.norm.running", RunningStatistics(statistics), (state,), *made)
        return x


class ResnetSpec(PictureKeys):
    """A residual network."""

    kind: ClassVar[str] = "resnet"
    network: ClassVar[type[Model]] = ResidualNetwork

    blocks: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] | None = None
    """ResNet: number of blocks of every stage of the network; pipeline stages divide all of them."""

    block: Literal["basic", "bottleneck"] | None = None
    """ResNet: two 3 x 3 convolutions (basic), or one between two 1 x 1 convolutions (bottleneck); bottleneck
    if absent."""

    version: Literal["v1", "v1.5"] | None = None
    """ResNet: a downsampling bottleneck has its stride in the first convolution (v1) or in the second (v1.5);
    v1.5 if absent."""

    statistics: Literal["local", "synchronised"] | None = None
    """ResNet: batch norm over the samples of one data-parallel rank (local) or of all ranks (synchronised);
    local if absent."""

    width: PositiveInt | None = None
    """ResNet: channels inside the blocks of the first stage of the network; 64 if absent."""

    @classmethod
    def check(cls, known: Mapping[str, Any]) -> None:
        """Refused if stages halve the image to nothing."""
        least = 4 * 2 ** (len(known["blocks"]) - 1)
        if known["image"] < least:
            raise Refused(
                f"an image of {known['image']} pixels is halved to less than one: {least} at least",
                path="image",
            )
