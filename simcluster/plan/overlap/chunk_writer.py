"""Rewrites kernels and collectives of a block as chunks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh, Movement
from simcluster.model import Block, JoinChunks, Node, Operator, SplitChunks, TensorType, Value
from simcluster.plan.execution import KernelOrder


@dataclass(frozen=True, slots=True)
class ChunkedChain:
    """Kernels and collectives that run in the same chunks."""

    name: str
    """The name of its first collective."""
    places: tuple[int, ...]
    """Positions of its kernels and collectives, ascending."""
    cut: Mapping[str, int]
    """Value -> the dim along which it is divided."""
    axes: tuple[str, ...]
    """The axes over which values are gathered or scattered along that dim."""
    count: int
    """Chunks."""


def write_chunked_chains(order: KernelOrder, chains: Sequence[ChunkedChain], mesh: Mesh) -> Block:
    """The block with these chains, which share no kernel, in chunks.

    Kernels of a chain without a collective between them run chunk by chunk, each followed by its collectives,
    which so overlap with the next chunk's kernels. Other operands, such as casts of weights, are made before
    the first chunk.
    """
    writer = _Writer(order, mesh, chains, dict(order.block.values))
    chunked: dict[int, list[Node]] = {place: [] for place in writer.at}
    before: defaultdict[int, list[Node]] = defaultdict(list)
    behind: defaultdict[int, list[Node]] = defaultdict(list)
    for chain in chains:
        for value, place, late in writer.wanted(chain):
            (behind if late else before)[place].append(writer.together(chain, value, place))
    for chain in chains:
        before[chain.places[0]] += [node for place in writer.early(chain) for node in order.kernels[place]]
        for stage in writer.stages(chain):
            chunked[stage[0]] += writer.stage(chain, stage)
    nodes: list[Node] = []
    for place, kernel in enumerate(order.kernels):
        nodes += [*before[place], *chunked.get(place, kernel), *behind[place]]
    return replace(order.block, nodes=tuple(nodes), values=writer.values)


@dataclass
class _Writer:
    """Writes chains; ``at`` says where what stood at a place stands then, if not there, ``of`` which chain
    has it, or needs it before.
    """

    order: KernelOrder
    mesh: Mesh
    chains: Sequence[ChunkedChain]
    values: dict[str, Value]
    at: dict[int, int] = field(init=False)
    of: dict[int, ChunkedChain] = field(init=False)

    def __post_init__(self) -> None:
        self.of = {place: chain for chain in self.chains for place in chain.places}
        for chain in sorted(self.chains, key=lambda each: each.places):
            self.of |= dict.fromkeys(self._needed(chain), chain)
        self.at = {place: chain.places[0] for place, chain in self.of.items()}
        for chain in self.chains:
            self.at |= {place: stage[0] for stage in self.stages(chain) for place in stage}

    def early(self, chain: ChunkedChain) -> list[int]:
        """Kernels between those of a chain that make something for it of what is there before its first."""
        return [place for place, other in self.of.items() if other is chain and place not in chain.places]

    def _needed(self, chain: ChunkedChain) -> list[int]:
        """The same; what an earlier chain needs too stands before that one."""
        first, last = chain.places[0], chain.places[-1]
        needed = {value for place in chain.places for value in self.order.read(place)}
        return [
            place
            for place in range(first, last)
            if place not in self.of
            and not self._moves(place)
            and not needed.isdisjoint(self.order.made(place))
            and all(maker < first for maker in self._makers(place))
        ]

    def _makers(self, place: int) -> Iterator[int]:
        """The places of all before it that makes what a kernel reads; parameters are updated later."""
        makers = (self.order.makers.get(value, -1) for value in self.order.read(place))
        return (maker for maker in makers if maker < place)

    def stages(self, chain: ChunkedChain) -> list[list[int]]:
        """The places of a chain, those together that are written at the first of them: kernels, and then
        collectives, that need nothing which is made between them by others.
        """
        stages: list[list[int]] = []
        there = {*chain.places, *self.early(chain)}
        for place in chain.places:
            moves = self._moves(place)
            latest = max((maker for maker in self._makers(place) if maker not in there), default=-1)
            joins = bool(stages) and latest < stages[-1][0] and (moves or not self._moves(stages[-1][-1]))
            if joins:
                stages[-1].append(place)
            else:
                stages.append([place])
        return stages

    def _moves(self, place: int) -> bool:
        return isinstance(self.order.kernels[place][0].operator, Movement)

    def stage(self, chain: ChunkedChain, stage: Sequence[int]) -> Iterator[Node]:
        """What stands in the place of a stage."""
        made = {value for place in chain.places for value in self.order.made(place)}
        read = dict.fromkeys(value for place in stage for value in self.order.read(place))
        for value in read:
            if value in chain.cut and value not in made and self._first(chain, value) in stage:
                yield self._apart(chain, value, stage[0])
        for index in range(chain.count):
            for place in stage:
                for node in self.order.kernels[place]:
                    yield self._chunk(chain, node, index)

    def _first(self, chain: ChunkedChain, value: str) -> int:
        """The first place of a chain that reads a value."""
        return min(place for place in self.order.readers[value] if place in chain.places)

    def wanted(self, chain: ChunkedChain) -> Iterator[tuple[str, int, bool]]:
        """What others than a chain read of what it makes; before which place it has to be whole, the next
        that reads it, or (true) behind which if that is later.
        """
        for place in chain.places:
            for value in self.order.made(place):
                others = [user for user in self.order.readers.get(value, ()) if user not in chain.places]
                if value in chain.cut and (others or self.order.leaves(value)):
                    near = [user for user in self.order.users(value, place) if user not in chain.places]
                    if near:
                        yield value, min(self.at.get(user, user) for user in near), False
                    else:
                        yield value, place, True

    def _chunk(self, chain: ChunkedChain, node: Node, index: int) -> Node:
        """One chunk of a node."""

        def renamed(values: Sequence[str]) -> tuple[str, ...]:
            return tuple(self._part(chain, value, index) if value in chain.cut else value for value in values)

        return replace(
            node,
            name=f"{node.name}.chunk{index}",
            inputs=renamed(node.inputs),
            outputs=renamed(node.outputs),
            origin=node.source,
            kernel=f"{node.kernel}.chunk{index}" if node.kernel else "",
            chunked=chain.name,
        )

    def _part(self, chain: ChunkedChain, value: str, index: int) -> str:
        """The name of a chunk of a value, which other chains may cut too."""
        name = f"{value}.{chain.name}.chunk{index}"
        kind = self.order.block.values[value]
        shape = list(kind.type.shape)
        shape[chain.cut[value]] //= chain.count
        self.values[name] = replace(kind, type=TensorType(tuple(shape), kind.type.dtype))
        return name

    def _apart(self, chain: ChunkedChain, value: str, place: int) -> Node:
        """What cuts a value into its chunks."""
        operator = SplitChunks(*self._lies(chain, value))
        return self._laid(
            chain, f"{value}.{chain.name}.chunks", operator, (value,), self._parts(chain, value), place
        )

    def together(self, chain: ChunkedChain, value: str, place: int) -> Node:
        """What makes a value of its chunks, at a place."""
        operator = JoinChunks(*self._lies(chain, value))
        return self._laid(
            chain, f"{value}.{chain.name}.together", operator, self._parts(chain, value), (value,), place
        )

    def _parts(self, chain: ChunkedChain, value: str) -> tuple[str, ...]:
        return tuple(self._part(chain, value, index) for index in range(chain.count))

    def _lies(self, chain: ChunkedChain, value: str) -> tuple[tuple[str, ...], int, int, int]:
        """The dims of a value, which of them is cut, into how many chunks, and in how many runs."""
        kind, dim = self.order.block.values[value], chain.cut[value]
        assert kind.layout is not None
        labels = tuple(f"dim{place}" for place in range(len(kind.type.shape)))
        return labels, dim, chain.count, ranks_in_sequence(kind.layout, dim, chain.axes, self.mesh)

    def _laid(
        self,
        chain: ChunkedChain,
        name: str,
        operator: Operator,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        place: int,
    ) -> Node:
        at = self.order.kernels[place][0]
        phase, source, piece = at.phase, at.source, at.piece
        return Node(
            name, operator, inputs, outputs, phase, source, kernel=name, piece=piece, chunked=chain.name
        )


def ranks_in_sequence(layout: Layout, dim: int, axes: tuple[str, ...], mesh: Mesh) -> int:
    """How many ranks' parts of a dim, split over ``axes``, a rank holds one after another; 0 if it cannot be
    divided into chunks.

    Without axes, nothing is split.
    """
    if layout.halos or layout.flat:
        return 0
    have = layout.dims[dim]
    if not axes or have[-len(axes) :] == axes:
        return 1
    return mesh.product(axes) if set(axes).isdisjoint(have) else 0
