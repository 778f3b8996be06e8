"""Wide & Deep (arXiv 1606.07792) as MindSpore's model zoo has it: two tables looked up by every field's id.

The wide part adds up one weight per field, the deep part runs an MLP over all fields' rows side by side; both
rows are multiplied with the field's value first (1 for a category). Their sum is the logit of a click,
trained with binary cross entropy. The zoo keeps tables in fp32 and multiplies
matrices in fp16 (``tables: fp32``). Not modelled: its L2 term over the deep table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from simcluster.deferred_dataclass import dataclass
from simcluster.document import PositiveInt
from simcluster.model.family_spec import VocabularyKeys
from simcluster.model.graph import UNIT, Block, BlockBuilder, Graph, Instance, TensorType
from simcluster.model.layers import linear
from simcluster.model.model import Model
from simcluster.model.operators import (
    Bias,
    BinaryCrossEntropy,
    Cast,
    Elementwise,
    Embedding,
    Relu,
    Reshape,
    SumTo,
)
from simcluster.model.shard_counts import ShardCounts
from simcluster.work import DType

_IDS = ("batch", "fields")
_IN, _OUT = ("batch", "in"), ("batch", "out")
_LOGIT = ("batch", UNIT)


@dataclass(frozen=True, slots=True)
class WideDeep(Model):
    """Dimensions of a Wide & Deep: every sample has one id and one value for each of ``fields``.

    Both tables have ``vocab`` rows, the deep one with ``embedding`` columns; ``mlp`` are the widths of the
    hidden layers, each with a bias and ReLU. ``tables`` is the number format of tables and rows, if not that
    of the activations.
    """

    fields: int
    vocab: int
    embedding: int
    mlp: tuple[int, ...]
    tables: str | None = None

    vocabulary_operators: ClassVar[tuple[str, ...]] = ()

    @property
    def num_layers(self) -> int:
        """Hidden layers of the MLP, which pipeline stages share."""
        return len(self.mlp)

    @property
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario, and the widths of all hidden layers together."""
        sizes = {"fields": self.fields, "vocab": self.vocab, "embedding": self.embedding}
        return sizes | {"mlp": sum(self.mlp)}

    @property
    def fixed_seq_len(self) -> int:
        """Always one: a sample is one token."""
        return 1

    def seq_len_error(self, seq_len: int) -> str:
        """Why it cannot read sequences of this length, or nothing."""
        return "" if seq_len == 1 else f"a sample counts as one token: write seq_len: 1, not {seq_len}"

    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> WideDeep:
        """Few rows and narrow layers that divide as these do."""
        inner = max(ways("in"), ways("out"))
        return replace(
            self,
            fields=min(self.fields, ways("fields", 3) * ways("in")),
            vocab=min(self.vocab, ways("vocab", 8) - padded),
            embedding=min(self.embedding, ways("columns", 2)),
            mlp=tuple(min(size, 4 * inner) for size in self.mlp[:layers]),
        )

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch; the step has ``num_tokens`` samples."""
        assert seq_len == 1, self.seq_len_error(seq_len)
        widths = (self.fields * self.embedding, *self.mlp)
        blocks = [self._embedding(batch, dtype)]
        instances = [Instance("embedding", "embedding")]
        wide, deep = (instances[0].output(part) for part in ("wide", "deep"))
        for index in range(self.num_layers):
            blocks.append(_layer(f"layer{index}", batch, widths[index], widths[index + 1], dtype))
            instances.append(Instance(f"layers.{index}", f"layer{index}", (deep,)))
            deep = instances[-1].output("out")
        blocks.append(_head(batch, widths[-1], dtype, num_tokens))
        instances.append(Instance("head", "head", (wide, deep)))
        return Graph({block.name: block for block in blocks}, tuple(instances))

    def _embedding(self, batch: int, dtype: DType) -> Block:
        build = BlockBuilder("embedding", DType.of(self.tables) if self.tables else dtype)
        ids = build.feed("ids", TensorType((batch, self.fields), DType.INT64), self.vocab)
        values = build.feed("values", TensorType((batch, self.fields), build.dtype))

        def rows(part: str, columns: str, width: int) -> tuple[str, tuple[str, ...]]:
            """Every field's row of a table times its value, and its dims."""
            labels = (*_IDS, columns)
            table = build.parameter(f"{part}.weight", (self.vocab, width))
            looked_up = build.add(
                f"{part}.tokens", Embedding(_IDS, ("vocab", columns), self.vocab), ids, table
            )
            return build.add(
                f"{part}.values", Elementwise("mul", (labels, _IDS), labels), looked_up, values
            ), labels

        def given(name: str, labels: tuple[str, ...], value: str) -> str:
            """A value in the format of the activations."""
            same = build.dtype is dtype
            return value if same else build.add(name, Cast(labels, build.dtype, dtype), value)

        x, labels = rows("wide", UNIT, 1)
        wide = build.add("wide.sum", SumTo.of(labels, _LOGIT, (batch, self.fields, 1)), x)
        bias = build.parameter("wide.bias", (1,))
        wide = given("wide.cast", _LOGIT, build.add("wide.bias", Bias(_LOGIT, (UNIT,)), wide, bias))
        x, labels = rows("deep", "columns", self.embedding)
        x = given("deep.cast", labels, x)
        shape = (batch, self.fields, self.embedding)
        joined = Reshape.of(labels, shape, (batch, self.fields * self.embedding))
        return build.block(outputs={"wide": wide, "deep": build.add("deep.join", joined, x)})


def _layer(name: str, batch: int, width: int, wider: int, dtype: DType) -> Block:
    build = BlockBuilder(name, dtype)
    x = build.input("in", TensorType((batch, width), dtype))
    (x,) = linear(build, "dense", x, _IN, {"": ("in", "out")}, {"in": width, "out": wider}, bias=True)
    return build.block(outputs={"out": build.add("activation", Relu(_OUT), x)})


def _head(batch: int, width: int, dtype: DType, samples: float) -> Block:
    build = BlockBuilder("head", dtype)
    wide = build.input("wide", TensorType((batch, 1), dtype))
    x = build.input("deep", TensorType((batch, width), dtype))
    targets = build.feed("targets", TensorType((batch, 1), DType.INT64), 2)
    (x,) = linear(build, "dense", x, _IN, {"": ("in", UNIT)}, {"in": width, UNIT: 1}, bias=True)
    x = build.add("logit", Elementwise("add", (_LOGIT, _LOGIT), _LOGIT), wide, x)
    loss = build.add("loss", BinaryCrossEntropy(1 / samples, _LOGIT), x, targets)
    return build.block(outputs={}, loss=loss)


class WideDeepSpec(VocabularyKeys):
    """A Wide & Deep."""

    kind: ClassVar[str] = "wide_deep"
    network: ClassVar[type[Model]] = WideDeep

    fields: PositiveInt | None = None
    """Wide & Deep: number of ids per sample, each with a value."""

    embedding: PositiveInt | None = None
    """Wide & Deep: columns of the deep embedding table."""

    mlp: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] | None = None
    """Wide & Deep: sizes of the hidden layers."""

    tables: Literal["fp32"] | None = None
    """Wide & Deep: number format of the tables, of the rows looked up and of their product with the values;
    if absent, that of the activations."""
