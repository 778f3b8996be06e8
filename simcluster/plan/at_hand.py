"""Operators on hosts and what is offloaded: they read where it lies, and leave there what is to lie there.

Copies to the device, and from it, are for operators on the device. Where only operators on the host are on
that side of a copy, it falls away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from simcluster.model import Block, Graph, Instance, Node, Place, Relocation, Role
from simcluster.plan.units import gathered_name, whole_name

LASTING = (Role.PARAMETER, Role.STATE, Role.COPY, Role.ACCUMULATOR, Role.BUFFER)
"""What lasts from step to step."""


def at_hand(block: Block, chosen: Collection[str]) -> Block:
    """The block without copies between its ``chosen`` nodes, those on the host, and what lies there."""
    near = {node.outputs[0]: node.inputs[0] for node, leg in _copies(block) if leg.target is Place.DEVICE}
    left = dict(_left(block, chosen))
    values = dict(block.values)
    for source, target in left.items():
        # What several operators make together is added up wherever it lies.
        summed = values[source].role is Role.SUM and values[target].role is Role.ACTIVATION
        values[target] = replace(values[target], role=Role.SUM) if summed else values[target]
    nodes = [_direct(node, near, left) if node.name in chosen else node for node in block.nodes]
    nodes = [node for node in nodes if not (isinstance(node.operator, Relocation) and node.inputs[0] in left)]
    return replace(block, values=values, nodes=tuple(_needed(block, nodes)))


def _copies(block: Block) -> Iterator[tuple[Node, Relocation]]:
    for node in block.nodes:
        if isinstance(node.operator, Relocation):
            yield node, node.operator


def _left(block: Block, chosen: Collection[str]) -> Iterator[tuple[str, str]]:
    """What only operators on the host make, for a copy to the host alone; and what that makes of it."""
    for copy, leg in _copies(block):
        (source,), (target,) = copy.inputs, copy.outputs
        makers = {node.name for node in block.nodes if source in node.outputs}
        readers = [node.name for node in block.nodes if source in node.inputs]
        if leg.source is Place.DEVICE and makers and makers <= set(chosen) and readers == [copy.name]:
            yield source, target


def _direct(node: Node, near: Mapping[str, str], left: Mapping[str, str]) -> Node:
    return replace(
        node,
        inputs=tuple(near.get(value, value) for value in node.inputs),
        outputs=tuple(left.get(value, value) for value in node.outputs),
    )


def _needed(block: Block, nodes: list[Node]) -> Iterator[Node]:
    """The nodes without copies to the device that nobody reads any more, nor what only these read."""
    read = {*block.outputs, *block.gradients.values()}
    kept = []
    for node in reversed(nodes):
        here = {
            name for name in node.outputs if block.values[name].role not in (Role.GATHERED, Role.ACTIVATION)
        }
        if isinstance(node.operator, Relocation) and not here and read.isdisjoint(node.outputs):
            continue
        read.update(node.inputs)
        kept.append(node)
    yield from reversed(kept)


def used_on_the_device_too(graph: Graph, chosen: Mapping[str, Collection[str]]) -> dict[str, frozenset[str]]:
    """Instance -> what it has in common with others of its stage, and stays on the device.

    That are parameters that are one, and all that slices of sequences share. There is one of each; so it
    stays if any node uses it that is not ``chosen``.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for copies in (*_tied(graph), *_sliced(graph)):
        used = any(
            node.name not in chosen[instance.name] and not ours.isdisjoint((*node.inputs, *node.outputs))
            for instance, ours in copies
            for node in graph.block_of(instance).nodes
        )
        for instance, ours in copies if used and len(copies) > 1 else ():
            found[instance.name] |= ours
    return {name: frozenset(values) for name, values in found.items()}


Copies = list[tuple[Instance, set[str]]]
"""Instances of a stage with what each has of something that they share."""


def _tied(graph: Graph) -> Iterator[Copies]:
    """Parameters of a stage that are one, with their gradients."""
    owners = {
        f"{each.name}.{name}": (each, name)
        for each in graph.instances
        for name in graph.block_of(each).parameters
    }
    for group in graph.ties:
        by_stage: defaultdict[int, Copies] = defaultdict(list)
        for instance, name in (owners[full] for full in group if full in owners):
            gradient = graph.block_of(instance).gradients.get(name)
            ours = {name, gathered_name(name)}
            ours |= {gradient, whole_name(gradient)} if gradient else set()
            by_stage[instance.stage].append((instance, ours))
        yield from by_stage.values()


def _sliced(graph: Graph) -> Iterator[Copies]:
    """What outlives a micro-batch of blocks that slices of sequences go through."""
    together: defaultdict[tuple[str, str], Copies] = defaultdict(list)
    for instance in graph.instances if any(each.first for each in graph.instances) else ():
        for name, value in graph.block_of(instance).values.items():
            if value.role in LASTING:
                together[instance.first or instance.name, name].append((instance, {name}))
    yield from together.values()
