"""The graph: operators over named values, written once per *block* and used by many *instances*.

A model with 126 equal layers has one block ``layer`` and 126 instances ``layers.0 .. layers.125``. Passes act
on blocks; what differs between instances (stage, strategies) makes specialised blocks, never copies.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.layout import Layout, Movement, Strategy
from simcluster.model.graph.memory_place import MemoryPlace, Relocation
from simcluster.model.graph.operator import Array, Operator, TensorType

Key = TypeVar("Key", bound=Hashable)

LAYERS = "{,*.}layers.*"
"""What models call their layers: ``layers.3``, ``decoder.layers.3``."""

MULTI_TOKEN = "mtp.*"
"""What they call the instances of multi-token prediction: ``mtp.layers.0``, ``mtp.heads.0``."""


OUTPUT_LAYER, INPUT_LAYER = -1, -2
"""The chunks of a vocabulary that is split over all stages: the output layer's, the embedding's."""


class Phase(enum.StrEnum):
    """When an operator runs: once per step before, per micro-batch, or once per step after (DESIGN 4.4).

    Sharded weights are gathered ahead of a block's forward (``gather``) and backward (``regather``), sharded
    gradients scattered behind its backward (``scatter``), each on streams of their own. What was kept off the
    device comes back ahead of the backward (``fetch``). ``recompute`` is what a backward computes again,
    where a schedule does so ahead of it, ``weights`` the second half of a backward that is done in two.
    """

    BEGIN = "begin"
    GATHER = "gather"
    FORWARD = "forward"
    REGATHER = "regather"
    FETCH = "fetch"
    RECOMPUTE = "recompute"
    BACKWARD = "backward"
    WEIGHTS = "weights"
    SCATTER = "scatter"
    END = "end"


class Role(enum.StrEnum):
    """What a value is, as far as memory and lifetime care.

    A ``view`` lies inside another buffer; a ``copy`` holds parameters in another format for a whole step; a
    ``buffer`` is held all along for communication; ``gathered`` is a whole copy of a sharded parameter; a
    ``sum`` is a gradient of one micro-batch to which all who read the value add theirs; a ``cache`` is what
    passes of a generation keep for each other.
    """

    FEED = "feed"
    ACTIVATION = "activation"
    GRADIENT = "gradient"
    SUM = "sum"
    PARAMETER = "parameter"
    ACCUMULATOR = "accumulator"
    STATE = "state"
    CACHE = "cache"
    COPY = "copy"
    BUFFER = "buffer"
    VIEW = "view"
    GATHERED = "gathered"


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """Which of ``count`` equal parts of a longer tensor, cut along ``dim``, a tensor is."""

    dim: int
    index: int
    count: int

    def whole(self, kind: TensorType) -> TensorType:
        """The type of the longer tensor from that of the part."""
        shape = tuple(size * (self.count if dim == self.dim else 1) for dim, size in enumerate(kind.shape))
        return replace(kind, shape=shape)

    def of(self, array: Array) -> Array:
        """The part of an array that is the whole."""
        length = array.shape[self.dim] // self.count
        return array.take(np.arange(self.index * length, (self.index + 1) * length), axis=self.dim)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph: logical type, role, and its layout once it is sharded.

    ``copy_of`` names the parameter whose initial values it holds besides the parameter itself; ``num_ids``
    bounds the ids of a feed of integers, ``part`` says which part of the input a feed is, if not all of it;
    ``place`` is the memory it lies in.
    """

    type: TensorType
    role: Role = Role.ACTIVATION
    layout: Layout | None = None
    copy_of: str = ""
    num_ids: int = 0
    part: TensorSlice | None = None
    place: MemoryPlace = MemoryPlace.DEVICE


