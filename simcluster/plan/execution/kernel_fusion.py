"""Pass: neighbouring operators that run as one kernel launch, and movements that run as one collective.

Which operator families may be fused is a setting of the framework profile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import FLAT, Movement, MovementKind
from simcluster.model import Block, Graph, Node, Phase, Relocation

Pairs = Collection[tuple[str, str]]


def fuse(
    graph: Graph,
    pairs: Pairs,
    *,
    together: bool = True,
    apart: bool = False,
    inside: Pairs | None = None,
    skip_bias_add: bool = False,
) -> Graph:
    """The graph with kernel names: nodes with one name are launched together.

    ``pairs`` lists (family, next family): a node joins the kernel before it if it directly follows in program
    order, reads one of its results, and the pair of its family with the last one's is listed. Optimizer
    updates of a block run as one multi-tensor kernel if ``together``. The casts of a unit's weights always
    do; its gathers, and the reduce-scatters of its gradients, are one collective unless ``apart``. An
    operator that only updates a state from results of the previous kernel, as running statistics do, is
    always part of that kernel. Kernels that only add to parameter gradients do not separate neighbours: what
    follows them may join the kernel before them and then runs first. Subgraphs use the pairs ``inside``, if
    given; no kernel crosses their boundary. With ``skip_bias_add`` a bias that a later operator may be fused
    with stays out of the kernel of its matmul.
    """
    chosen = {False: pairs, True: pairs if inside is None else inside}
    later = {second for first, second in pairs if first == "bias"} - {"bias"} if skip_bias_add else set()
    blocks = {
        name: replace(block, nodes=_fused(block, chosen, together, apart, _late_biases(block, later)))
        for name, block in graph.blocks.items()
    }
    return graph.with_blocks(blocks)


def _fused(
    block: Block, pairs: Mapping[bool, Pairs], together: bool, apart: bool, late: Collection[str]
) -> tuple[Node, ...]:
    """The nodes with their kernels; those of ``late`` join no matmul."""
    made: list[Node] = []
    leaves = _leaves(block)
    for node in block.nodes:
        place = len(made)
        alone = apart and _is_collective(node)
        alone = alone or (node.name in late and bool(made) and _family(made[-1]) == "matmul")
        while not alone and not _joined(block, made[:place], node, pairs[bool(node.piece)], together):
            place -= 1
            alone = place < 0 or not _steps_over(made[place], node, leaves)
        if alone:
            made.append(replace(node, kernel=node.name))
        else:
            made.insert(place, replace(node, kernel=made[place - 1].kernel))
    return tuple(made)


def _late_biases(block: Block, later: Collection[str]) -> set[str]:
    """The forward nodes that add a bias whose sum an operator of these families reads."""
    forward = list(block.phase(Phase.FORWARD))
    taken = {value for node in forward if _family(node) in later for value in node.inputs}
    return {node.name for node in forward if _family(node) == "bias" and not taken.isdisjoint(node.outputs)}


def _steps_over(before: Node, node: Node, leaves: set[str]) -> bool:
    """Whether a node may run ahead of one that stands aside."""
    return before.name in leaves and set(before.outputs).isdisjoint(node.inputs)


def _joined(block: Block, made: list[Node], node: Node, pairs: Pairs, together: bool) -> bool:
    """Whether a node runs in the kernel that ``made`` ends with."""
    return (
        bool(made)
        and made[-1].piece == node.piece
        and (_joins(made, node, pairs, together) or _keeps_book(block, made, node))
        and _shares(block, made[-1]) == _shares(block, node)
    )


def _leaves(block: Block) -> set[str]:
    """The backward's nodes whose results nothing else of the backward reads: the gradients of parameters."""
    border = {block.gradients[name] for name in block.inputs if name in block.gradients}
    readers: defaultdict[str, list[str]] = defaultdict(list)
    leaves: set[str] = set()
    for node in reversed(list(block.phase(Phase.BACKWARD, Phase.WEIGHTS))):
        if not _is_collective(node) and all(
            value not in border and leaves.issuperset(readers[value]) for value in node.outputs
        ):
            leaves.add(node.name)
        for value in node.inputs:
            readers[value].append(node.name)
    return leaves


