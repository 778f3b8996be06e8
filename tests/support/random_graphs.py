"""Random small networks with random legal strategies, for properties over all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from simcluster.layout import padding_refusal
from simcluster.model import Graph, Instance, Model, Operator, TensorType
from simcluster.model.graph.block_builder import BlockBuilder
from simcluster.model.graph.operator import UNIT
from simcluster.model.operators.activation import Gelu, Relu, Tanh
from simcluster.model.operators.concat import Concat
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.dropout import Dropout
from simcluster.model.operators.elementwise import Elementwise
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.min_max import Extreme
from simcluster.model.operators.norm import LayerNorm, RmsNorm
from simcluster.model.operators.pointwise import Add, Bias
from simcluster.model.operators.reduction import SumTo
from simcluster.model.operators.reshape import Reshape
from simcluster.model.operators.router import ExpertSlots, Route
from simcluster.model.operators.router_weighted import RouterWeighted
from simcluster.model.operators.slice import Slice
from simcluster.model.operators.softmax import SoftmaxOver
from simcluster.model.operators.token_dispatch import SLOT_DIMS, SLOTTED, Combine, Dispatch, SlotWeights
from simcluster.model.operators.transpose import Transpose
from simcluster.work import DType

Labels = tuple[str, ...]
MESH = {"a": 2, "b": 2}


@dataclass(frozen=True)
class Sizes:
    """Those of a network: of its input, of classes and products, and of a mixture of experts."""

    batch: int
    seq: int
    width: int
    classes: int
    products: tuple[int, ...]
    experts: int
    capacity: int
    uneven: bool = False


EVEN = Sizes(4, 4, 8, 8, (4, 8), 4, 2)
"""All of them divide over either axis, most over both."""

UNEVEN = Sizes(6, 5, 7, 9, (3, 6), 3, 3, uneven=True)
"""Most of them divide over none."""

BATCH, SEQ, WIDTH, CLASSES = EVEN.batch, EVEN.seq, EVEN.width, EVEN.classes


@dataclass(frozen=True)
class Tensor:
    """A value of the network: its name, the names of its dims, and their sizes."""

    name: str
    labels: Labels
    shape: tuple[int, ...]


@dataclass
class Writer:
    """Writes operators that hypothesis draws, each behind those whose results it may read."""

    draw: Callable[[Any], Any]
    sizes: Sizes = EVEN
    shared: bool = False
    """Whether operators may read a parameter of another one."""
    build: BlockBuilder = field(default_factory=lambda: BlockBuilder("net", DType.FP32))
    made: list[Tensor] = field(default_factory=list)
    splits: list[dict[str, Any]] = field(default_factory=list)

    def network(self, size: int) -> None:
        """A network of so many operators, and the loss."""
        labels, shape = ("batch", "seq", "width"), (self.sizes.batch, self.sizes.seq, self.sizes.width)
        x = self.build.feed("x", TensorType(shape, DType.FP32))
        self.made.append(Tensor(x, labels, shape))
        # What is behind the first product has a gradient that someone wants.
        self._product(self.made[0])
        kinds = [
            self._product,
            self._activation,
            self._function,
            self._sum,
            self._times,
            self._bias,
            self._norm,
            self._softmax,
            self._dropout,
            self._reduction,
            self._extreme,
            self._transpose,
            self._merge,
            self._side_by_side,
            self._slice,
            self._mixture,
        ]
        for _ in range(size):
            x = self.draw(st.sampled_from(self.made[1:]))
            self.draw(st.sampled_from(kinds))(x)
        self._loss(self.made[-1])
        self.prune()

    # -- operators --------------------------------------------------------------------------------------

    def _product(self, x: Tensor) -> None:
        inner, width = x.labels[-1], self.draw(st.sampled_from(self.sizes.products))
        outer = f"d{len(self.made)}"
        weight = self._parameter((x.shape[-1], width))
        operator = Matmul(x.labels, ((inner, outer),), ((*x.labels[:-1], outer),))
        self._add(operator, (*x.labels[:-1], outer), x.name, weight)

    def _activation(self, x: Tensor) -> None:
        kind = self.draw(st.sampled_from([Gelu, Relu, Tanh]))
        self._add(kind(x.labels), x.labels, x.name)

    def _function(self, x: Tensor) -> None:
        kind = self.draw(st.sampled_from(["neg", "sigmoid", "silu", "softplus", "erf", "abs"]))
        self._add(Elementwise(kind, (x.labels,), x.labels), x.labels, x.name)

    def _sum(self, x: Tensor) -> None:
        others = [each.name for each in self.made[1:] if (each.labels, each.shape) == (x.labels, x.shape)]
        other = self.draw(st.sampled_from(others))
        if other != x.name:
            self._add(Add(x.labels), x.labels, x.name, other)

    def _times(self, x: Tensor) -> None:
        """By a vector of its own, along any of its dims, or by another value of its shape."""
        kind = self.draw(st.sampled_from(["mul", "sub", "maximum"]))
        place = self.draw(st.integers(0, len(x.labels) - 1))
        weight = self._parameter((x.shape[place],))
        self._add(Elementwise(kind, (x.labels, (x.labels[place],)), x.labels), x.labels, x.name, weight)

    def _bias(self, x: Tensor) -> None:
        self._add(Bias(x.labels, x.labels[-1:]), x.labels, x.name, self._parameter(x.shape[-1:]))

    def _norm(self, x: Tensor) -> None:
        if self.draw(st.booleans()):
            self._add(RmsNorm(x.labels, 1e-5), x.labels, x.name, self._parameter(x.shape[-1:]))
        else:
            weights = [self._parameter(x.shape[-1:]) for _ in range(2)]
            self._add(LayerNorm(x.labels, 1e-5), x.labels, x.name, *weights)

    def _softmax(self, x: Tensor) -> None:
        place = self.draw(st.integers(0, len(x.labels) - 1))
        self._add(SoftmaxOver(x.labels, x.labels[place]), x.labels, x.name)

    def _dropout(self, x: Tensor) -> None:
        self._add(Dropout(x.labels, 0.25, "drop"), x.labels, x.name)

    def _reduction(self, x: Tensor) -> None:
        kept = self._without_one(x)
        if kept:
            self._add(SumTo(x.labels, kept, 0.5, x.shape), kept, x.name)

    def _extreme(self, x: Tensor) -> None:
        kept = self._without_one(x)
        if kept:
            self._add(Extreme(x.labels, kept, self.draw(st.sampled_from(["max", "min"]))), kept, x.name)

    def _transpose(self, x: Tensor) -> None:
        order = tuple(self.draw(st.permutations(range(len(x.labels)))))
        self._add(Transpose(x.labels, order), tuple(x.labels[place] for place in order), x.name)

    def _merge(self, x: Tensor) -> None:
        if len(x.shape) > 1:
            shape = (*x.shape[:-2], x.shape[-2] * x.shape[-1])
            operator = Reshape.of(x.labels, x.shape, shape)
            self._add(operator, operator.result, x.name)

    def _side_by_side(self, x: Tensor) -> None:
        place = self.draw(st.integers(0, len(x.labels) - 1))
        operator = Concat(x.labels, place, (x.shape[place],) * 2)
        self._add(operator, x.labels, x.name, x.name)

    def _slice(self, x: Tensor) -> None:
        place = self.draw(st.integers(0, len(x.labels) - 1))
        if x.shape[place] % 4 == 0 and x.shape[place] > 4:
            half = x.shape[place] // 2
            operator = Slice(x.labels, x.shape, ((place, half, 1, half),))
            self._add(operator, x.labels, x.name)

    def _mixture(self, x: Tensor) -> None:
        """Tokens to the two best of some experts, some of them dropped, and back."""
        if len(x.shape) != 3:
            return
        experts, capacity = self.sizes.experts, self.sizes.capacity
        rows, inner, width = ("batch", "seq", "hidden"), (*SLOT_DIMS, "ffn"), 4
        scored = Matmul(rows, (("hidden", "experts"),), ((*rows[:-1], "experts"),))
        (scores,) = self._put(scored, x.name, self._parameter((x.shape[-1], experts)))
        weights, ids = self._put(Route(2, normalised=True), scores)
        (slots,) = self._put(ExpertSlots(experts, capacity), ids)
        (slotted,) = self._put(Dispatch(experts, capacity), x.name, slots)
        (weighing,) = self._put(SlotWeights(experts, capacity), weights, slots)
        product = Matmul(SLOTTED, (("experts", "hidden", "ffn"),), (inner,))
        (made,) = self._put(product, slotted, self._parameter((experts, x.shape[-1], width)))
        (made,) = self._put(RouterWeighted(Gelu(inner), SLOT_DIMS), made, weighing)
        down = Matmul(inner, (("experts", "ffn", "hidden"),), (SLOTTED,))
        (made,) = self._put(down, made, self._parameter((experts, width, x.shape[-1])))
        self._add(Combine(experts, capacity), x.labels, made, slots)

    def _loss(self, x: Tensor) -> None:
        classes = self.sizes.classes
        weight = self._parameter((x.shape[-1], classes))
        labels = (*x.labels[:-1], "classes")
        logits = self._add(Matmul(x.labels, ((x.labels[-1], "classes"),), (labels,)), labels, x.name, weight)
        targets = self.build.feed("targets", TensorType(x.shape[:-1], DType.INT64), classes)
        operator = CrossEntropy(1 / 64, labels)
        self.loss, statistic = self.build.adds("loss", operator, logits, targets)
        tensors = (logits, targets, self.loss, statistic)
        self._split("loss", operator, [self.build.values[each].type.shape for each in tensors])

    def prune(self) -> None:
        """Drops what does not lead to the loss: nobody could compare its gradient."""
        needed, kept = {self.loss}, []
        for node in reversed(self.build.nodes):
            if needed.intersection(node.outputs):
                needed |= {*node.inputs, *node.outputs}
                kept.append(node)
        self.build.nodes = kept[::-1]
        self.build.values = {name: each for name, each in self.build.values.items() if name in needed}
        self.build.parameters = [name for name in self.build.parameters if name in needed]
        self.build.feeds = [name for name in self.build.feeds if name in needed]
        names = {f"layers.0.{node.name}" for node in kept}
        self.splits = [each for each in self.splits if each["match"] in names]

    # -- what they share --------------------------------------------------------------------------------

    def _parameter(self, shape: tuple[int, ...]) -> str:
        if self.shared:
            like = [name for name in self.build.parameters if self.build.values[name].type.shape == shape]
            if like and self.draw(st.booleans()):
                return str(self.draw(st.sampled_from(like)))
        return self.build.parameter(f"w{len(self.build.parameters)}", shape)

    def _without_one(self, x: Tensor) -> Labels:
        gone = self.draw(st.integers(0, len(x.labels) - 1))
        return (*x.labels[:gone], *x.labels[gone + 1 :])

    def _add(self, operator: Operator, labels: Labels, *inputs: str) -> str:
        (value, *_) = self._put(operator, *inputs)
        self.made.append(Tensor(value, labels, self.build.values[value].type.shape))
        return value

    def _put(self, operator: Operator, *inputs: str) -> tuple[str, ...]:
        """An operator with its strategy, its results only for who knows of them."""
        name = f"n{len(self.build.nodes)}"
        outputs = self.build.adds(name, operator, *inputs)
        shapes = [self.build.values[tensor].type.shape for tensor in (*inputs, *outputs)]
        self._split(name, operator, shapes)
        return outputs

    def _split(self, name: str, operator: Operator, shapes: Sequence[tuple[int, ...]]) -> None:
        """A legal strategy: any dims that divide, or may be padded, over axes that are free."""
        extent = operator.dims().extents(shapes)
        whole = {dim for dim, _ in operator.dims().unsplittable}
        able = [
            dim
            for dim in extent
            if dim != UNIT and (dim not in whole or operator.decompose(frozenset({dim})))
        ]
        free, split = self.draw(st.permutations(list(MESH))), {}
        for dim in self.draw(st.permutations(able)):
            count = self.draw(st.integers(0, len(free)))
            axes, left = free[:count], free[count:]
            divides = extent[dim] % math.prod(MESH[axis] for axis in axes) == 0
            if count and (
                divides or (self.sizes.uneven and not padding_refusal(operator.dims(), (dim,), shapes))
            ):
                split[dim], free = list(axes), left
        self.splits.append(
            {"match": f"layers.0.{name}", "split": {"batch": [], **split} if "batch" in extent else split}
        )


@dataclass(frozen=True, repr=False)
class Network(Model):
    """A drawn network, as a model."""

    block: Any

    num_layers = 1
    max_seq_len = None

    def __repr__(self):
        """What it computes, line by line."""
        return "\n".join(f"{each.outputs[0]} = {each.operator} of {each.inputs}" for each in self.block.nodes)

    @property
    def dimensions(self):
        """None that a scenario could name."""
        return {}

    def graph(self, batch, seq_len, dtype, num_tokens):
        """The network; its batch is that of all ranks."""
        return Graph({"net": self.block}, (Instance("layers.0", "net"),))

    def shrunk(self, layers, ways, *, padded):
        """Itself."""
        return self


@st.composite
def networks(
    draw, most: int = 8, sizes: Sizes = EVEN, *, shared: bool = False
) -> tuple[Network, list[dict[str, Any]]]:
    """A network of at most so many operators, and its strategies as a scenario writes them.

    Operators have parameters of their own, unless they are ``shared``.
    """
    writer = Writer(draw, sizes, shared)
    writer.network(draw(st.integers(1, most)))
    return Network(writer.build.block(outputs={}, loss=writer.loss)), writer.splits
