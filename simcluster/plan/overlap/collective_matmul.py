"""Pass: overlaps collectives of activations with matmuls, in chunks (Transformer Engine's tp_comm_overlap).

An all-gather and the matmul that reads its result become several smaller ones: while the first chunk is
multiplied, the second is gathered. A matmul and the reduction of its result likewise: while the second is
multiplied, the first is reduced. Chunks are parts of what every rank holds, so a gathered chunk has a part of
every rank's. Values and layouts stay the same.

Or everything from one attention to the next runs in chunks, as in MindFormers' fine-grained interleaving:
kernels of one chunk then overlap with collectives of another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh, Movement, MovementKind, base_axis, whole
from simcluster.model import Block, Graph, Node, Operator, Phase, Role
from simcluster.plan.execution import KernelOrder
from simcluster.plan.overlap.chunk_writer import ChunkedChain, ranks_in_sequence, write_chunked_chains
from simcluster.plan.spec import OverlapSpec

Cut = dict[str, int]
"""Value -> the dim along which it is divided."""

_GATHERS, _REDUCES = (MovementKind.ALL_GATHER,), (MovementKind.REDUCE_SCATTER, MovementKind.ALL_REDUCE)
_ROLES = (Role.ACTIVATION, Role.GRADIENT)

_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS)
_FAMILY = "matmul"


def chunk_collectives(graph: Graph, chosen: Mapping[str, OverlapSpec], mesh: Mesh) -> Graph:
    """The graph with collectives of activations over the ``chosen`` axes in chunks, together with their
    matmuls.

    A collective stays whole if it has no matmul, if its rows do not divide into so many chunks, or if its
    matmul is in chunks with another collective already.
    """
    if not chosen:
        return graph
    made = {}
    for name, block in graph.blocks.items():
        order = KernelOrder.of(block)
        made[name] = write_chunked_chains(order, _Finder(order, chosen, mesh).chains(), mesh)
    return graph.with_blocks(made)


def count_chunked_collectives(graph: Graph) -> dict[str, tuple[int, int]]:
    """Axis -> (collectives of activations over it in chunks, all of them), in one forward and backward."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for instance in graph.instances:
        seen: set[str] = set()
        for node in graph.block_of(instance).phase(*_PHASES):
            axis = _axis(node)
            name = node.name.rpartition(".chunk")[0] if node.chunked else node.name
            if axis and name not in seen:
                seen.add(name)
                counts[axis][0] += bool(node.chunked)
                counts[axis][1] += 1
    return {axis: (cut, total) for axis, (cut, total) in counts.items()}


def describe_chunked_collectives(chosen: Mapping[str, OverlapSpec], graph: Graph) -> Iterator[str]:
    """Notes on collectives in chunks."""
    counts = count_chunked_collectives(graph) if chosen else {}
    for axis, spec in chosen.items():
        cut, total = counts.get(axis, (0, 0))
        what = "their matmuls" if spec.reach == "matmul" else "all that is between attentions"
        yield (
            f"{cut:,} of {total:,} collectives of activations over {axis} go in {spec.chunks} chunks with "
            f"{what}"
        )


def _axis(node: Node) -> str:
    """The axis of the mesh over which a node gathers or reduces, if it is one of it alone."""
    movement = node.operator
    if not isinstance(movement, Movement) or movement.kind not in (*_GATHERS, *_REDUCES):
        return ""
    axes = {whole(base_axis(axis)) for axis in movement.axes}
    return axes.pop() if len(axes) == 1 else ""


def _multiplies(node: Node) -> bool:
    return isinstance(node.operator, Operator) and node.operator.family == _FAMILY


