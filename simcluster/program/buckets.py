"""Buckets: the gradients of several layers that travel as one collective.

A bucket is a block of its own, made of the reductions of its gradients as the layers' blocks have them: first
steps together, then second steps, equal movements of one step as one collective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from simcluster.layout import Mesh, Movement
from simcluster.model import Block, Graph, Instance, Node, Phase, Value
from simcluster.plan.conduct import Buckets
from simcluster.program.lower import local_type, reduction
from simcluster.program.ties import Ties

Naming = Callable[[str, str], str]
"""(instance, value) -> the name of its buffer in the stage."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The reductions of some gradients as a block; its values are called as their buffers in the stage.

    ``ready`` is the instance whose backward makes the last of them.
    """

    block: Block
    ready: str


@dataclass(frozen=True, slots=True)
class _Part:
    """The steps of one gradient's reduction, and its local size in the measure of the buckets."""

    instance: str
    nodes: tuple[Node, ...]
    size: int
    is_loss: bool
    tie: int | None


def buckets(
    graph: Graph, instances: Sequence[Instance], policy: Buckets, mesh: Mesh, naming: Naming, ties: Ties
) -> list[Bucket]:
    """The buckets of a stage in the order in which they fill; ``instances`` in the order of their backward.

    Losses have collectives of their own: they are no part of any buffer of gradients. So do ``ties``, which
    are reduced with other stages and come last, in their order.
    """
    values: dict[str, Value] = {}
    parts = [
        part for instance in instances for part in _parts(graph, instance, policy, mesh, naming, values, ties)
    ]
    own = [part for part in parts if not part.is_loss and part.tie is None]
    filled = [[own[index] for index in group] for group in policy.fill([part.size for part in own])]
    groups = [*([part] for part in parts if part.is_loss), *filled]
    shared = [part for part in parts if part.tie is not None]
    groups += [[part] for part in sorted(shared, key=lambda part: part.tie or 0)]
    ready = [group[-1].instance if group[-1].tie is None else shared[-1].instance for group in groups]
    return [
        _bucket(f"bucket.{number}", group, last, values)
        for number, (group, last) in enumerate(zip(groups, ready, strict=True))
    ]


def _parts(
    graph: Graph,
    instance: Instance,
    policy: Buckets,
    mesh: Mesh,
    naming: Naming,
    values: dict[str, Value],
    ties: Ties,
) -> Iterator[_Part]:
    """The reductions of an instance in the order in which its gradients are ready."""
    block = graph.block_of(instance)
    written = [value for node in block.phase(Phase.FORWARD, Phase.BACKWARD) for value in node.outputs]
    ready = {value: position for position, value in enumerate(written)}
    steps: dict[str, list[Node]] = {}
    for node in reduction(block):
        steps.setdefault(node.origin, []).append(node)
    for gradient in sorted(steps, key=lambda value: ready.get(value, -1)):
        nodes = steps[gradient]
        names = {
            value: naming(instance.name, value) for node in nodes for value in node.inputs + node.outputs
        }
        values.update({name: block.values[value] for value, name in names.items()})
        renamed = tuple(
            replace(
                node,
                name=f"{instance.name}.{node.name}",
                inputs=tuple(names[value] for value in node.inputs),
                outputs=tuple(names[value] for value in node.outputs),
                origin=names[gradient],
            )
            for node in nodes
        )
        kind = local_type(block.values[gradient], mesh)
        size = kind.num_elements if policy.in_elements else kind.num_bytes
        tie = ties.get((instance.name, gradient))
        yield _Part(instance.name, renamed, size, gradient == block.loss, tie)


def _bucket(name: str, parts: Sequence[_Part], ready: str, values: dict[str, Value]) -> Bucket:
    nodes: list[Node] = []
    for step in range(max(len(part.nodes) for part in parts)):
        now = [part.nodes[step] for part in parts if step < len(part.nodes)]
        nodes += _together(now, step)
    held = {value: values[value] for node in nodes for value in node.inputs + node.outputs}
    return Bucket(Block(name, (), (), (), (), held, tuple(nodes)), ready)


def _together(nodes: Sequence[Node], step: int) -> Iterator[Node]:
    """Nodes of one step, equal collectives beside each other under one kernel name."""
    groups: dict[object, list[Node]] = {}
    for node in nodes:
        moved = isinstance(node.operator, Movement) and node.operator.is_collective
        groups.setdefault(node.operator if moved else node.name, []).append(node)
    for number, (key, group) in enumerate(groups.items()):
        if not isinstance(key, Movement):
            yield from group
            continue
        kernel = f"step{step}.{number}.{key.kind}" if step or number else str(key.kind)
        yield replace(group[0], name=kernel, kernel=kernel)
        yield from (replace(node, kernel=kernel) for node in group[1:])
