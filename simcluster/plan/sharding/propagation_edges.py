"""Tensors between operators, across instances: the edges along which sharding propagation goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Graph, Phase, TensorType

Vertex = tuple[int, str]
"""The number of a kind of instances, and an operator of their block."""


@dataclass(frozen=True, slots=True)
class OperandRef:
    """One operand of an operator."""

    vertex: Vertex
    """The operator."""
    index: int
    """Which of its inputs or outputs."""
    output: bool
    """Whether it is an output."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor that one operator makes, or shares as a parameter, and another reads."""

    source: OperandRef
    """The operand that it comes from."""
    reader: OperandRef
    """The operand that reads it."""
    type: TensorType
    """Its logical type."""
    trained: bool
    """Whether it depends on parameters, so that it has a gradient."""
    count: int
    """How often it occurs among equal instances."""


def edges_of(graph: Graph, kinds: Mapping[str, int]) -> Iterator[Edge]:
    """Every tensor between two operators, in the order of the graph; equal instances are merged."""
    counts: dict[Edge, int] = {}
    made: dict[str, tuple[OperandRef, bool]] = {}
    owners: dict[str, OperandRef] = {}
    for instance in graph.instances:
        block, kind = graph.block_of(instance), kinds[instance.name]
        outside = zip(block.inputs, instance.inputs, strict=True)
        local = {inner: made[outer] for inner, outer in outside if outer in made}
        for node in block.phase(Phase.FORWARD):
            vertex = kind, node.name
            trains = any(
                value in block.parameters or (value in local and local[value][1]) for value in node.inputs
            )
            for index, value in enumerate(node.inputs):
                reader, type_ = OperandRef(vertex, index, output=False), block.values[value].type
                source, trained = local.get(value, (None, True))
                if value in block.parameters:
                    first = owners.setdefault(graph.canonical(f"{instance.name}.{value}"), reader)
                    source = first if first.vertex != vertex else None
                if source is not None:
                    edge = Edge(source, reader, type_, trained and type_.dtype.is_float, 0)
                    counts[edge] = counts.get(edge, 0) + 1
            for index, value in enumerate(node.outputs):
                local[value] = OperandRef(vertex, index, output=True), trains
        made |= {instance.output(value): local[value] for value in block.outputs if value in local}
    for edge, count in counts.items():
        yield replace(edge, count=count)