def _keeps_book(block: Block, made: list[Node], node: Node) -> bool:
    """Whether a forward node only updates a state by what the kernel before it, no collective, makes."""
    if _is_collective(made[-1]):
        return False
    if node.phase is not Phase.FORWARD or not node.outputs or not set(node.outputs) <= set(block.states):
        return False
    kernel = [other for other in made if other.kernel == made[-1].kernel]
    return any(value in node.inputs for other in kernel for value in other.outputs)


def _shares(block: Block, node: Node) -> bool:
    """Whether a node makes what other blocks wait for."""
    return not set(block.shared).isdisjoint(node.outputs)


def _joins(made: list[Node], node: Node, pairs: Pairs, together: bool) -> bool:
    last = made[-1]
    if last.phase is not node.phase:
        return False
    if _is_collective(node) or _is_collective(last):
        return _same_collective(last, node)
    if together and _family(last) in _UPDATES and _family(node) in _UPDATES:
        return True
    if node.phase in _UNIT and _family(last) == _family(node):
        return True
    if (_family(last), _family(node)) not in pairs:
        return False
    kernel = [other for other in made if other.kernel == last.kernel]
    produced = {value for other in kernel for value in other.outputs}
    return not produced.isdisjoint(node.inputs)


_VIEW = "view"
_UPDATES = ("optimizer", _VIEW)
_COMPUTED = (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS)
_UNIT = (Phase.GATHER, Phase.REGATHER, Phase.SCATTER)


def _is_collective(node: Node) -> bool:
    return isinstance(node.operator, Movement) and node.operator.is_collective


def _family(node: Node) -> str:
    """The operator's family; a slice of a flat buffer is only a view of it."""
    if isinstance(node.operator, Movement):
        return _VIEW if node.operator.dim == FLAT else "copy"
    if isinstance(node.operator, Relocation):
        return "relocation"
    return node.operator.family


def _same_collective(last: Node, node: Node) -> bool:
    """Movements of parameters and gradients that do not care where a tensor begins can share one buffer."""
    if last.operator != node.operator or node.phase in _COMPUTED:
        return False
    if node.phase in _UNIT:
        return True
    assert isinstance(node.operator, Movement)
    return node.operator.kind is MovementKind.ALL_REDUCE or node.operator.dim == FLAT


def kernel_nodes(nodes: Collection[Node]) -> list[tuple[Node, ...]]:
    """The nodes in order, grouped by kernel."""
    groups: list[list[Node]] = []
    for node in nodes:
        if groups and node.kernel and groups[-1][-1].kernel == node.kernel:
            groups[-1].append(node)
        else:
            groups.append([node])
    return [tuple(group) for group in groups]


@dataclass(frozen=True)
class KernelOrder:
    """Kernels of a fused block by their position."""

    block: Block
    """The block."""
    kernels: Sequence[tuple[Node, ...]]
    """The nodes of each kernel."""
    readers: Mapping[str, Sequence[int]]
    """Value -> positions of the kernels that read it."""
    makers: Mapping[str, int]
    """Value -> position of the kernel that makes it."""

    @classmethod
    def of(cls, block: Block) -> KernelOrder:
        """The order of a block's kernels."""
        kernels = kernel_nodes(block.nodes)
        readers: defaultdict[str, list[int]] = defaultdict(list)
        makers: dict[str, int] = {}
        for place, kernel in enumerate(kernels):
            for node in kernel:
                for value in node.inputs:
                    readers[value].append(place)
                makers |= dict.fromkeys(node.outputs, place)
        return cls(block, kernels, readers, makers)

    def users(self, value: str, behind: int) -> Iterator[int]:
        """Positions of the later kernels of the same phase that read a value."""
        phase = self.kernels[behind][0].phase
        return (
            place
            for place in self.readers.get(value, ())
            if place > behind and self.kernels[place][0].phase is phase
        )

    def leaves(self, value: str) -> bool:
        """Whether a value is read outside the block's own nodes."""
        border = (*self.block.inputs, *self.block.outputs)
        return value in border or any(self.block.gradients.get(name) == value for name in border)

    def read(self, place: int) -> Iterator[str]:
        """Values that a kernel reads and does not make itself, each once."""
        own = {value for node in self.kernels[place] for value in node.outputs}
        read = dict.fromkeys(value for node in self.kernels[place] for value in node.inputs)
        return (value for value in read if value not in own)

    def made(self, place: int) -> Iterator[str]:
        """Values that a kernel makes, each once."""
        return iter(dict.fromkeys(value for node in self.kernels[place] for value in node.outputs))
