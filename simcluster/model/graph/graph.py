"""The graph: operators over named values, written once per *block* and used by many *instances*.

A model with 126 equal layers has one block ``layer`` and 126 instances ``layers.0 .. layers.125``. Passes act
on blocks; what differs between instances (stage, strategies) makes specialised blocks, never copies.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from simcluster.document import matches
from simcluster.layout import Layout, Movement, Strategy
from simcluster.model.graph.memory_place import MemoryPlace, Relocation
from simcluster.model.graph.operator import Array, Operator, TensorType

LAYERS = "{,*.}layers.*"
"""What models call the instances that pipeline stages share: ``layers.3``, ``decoder.layers.3``."""


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

    ``copy_of`` names the parameter whose initial values it holds besides the parameter itself; ``below``
    bounds the ids of a feed of integers, ``part`` says which part of the input a feed is, if not all of it;
    ``place`` is the memory it lies in.
    """

    type: TensorType
    role: Role = Role.ACTIVATION
    layout: Layout | None = None
    copy_of: str = ""
    below: int = 0
    part: TensorSlice | None = None
    place: MemoryPlace = MemoryPlace.DEVICE


@dataclass(frozen=True, slots=True)
class Node:
    """An operator, a movement between layouts, or a relocation between memories, in place.

    ``origin`` names the forward node it was derived from. ``strategy``, ``masked`` and ``why`` are set when
    it is sharded: ``masked`` lists (input, axes) whose copies count only at coordinate 0, so that they join
    a partial sum; ``why`` tells the user what made a movement necessary. Outputs in the role of accumulators
    and sums are added, not stored. Neighbours with one ``kernel`` name run as one launch. ``piece`` names the
    function of the block that runs as a graph and that it belongs to; without one it is dispatched by itself.
    ``place`` is where an operator runs: on the device, or on the processors of its host.
    ``chunked`` names the collective that it is a chunk of, or goes in chunks with.
    """

    name: str
    operator: Operator | Movement | Relocation
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    phase: Phase = Phase.FORWARD
    origin: str = ""
    strategy: Strategy = Strategy()
    masked: tuple[tuple[int, tuple[str, ...]], ...] = ()
    kernel: str = ""
    why: str = ""
    piece: str = ""
    place: MemoryPlace = MemoryPlace.DEVICE
    chunked: str = ""

    @property
    def source(self) -> str:
        """The forward node whose strategy applies here."""
        return self.origin or self.name


@dataclass(frozen=True)
class Block:
    """A piece of the graph that instances share.

    ``inputs`` and ``outputs`` are the activations that cross its border; ``feeds`` come from the batch.
    ``gradients`` maps a value (input, output or parameter) to the name of its gradient; ``loss`` is the
    scalar to minimise, if it is in this block. ``shared`` values are one buffer for all blocks of a stage
    that have them. ``recomputed``: its backward runs its whole forward again. ``row_gradients`` maps a table
    that is changed by rows to the rows' gradients and their ids, instead of a gradient.
    """

    name: str
    feeds: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]
    values: Mapping[str, Value]
    nodes: tuple[Node, ...]
    gradients: Mapping[str, str] = field(default_factory=dict)
    loss: str | None = None
    shared: tuple[str, ...] = ()
    recomputed: bool = False
    row_gradients: Mapping[str, tuple[str, str]] = field(default_factory=dict)

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
    """One use of a block: ``layers.3``. ``inputs`` name the graph values bound to the block's inputs.

    ``stage`` is the pipeline stage that runs it, ``chunk`` which of the pieces that lie there it is in; of a
    graph of several passes, not placed yet, the number of the pass. ``like`` names the instance of another
    pass that it repeats, parameters and all. It may work on one ``slice`` of sequences only: then ``first``
    names, but in itself, the instance that works on the first slice, and whose weights and gradients all
    slices share.
    """

    name: str
    block: str
    inputs: tuple[str, ...] = ()
    stage: int = 0
    chunk: int = 0
    like: str = ""
    slice: int = 0
    first: str = ""

    @property
    def known_as(self) -> str:
        """What patterns call it: all passes have the strategies of the first."""
        return self.like or self.name

    @property
    def is_layer(self) -> bool:
        """Whether it is one of the layers that pipeline stages share."""
        return matches(LAYERS, self.name)

    @property
    def home(self) -> str:
        """The instance that holds its weights: itself, or that of the first slice."""
        return self.first or self.name

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
            for name in () if instance.first else block.parameters:
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
