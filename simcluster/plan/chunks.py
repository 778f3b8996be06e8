"""Pass: collectives of activations in chunks, each beside the matmul of another chunk.

An all-gather and the matmul that reads what it makes become so many smaller ones: while the first chunk is
multiplied the second is gathered. A matmul and the reduction of what it makes likewise: while the second is
multiplied the first is reduced. Chunks are cut from what every rank holds, so that a chunk that is gathered
has a part of every rank's. Nothing else changes, neither what is computed nor where it lies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simcluster.layout import Kind, Mesh, Movement, base_axis, whole
from simcluster.model import Block, Graph, Node, Operator, Phase, Role, TensorType
from simcluster.model.operators.chunks import Chunks, Together
from simcluster.plan.fuse import kernel_nodes
from simcluster.plan.overlap_spec import OverlapSpec

_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS)
_REDUCTIONS = (Kind.REDUCE_SCATTER, Kind.ALL_REDUCE)
_FAMILY = "matmul"

Cut = Mapping[str, int]
"""Value -> the dim along which it is cut."""


def in_chunks(graph: Graph, chosen: Mapping[str, OverlapSpec], mesh: Mesh) -> Graph:
    """The graph with collectives of activations over the ``chosen`` axes in chunks with their matmuls.

    Those stay whole that no matmul belongs to, of which the rows do not divide into so many chunks, or whose
    matmul goes in chunks with another one already.
    """
    if not chosen:
        return graph
    return graph.with_blocks(
        {name: _Chunker(block, chosen, mesh).run() for name, block in graph.blocks.items()}
    )


def chunked(graph: Graph) -> dict[str, tuple[int, int]]:
    """Axis -> collectives of activations over it that go in chunks in one pass through the graph both ways,
    and all that there are.
    """
    found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for instance in graph.instances:
        seen: set[str] = set()
        for node in graph.block_of(instance).phase(*_PHASES):
            axis = _axis(node)
            if axis and not (node.chunked and node.chunked in seen):
                seen.add(node.chunked)
                found[axis][0] += bool(node.chunked)
                found[axis][1] += 1
    return {axis: (cut, total) for axis, (cut, total) in found.items()}


def chunks_told(chosen: Mapping[str, OverlapSpec], graph: Graph) -> Iterator[str]:
    """What the user should know of collectives in chunks."""
    found = chunked(graph)
    for axis, spec in chosen.items():
        cut, total = found.get(axis, (0, 0))
        yield (
            f"{cut:,} of {total:,} collectives of activations over {axis} go in {spec.chunks} chunks with "
            "their matmuls"
        )


def _multiplies(node: Node) -> bool:
    return isinstance(node.operator, Operator) and node.operator.family == _FAMILY


def _axis(node: Node) -> str:
    """The axis of the mesh over which a node gathers or reduces, if it is one of it alone."""
    movement = node.operator
    if not isinstance(movement, Movement) or movement.kind not in (Kind.ALL_GATHER, *_REDUCTIONS):
        return ""
    axes = {whole(base_axis(axis)) for axis in movement.axes}
    return axes.pop() if len(axes) == 1 else ""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A collective and the kernel it goes in chunks with, by their places among the kernels, and what is cut
    along which dim.
    """

    collective: int
    kernel: int
    cut: Cut
    count: int