@dataclass
class _Finder:
    """Finds what goes in chunks in one block; no kernel is part of two chains."""

    order: KernelOrder
    chosen: Mapping[str, OverlapSpec]
    mesh: Mesh
    taken: set[int] = field(default_factory=set)

    def chains(self) -> list[ChunkedChain]:
        """The chains of a block, in order of their first collectives."""
        chains = []
        for place, kernel in enumerate(self.order.kernels):
            spec = self.chosen.get(_axis(kernel[0]))
            if spec is None or place in self.taken or not self._goes(kernel, spec):
                continue
            chain = self._chain(place, spec)
            if chain is not None:
                self.taken.update(chain.places)
                chains.append(chain)
        return chains

    def _goes(self, kernel: tuple[Node, ...], spec: OverlapSpec) -> bool:
        """Whether it is a collective of an activation that is to go in chunks."""
        node, *others = kernel
        if others or node.phase not in _PHASES or not isinstance(node.operator, Movement):
            return False
        values = [self.order.block.values[value] for value in (*node.inputs, *node.outputs)]
        activations = {operand.role for operand in values} <= {Role.ACTIVATION, Role.GRADIENT}
        gathers = node.operator.kind in _GATHERS
        return activations and node.operator.dim >= 0 and spec.cuts(node.phase, gathers=gathers)

    def _chain(self, place: int, spec: OverlapSpec) -> ChunkedChain | None:
        """What goes in chunks with a collective, if anything does."""
        (node,) = self.order.kernels[place]
        assert isinstance(node.operator, Movement)
        gathers = node.operator.kind in _GATHERS
        axes = () if node.operator.kind is MovementKind.ALL_REDUCE else node.operator.axes
        (read,), (made,) = node.inputs, node.outputs
        dim = node.operator.dim
        if node.operator.kind is MovementKind.ALL_REDUCE:
            shape = self.order.block.values[made].type.shape
            dim = max(range(len(shape) - 1), key=lambda index: shape[index], default=-1)
        cut: Cut = {read: dim, made: dim}
        if dim < 0 or not self._divided(cut, axes, spec):
            return None
        if spec.reach == "layer":
            places = self._around(place, cut, axes, spec)
        else:
            kernels = self._behind(place, cut) if gathers else self._before(place, cut)
            places = set() if kernels is None else {place, *kernels}
        multiplied = any(
            _multiplies(other_node) for other in places for other_node in self.order.kernels[other]
        )
        if not multiplied or not self.taken.isdisjoint(places) or not self._divided(cut, axes, spec):
            return None
        return ChunkedChain(node.name, tuple(sorted(places)), cut, axes, spec.chunks)

    def _divided(self, cut: Cut, axes: tuple[str, ...], spec: OverlapSpec) -> bool:
        """Whether all that is cut gives equal chunks."""
        block = self.order.block
        return all(
            divides_into_chunks(block, value, dim, axes, spec.chunks, self.mesh) for value, dim in cut.items()
        )

    def _joins(self, place: int, other: int) -> bool:
        """Whether two kernels are of one phase, and of one piece that is a graph or of none."""
        one, two = self.order.kernels[place][0], self.order.kernels[other][0]
        return one.phase is two.phase and one.piece == two.piece

    # -- with one matmul --------------------------------------------------------------------------------

    def _behind(self, place: int, cut: Cut) -> list[int] | None:
        """The first kernel that reads what is gathered, if a matmul does; or a cast, with the matmul behind
        it. What they cut is added to ``cut``.
        """
        kernels: list[int] = []
        made = self.order.kernels[place][0].outputs
        while len(kernels) < 2:
            users = sorted(user for value in made for user in self.order.users(value, place))
            if not users or not self._joins(place, users[0]):
                return None
            kernel = self.order.kernels[users[0]]
            wider = chunked_dims(self.order.block, kernel, {value: cut[value] for value in made})
            if wider is None:
                return None
            cut |= wider
            kernels.append(users[0])
            if any(_multiplies(node) for node in kernel):
                return kernels
            made = tuple(value for value in self.order.made(users[0]) if value in cut)
        return None

    def _before(self, place: int, cut: Cut) -> list[int] | None:
        """The kernel of a matmul that makes what is reduced for nobody else. What it cuts is added."""
        (value,) = self.order.kernels[place][0].inputs
        maker = self.order.makers.get(value)
        if maker is None or maker > place or not self._joins(place, maker):
            return None
        if len(self.order.readers[value]) > 1 or self.order.leaves(value):
            return None
        kernel = self.order.kernels[maker]
        wider = chunked_dims(self.order.block, kernel, {value: cut[value]})
        if wider is None or not any(_multiplies(node) and value in node.outputs for node in kernel):
            return None
        cut |= wider
        return [maker]

    # -- with all around --------------------------------------------------------------------------------

    def _around(self, place: int, cut: Cut, axes: tuple[str, ...], spec: OverlapSpec) -> set[int]:
        """The places of all that is cut with a collective. What they cut is added to ``cut``."""
        chain = {place}
        grew = True
        while grew:
            grew = False
            for other, kernel in enumerate(self.order.kernels):
                if other in chain or other in self.taken or not self._joins(place, other):
                    continue
                near = {
                    value: cut[value]
                    for value in (*self.order.read(other), *self.order.made(other))
                    if value in cut
                }
                # What only reads a value that the chain reads too need not be cut with it.
                makers = {self.order.makers.get(value) for value in near}
                linked = not chain.isdisjoint(makers) or any(
                    self._feeds(value, chain) for value in self.order.made(other)
                )
                if not near or not linked or not self._takes(kernel, axes, spec):
                    continue
                wider = chunked_dims(self.order.block, kernel, near)
                if wider is None or any(cut.get(value, dim) != dim for value, dim in wider.items()):
                    continue
                if self._divided(wider, axes, spec):
                    cut |= wider
                    chain.add(other)
                    grew = True
        return chain

    def _feeds(self, value: str, places: set[int]) -> bool:
        return not places.isdisjoint(self.order.readers.get(value, ()))

    def _takes(self, kernel: tuple[Node, ...], axes: tuple[str, ...], spec: OverlapSpec) -> bool:
        """Whether a kernel may be cut with others: a collective only if it is over the same axes."""
        node = kernel[0]
        if not isinstance(node.operator, Movement):
            return True
        same = node.operator.kind is MovementKind.ALL_REDUCE if not axes else node.operator.axes == axes
        return self.chosen.get(_axis(node)) is spec and same and self._goes(kernel, spec)


