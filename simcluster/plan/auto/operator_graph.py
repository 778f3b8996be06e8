"""The operators of a network as a search sees them: kinds, and the tensors between them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims, Strategy
from simcluster.model import Graph, Node, Operator, Phase, TensorType


@dataclass(frozen=True, eq=False, slots=True)
class OperatorKind:
    """What all instances of one operator of a block have in common."""

    block: str
    """The block that it is in."""
    node: str
    """What it is called there."""
    operator: Operator
    """The operator."""
    dims: Dims
    """Its iteration dims."""
    inputs: tuple[TensorType, ...]
    """Logical types of its inputs."""
    outputs: tuple[TensorType, ...]
    """Logical types of its outputs."""
    parameters: frozenset[int]
    """Which inputs are parameters of floating point."""
    trained: frozenset[int]
    """Which inputs have a gradient: parameters, and what depends on some."""
    fixed: Strategy | None
    """The strategy that the user gave it; None: it is searched."""
    family: str
    """The family of operators that it is one of."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The logical shapes of inputs, then outputs."""
        return [kind.shape for kind in self.inputs + self.outputs]

    @property
    def elementwise(self) -> bool:
        """Whether every element of its results is made of one element of its inputs."""
        return self.family in _ELEMENTWISE


_ELEMENTWISE = frozenset({"pointwise", "bias", "cast", "dropout"})


@dataclass(frozen=True, slots=True)
class OperatorVertex:
    """One operator of the network."""

    name: str
    """Its full name: instance and node."""
    instance: str
    """The instance that it is in."""
    kind: int
    """The index of its kind."""
    stage: int
    """The pipeline stage that runs it."""


@dataclass(frozen=True, slots=True)
class TensorEdge:
    """A tensor that two operators share.

    It is made by ``source``, as its output, and read by ``reader``; or a parameter that both read.
    """

    source: int
    """The vertex that it comes from."""
    source_index: int
    """Which of its outputs it is; of a parameter, which of its inputs."""
    reader: int
    """The vertex that reads it."""
    reader_index: int
    """Which of its inputs it is there."""
    parameter: bool
    """Whether it is a parameter that both read."""


@dataclass(frozen=True)
class OperatorGraph:
    """All operators of a network in the order in which they run, and the tensors between them."""

    kinds: tuple[OperatorKind, ...]
    """The different operators."""
    vertices: tuple[OperatorVertex, ...]
    """The operators."""
    edges: tuple[TensorEdge, ...]
    """The tensors between them, by the order of their readers."""

    @classmethod
    def of(cls, graph: Graph, fixed: Mapping[str, Mapping[str, Strategy]]) -> OperatorGraph:
        """The forward operators of a graph that is placed on stages.

        ``fixed`` are instance -> operator -> strategy of what is not to be searched. Instances that repeat
        another one in a later pass have its strategies, and are left out.
        """
        kinds: list[OperatorKind] = []
        numbers: dict[tuple[str, str, Strategy | None, frozenset[int]], int] = {}
        vertices: list[OperatorVertex] = []
        edges: list[TensorEdge] = []
        made: dict[str, tuple[int, int, bool]] = {}
        owners: dict[str, tuple[int, int]] = {}
        for instance in (instance for instance in graph.instances if not instance.repeats):
            block = graph.block_of(instance)
            bound = zip(block.inputs, instance.inputs, strict=True)
            local = {inner: made[outer] for inner, outer in bound if outer in made}
            given = fixed.get(instance.name, {})
            for node in block.phase(Phase.FORWARD):
                place = len(vertices)
                parameters = frozenset(
                    index for index, value in enumerate(node.inputs) if value in block.parameters
                )
                trained = frozenset(
                    index
                    for index, value in enumerate(node.inputs)
                    if (index in parameters or (value in local and local[value][2]))
                    and block.values[value].type.dtype.is_float
                )
                key = (block.name, node.name, given.get(node.name), trained)
                if key not in numbers:
                    numbers[key] = len(kinds)
                    kinds.append(
                        _kind(node, block.name, key[2], parameters, trained, _types(graph, block.name))
                    )
                vertices.append(
                    OperatorVertex(
                        f"{instance.name}.{node.name}", instance.name, numbers[key], instance.stage
                    )
                )
                for index, value in enumerate(node.inputs):
                    if value in block.parameters:
                        full = graph.canonical(f"{instance.name}.{value}")
                        owner, input_index = owners.setdefault(full, (place, index))
                        if owner != place:
                            edges.append(TensorEdge(owner, input_index, place, index, parameter=True))
                    elif value in local and local[value][0] != place:
                        source, output_index, _ = local[value]
                        edges.append(TensorEdge(source, output_index, place, index, parameter=False))
                for index, value in enumerate(node.outputs):
                    local[value] = (place, index, bool(trained))
            made |= {instance.output(value): local[value] for value in block.outputs if value in local}
        return cls(tuple(kinds), tuple(vertices), tuple(edges))

    def kind_of(self, vertex: int) -> OperatorKind:
        """The kind of an operator."""
        return self.kinds[self.vertices[vertex].kind]

    @cached_property
    def edges_at(self) -> tuple[tuple[TensorEdge, ...], ...]:
        """For every operator the tensors that it makes or reads."""
        around: list[list[TensorEdge]] = [[] for _ in self.vertices]
        for edge in self.edges:
            around[edge.source].append(edge)
            around[edge.reader].append(edge)
        return tuple(map(tuple, around))

    @cached_property
    def stages(self) -> tuple[int, ...]:
        """The pipeline stages that have operators, in order."""
        return tuple(sorted({vertex.stage for vertex in self.vertices}))


def _types(graph: Graph, block: str) -> Mapping[str, TensorType]:
    return {name: value.type for name, value in graph.blocks[block].values.items()}


def _kind(
    node: Node,
    block: str,
    fixed: Strategy | None,
    parameters: frozenset[int],
    trained: frozenset[int],
    types: Mapping[str, TensorType],
) -> OperatorKind:
    assert isinstance(node.operator, Operator)
    return OperatorKind(
        block=block,
        node=node.name,
        operator=node.operator,
        dims=node.operator.dims(),
        inputs=tuple(types[value] for value in node.inputs),
        outputs=tuple(types[value] for value in node.outputs),
        parameters=parameters & trained,
        trained=trained,
        fixed=fixed,
        family=node.operator.family,
    )