@dataclass(frozen=True, slots=True)
class Node:
    """An operator, a movement between layouts, or a relocation between memories, in place.

    Outputs in the role of accumulators and sums are added, not stored.
    """

    name: str
    """What it is called in its block."""
    operator: Operator | Movement | Relocation
    """What it does."""
    inputs: tuple[str, ...]
    """The values that it reads."""
    outputs: tuple[str, ...]
    """The values that it makes."""
    phase: Phase = Phase.FORWARD
    """When it runs."""
    origin: str = ""
    """The forward node that it was derived from."""
    strategy: Strategy = Strategy()
    """How its iteration dims are split, once it is sharded."""
    masked: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """(Input, axes) whose copies count only at coordinate 0, so that they join a partial sum."""
    kernel: str = ""
    """Neighbours with one name here run as one launch."""
    why: str = ""
    """What made a movement necessary, for the user."""
    piece: str = ""
    """The function of the block, run as a graph, that it belongs to; empty: it is dispatched by itself."""
    place: MemoryPlace = MemoryPlace.DEVICE
    """Where an operator runs: on the device, or on the processors of its host."""
    chunked: str = ""
    """The collective that it is a chunk of, or goes in chunks with."""

    @property
    def source(self) -> str:
        """The forward node whose strategy applies here."""
        return self.origin or self.name


@dataclass(frozen=True)
class Block:
    """A part of the graph that is written once and that instances share."""

    name: str
    """What it is called in the graph."""
    feeds: tuple[str, ...]
    """Values that come with the batch."""
    inputs: tuple[str, ...]
    """Activations that enter it."""
    outputs: tuple[str, ...]
    """Activations that leave it."""
    parameters: tuple[str, ...]
    """Values that are trained, or frozen."""
    values: Mapping[str, Value]
    """All values by name."""
    nodes: tuple[Node, ...]
    """Operators and movements in order."""
    gradients: Mapping[str, str] = field(default_factory=dict)
    """A value (input, output or parameter) -> the name of its gradient."""
    loss: str | None = None
    """The scalar to minimise, if it is in this block."""
    shared: tuple[str, ...] = ()
    """Values that are one buffer for all blocks of a stage that have them."""
    recomputed: bool = False
    """Whether its backward runs its whole forward again."""
    row_gradients: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """A table that is changed by rows -> the rows' gradients and their ids, instead of a gradient."""
    frozen: frozenset[str] = frozenset()
    """The parameters that are not trained."""
    follows: Mapping[str, str] = field(default_factory=dict)
    """An operator of an adapter -> the one beside which it is, whose strategy it has if it has no own."""

    @cached_property
    def states(self) -> tuple[str, ...]:
        """The values that last from step to step, or from pass to pass, and are no parameters."""
        return tuple(name for name, value in self.values.items() if value.role in (Role.STATE, Role.CACHE))

    def phase(self, *phases: Phase) -> Iterator[Node]:
        """The nodes of some phases, in order."""
        return (node for node in self.nodes if node.phase in phases)

    def node(self, name: str) -> Node:
        """The node called ``name``."""
        return next(node for node in self.nodes if node.name == name)


@dataclass(frozen=True, slots=True)
class Instance:
    """One use of a block: ``layers.3``."""

    name: str
    """What it is called in the graph; its parameters are called after it."""
    block: str
    """The block that it runs."""
    inputs: tuple[str, ...] = ()
    """The graph's values that the block's inputs are bound to."""
    stage: int = 0
    """The pipeline stage that runs it."""
    chunk: int = 0
    """Which chunk of the stage it is in; of a graph of several passes, not placed yet, the number of the
    pass. ``OUTPUT_LAYER`` and ``INPUT_LAYER`` are on all stages, each with its slice of the vocabulary;
    ``stage`` is then the one whose hidden states they read or make."""
    repeats: str = ""
    """The instance of another pass that it repeats, parameters and all."""
    slice: int = 0
    """The slice of sequences that it works on."""
    first_slice: str = ""
    """Of an instance on a later slice: the one on the first slice, whose weights and gradients all slices
    share."""

    @property
    def known_as(self) -> str:
        """What patterns call it: all passes have the strategies of the first."""
        return self.repeats or self.name

    @property
    def is_layer(self) -> bool:
        """Whether it is a layer."""
        return matches(LAYERS, self.name)

    @property
    def is_pipeline_layer(self) -> bool:
        """Whether it is one of the layers that are divided among pipeline stages: those of multi-token
        prediction stay with the head.
        """
        return self.is_layer and not matches(MULTI_TOKEN, self.name)

    @property
    def on_all_stages(self) -> bool:
        """Whether every stage runs it on its slice of the vocabulary."""
        return self.chunk < 0

    @property
    def weight_owner(self) -> str:
        """The instance that holds its weights: itself, or that of the first slice."""
        return self.first_slice or self.name

    def output(self, value: str) -> str:
        """The graph-wide name of a value of this instance."""
        return f"{self.name}:{value}"