@dataclass
class _Chunker:
    block: Block
    chosen: Mapping[str, OverlapSpec]
    mesh: Mesh
    kernels: list[tuple[Node, ...]] = field(init=False)
    readers: Mapping[str, Sequence[int]] = field(init=False)
    makers: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.kernels = kernel_nodes(self.block.nodes)
        readers: defaultdict[str, list[int]] = defaultdict(list)
        self.makers = {}
        for index, kernel in enumerate(self.kernels):
            for node in kernel:
                for value in node.inputs:
                    readers[value].append(index)
                self.makers |= dict.fromkeys(node.outputs, index)
        self.readers = readers
        self.values = dict(self.block.values)

    def run(self) -> Block:
        """The block with all pairs in chunks."""
        made: dict[int, list[Node]] = {index: list(kernel) for index, kernel in enumerate(self.kernels)}
        taken: set[int] = set()
        for index in range(len(self.kernels)):
            pair = self._pair(index)
            if pair is not None and pair.kernel not in taken:
                taken.add(pair.kernel)
                made |= self._written(pair)
        nodes = tuple(node for index in range(len(self.kernels)) for node in made[index])
        return replace(self.block, nodes=nodes, values=self.values)

    # -- which ------------------------------------------------------------------------------------------

    def _pair(self, index: int) -> _Pair | None:
        """What a collective goes in chunks with, if it may."""
        node = self.kernels[index][0]
        spec = self.chosen.get(_axis(node))
        if spec is None or len(self.kernels[index]) > 1 or node.phase not in _PHASES:
            return None
        movement = node.operator
        assert isinstance(movement, Movement)
        gathers = movement.kind is Kind.ALL_GATHER
        if not spec.cuts(node.phase, gathers=gathers) or not self._of_activations(node):
            return None
        found = self._behind(index) if gathers else self._before(index)
        if found is None:
            return None
        kernel, cut = found
        runs = [self._runs(value, dim, movement) for value, dim in cut.items()]
        divided = all(
            each and not self._length(value, dim) % (each * spec.chunks)
            for each, (value, dim) in zip(runs, cut.items(), strict=True)
        )
        return _Pair(index, kernel, cut, spec.chunks) if divided else None

    def _of_activations(self, node: Node) -> bool:
        roles = {self.block.values[value].role for value in (*node.inputs, *node.outputs)}
        return roles <= {Role.ACTIVATION, Role.GRADIENT}

    def _behind(self, index: int) -> tuple[int, Cut] | None:
        """The first kernel that reads what is gathered, if a matmul does, and what it cuts."""
        (node,) = self.kernels[index]
        (value,) = node.outputs
        assert isinstance(node.operator, Movement)
        users = [user for user in self.readers[value] if self.kernels[user][0].phase is node.phase]
        if not users or users[0] < index or node.operator.dim < 0:
            return None
        kernel = self.kernels[users[0]]
        if not any(_multiplies(each) and value in each.inputs for each in kernel):
            return None
        cut = self._spread(kernel, {value: node.operator.dim})
        if cut is None or kernel[0].piece != node.piece:
            return None
        return users[0], {node.inputs[0]: node.operator.dim, **cut}

    def _before(self, index: int) -> tuple[int, Cut] | None:
        """The kernel of a matmul that makes what is reduced for nobody else, and what it cuts."""
        (node,) = self.kernels[index]
        (value,), (out,) = node.inputs, node.outputs
        maker = self.makers.get(value)
        if maker is None or maker > index or len(self.readers[value]) > 1 or self._leaves(value):
            return None
        kernel = self.kernels[maker]
        first = kernel[0]
        same = first.phase is node.phase and first.piece == node.piece
        if not same or not _multiplies(first) or value not in first.outputs:
            return None
        assert isinstance(node.operator, Movement) and isinstance(first.operator, Operator)
        shape = self.block.values[value].type.shape
        dim = node.operator.dim
        if node.operator.kind is Kind.ALL_REDUCE:
            dim = max(range(len(shape) - 1), key=lambda place: shape[place], default=-1)
        if dim < 0:
            return None
        dims = first.operator.dims()
        name = dims.outputs[first.outputs.index(value)][dim]
        seeds = {
            read: names.index(name)
            for read, names in zip(first.inputs, dims.inputs, strict=True)
            if name in names
        }
        cut = self._spread(kernel, seeds) if seeds else None
        if cut is None or cut[value] != dim:
            return None
        return maker, {**cut, out: dim}

    def _leaves(self, value: str) -> bool:
        """Whether others than the block's own nodes read a value."""
        border = (*self.block.inputs, *self.block.outputs)
        return value in border or any(self.block.gradients.get(name) == value for name in border)

    def _spread(self, kernel: Sequence[Node], seeds: Cut) -> dict[str, int] | None:
        """What a kernel reads and makes along a dim in which it reads ``seeds``; None if it cannot be cut
        along it: where an operator looks at where its elements lie, or makes something without the dim.
        """
        cut = dict(seeds)
        for node in kernel:
            if not isinstance(node.operator, Operator) or not node.operator.anywhere:
                return None
            dims = node.operator.dims()
            reads, makes = (
                zip(node.inputs, dims.inputs, strict=True),
                zip(node.outputs, dims.outputs, strict=True),
            )
            operands = [*reads]
            along = {names[cut[value]] for value, names in operands if value in cut}
            if len(along) != 1:
                return None
            (name,) = along
            if name not in dims.splittable or any(each.dim == name for each in dims.windows):
                return None
            for value, names in makes:
                if name not in names or self.block.values[value].role not in (Role.ACTIVATION, Role.GRADIENT):
                    return None
                operands.append((value, names))
            for value, names in operands:
                place = names.index(name) if name in names else None
                if place != cut.get(value, place):
                    return None
                if place is not None:
                    cut[value] = place
        return cut

    def _runs(self, value: str, dim: int, movement: Movement) -> int:
        """How many ranks' parts stand one after another in what a rank holds; 0 if that cannot be cut."""
        layout = self.block.values[value].layout
        assert layout is not None
        if layout.halos or layout.flat:
            return 0
        if movement.kind is Kind.ALL_REDUCE:
            return 1
        axes = layout.dims[dim]
        if axes[-len(movement.axes) :] == movement.axes:
            return 1
        return self.mesh.product(movement.axes) if set(movement.axes).isdisjoint(axes) else 0

    def _length(self, value: str, dim: int) -> int:
        """What a rank holds along a dim; 1, which does not divide, where ranks do not hold equally much."""
        kind = self.block.values[value]
        assert kind.layout is not None
        length, left = divmod(kind.type.shape[dim], self.mesh.product(kind.layout.dims[dim]))
        return 1 if left else length

    # -- in chunks --------------------------------------------------------------------------------------

    def _written(self, pair: _Pair) -> Iterator[tuple[int, list[Node]]]:
        """What stands in the places of a collective and its kernel."""
        (node,) = self.kernels[pair.collective]
        kernel = self.kernels[pair.kernel]
        (read,), (made,) = node.inputs, node.outputs
        collectives = [self._chunk(node, index, pair, node) for index in range(pair.count)]
        parts = [[self._chunk(each, index, pair, node) for each in kernel] for index in range(pair.count)]
        own = {value for each in kernel for value in each.outputs}
        outside = dict.fromkeys(value for each in kernel for value in each.inputs if value not in own)
        gathers = pair.collective < pair.kernel
        came = made if gathers else ""
        before = [
            self._apart(value, pair, node, kernel[0])
            for value in outside
            if value in pair.cut and value != came
        ]
        went = read if not gathers else ""
        behind = [
            self._together(value, pair, node, kernel[0])
            for value in dict.fromkeys(value for each in kernel for value in each.outputs)
            if value != went and self._wanted(value, pair.kernel)
        ]
        if gathers:
            if self._wanted(made, pair.kernel):
                behind.insert(0, self._together(made, pair, node, kernel[0]))
            yield pair.collective, [self._apart(read, pair, node, node), *collectives]
            yield pair.kernel, [*before, *(each for part in parts for each in part), *behind]
        else:
            woven = (each for part, moved in zip(parts, collectives, strict=True) for each in (*part, moved))
            yield pair.kernel, [*before, *woven, *behind]
            yield pair.collective, [self._together(made, pair, node, node)]

    def _wanted(self, value: str, kernel: int) -> bool:
        """Whether others than a kernel read a value whole."""
        return self._leaves(value) or any(user != kernel for user in self.readers[value])

    def _chunk(self, node: Node, index: int, pair: _Pair, collective: Node) -> Node:
        """One chunk of a node."""

        def renamed(values: Sequence[str]) -> tuple[str, ...]:
            return tuple(self._part(value, index, pair) if value in pair.cut else value for value in values)

        name = f"{node.name}.chunk{index}"
        return replace(
            node,
            name=name,
            inputs=renamed(node.inputs),
            outputs=renamed(node.outputs),
            origin=node.source,
            kernel=f"{node.kernel}.chunk{index}" if node.kernel else "",
            chunked=collective.name,
        )

    def _part(self, value: str, index: int, pair: _Pair) -> str:
        """The name of a chunk of a value, which other collectives may cut too."""
        name = f"{value}.{self.kernels[pair.collective][0].name}.chunk{index}"
        kind = self.block.values[value]
        shape = list(kind.type.shape)
        shape[pair.cut[value]] //= pair.count
        self.values[name] = replace(kind, type=TensorType(tuple(shape), kind.type.dtype))
        return name

    def _apart(self, value: str, pair: _Pair, collective: Node, at: Node) -> Node:
        """What cuts a value into its chunks."""
        parts = tuple(self._part(value, index, pair) for index in range(pair.count))
        operator = Chunks(*self._lies(value, pair, collective))
        return self._laid(f"{value}.{collective.name}.chunks", operator, (value,), parts, collective, at)

    def _together(self, value: str, pair: _Pair, collective: Node, at: Node) -> Node:
        """What makes a value of its chunks."""
        parts = tuple(self._part(value, index, pair) for index in range(pair.count))
        operator = Together(*self._lies(value, pair, collective))
        return self._laid(f"{value}.{collective.name}.together", operator, parts, (value,), collective, at)

    def _lies(self, value: str, pair: _Pair, collective: Node) -> tuple[tuple[str, ...], int, int, int]:
        """The dims of a value, which of them is cut, into how many chunks, and in how many runs."""
        labels = tuple(f"dim{place}" for place in range(len(self.block.values[value].type.shape)))
        assert isinstance(collective.operator, Movement)
        dim = pair.cut[value]
        return labels, dim, pair.count, self._runs(value, dim, collective.operator)

    def _laid(
        self,
        name: str,
        operator: Operator,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        collective: Node,
        at: Node,
    ) -> Node:
        """A node that cuts or puts together, where ``at`` stands."""
        return Node(
            name,
            operator,
            inputs,
            outputs,
            at.phase,
            origin=at.source,
            kernel=name,
            piece=at.piece,
            chunked=collective.name,
        )