def chunked_dims(block: Block, kernel: Sequence[Node], known: Mapping[str, int]) -> Cut | None:
    """Value -> dim, of all operands of a kernel that are divided if those ``known`` are.

    None if the kernel cannot run in chunks: an operator depends on the position of elements, or a result
    neither has the dim nor is an accumulator to which every chunk may add.
    """
    cut = dict(known)
    left = list(kernel)
    while left:
        node = next(
            (
                candidate
                for candidate in left
                if not cut.keys().isdisjoint((*candidate.inputs, *candidate.outputs))
            ),
            None,
        )
        if node is None or not _extend(block, node, cut):
            return None
        left.remove(node)
    operands = {value for node in kernel for value in (*node.inputs, *node.outputs)}
    operand_dims = {value: dim for value, dim in cut.items() if value in operands}
    return operand_dims if any(value in operand_dims for node in kernel for value in node.outputs) else None


def _extend(block: Block, node: Node, cut: Cut) -> bool:
    """Adds what a node reads and makes to what is cut; whether it can be cut so."""
    if not isinstance(node.operator, Operator):
        return _moved(node, cut)
    dims = node.operator.dims()
    reads, makes = (
        [*zip(node.inputs, dims.inputs, strict=True)],
        [*zip(node.outputs, dims.outputs, strict=True)],
    )
    along = {names[cut[value]] for value, names in (*reads, *makes) if value in cut}
    if len(along) != 1 or not node.operator.anywhere:
        return False
    (name,) = along
    if name not in dims.splittable or any(window.dim == name for window in dims.windows):
        return False
    for value, names in makes:
        role = block.values[value].role
        adds = name not in names and role is Role.ACCUMULATOR and dims.reduction == "sum"
        if not adds and (name not in names or role not in _ROLES):
            return False
    for value, names in (*reads, *makes):
        place = names.index(name) if name in names else None
        if cut.get(value, place) != place:
            return False
        if place is not None:
            cut[value] = place
    return True


def _moved(node: Node, cut: Cut) -> bool:
    """The same of a collective, which leaves the dims as they are."""
    movement = node.operator
    assert isinstance(movement, Movement)
    (read,), (made,) = node.inputs, node.outputs
    dims = {cut[value] for value in (read, made) if value in cut}
    if len(dims) != 1 or movement.kind not in (*_GATHERS, *_REDUCES):
        return False
    (dim,) = dims
    if movement.kind is not MovementKind.ALL_REDUCE and movement.dim != dim:
        return False
    cut |= {read: dim, made: dim}
    return True


def divides_into_chunks(
    block: Block, value: str, dim: int, axes: tuple[str, ...], count: int, mesh: Mesh
) -> bool:
    """Whether a rank's part of a value divides into ``count`` equal chunks, aligned with those
    of all ranks.
    """
    kind = block.values[value]
    assert kind.layout is not None
    runs = ranks_in_sequence(kind.layout, dim, axes, mesh)
    length, left = divmod(kind.type.shape[dim], mesh.product(kind.layout.dims[dim]))
    return runs > 0 and not left and length % (runs * count) == 0