@dataclass(frozen=True)
class Graph:
    """Blocks by name and their instances in execution order.

    ``ties`` are groups of full parameter names (``embedding.tokens.weight``) that are one parameter; the
    first is the one that counts. ``origins`` are, of a graph that was written by hand, the parameters of
    another graph that its own are parts of.
    """

    blocks: Mapping[str, Block]
    instances: tuple[Instance, ...]
    ties: tuple[tuple[str, ...], ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)

    def block_of(self, instance: Instance) -> Block:
        """The block an instance uses."""
        return self.blocks[instance.block]

    def nodes(self) -> Iterator[tuple[Instance, Node]]:
        """Every operator of every instance, in order; full names are ``instance.node``."""
        for instance in self.instances:
            for node in self.block_of(instance).nodes:
                yield instance, node

    def parameters(self) -> Iterator[tuple[str, TensorType]]:
        """Every distinct parameter by full name; tied ones once."""
        copies = {name for group in self.ties for name in group[1:]}
        for instance in self.instances:
            block = self.block_of(instance)
            for name in () if instance.first_slice else block.parameters:
                full = f"{instance.name}.{name}"
                if full not in copies:
                    yield full, block.values[name].type

    def canonical(self, parameter: str) -> str:
        """The name under which a tied parameter counts, or one that is a part of another graph's."""
        if parameter in self.origins:
            return self.origins[parameter]
        return self._counted.get(parameter, parameter)

    @cached_property
    def _counted(self) -> Mapping[str, str]:
        """Tied parameter -> the one that counts: that of the first group that has it."""
        return {name: group[0] for group in reversed(self.ties) for name in group}

    @property
    def num_parameters(self) -> int:
        """Elements of all distinct parameters."""
        return sum(kind.num_elements for _, kind in self.parameters())

    def with_blocks(self, blocks: Mapping[str, Block]) -> Graph:
        """The same instances over other blocks of the same names."""
        return replace(self, blocks=blocks)

    def specialised(
        self,
        keys: Mapping[str, Key],
        rewrite: Callable[[Block, Instance], Block],
        suffix: Callable[[Key, Sequence[Key]], str],
    ) -> Graph:
        """The graph with a block of its own for each key that instances of a block have, by instance.

        ``rewrite`` makes it of the block and the first instance that has the key; its name is the block's
        and ``suffix`` of the key and all keys of that block in order.
        """
        variants: dict[str, dict[Key, Instance]] = {}
        for instance in self.instances:
            variants.setdefault(instance.block, {}).setdefault(keys[instance.name], instance)
        names = {
            (name, key): name + suffix(key, tuple(firsts))
            for name, firsts in variants.items()
            for key in firsts
        }
        blocks = {
            name: replace(rewrite(self.blocks[block], variants[block][key]), name=name)
            for (block, key), name in names.items()
        }
        instances = (
            replace(instance, block=names[instance.block, keys[instance.name]]) for instance in self.instances
        )
        return replace(self, blocks=blocks, instances=tuple(instances))
