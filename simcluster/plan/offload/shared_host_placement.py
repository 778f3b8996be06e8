"""Values that instances of a stage share are stored once: on the device, if any of them uses them there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from simcluster.model import Graph, Instance, Role
from simcluster.plan.optimizer import gathered_name, whole_name

LASTING = (Role.PARAMETER, Role.STATE, Role.COPY, Role.ACCUMULATOR, Role.BUFFER)
"""Roles of values that persist from step to step."""


def shared_device_values(graph: Graph, chosen: Mapping[str, Collection[str]]) -> dict[str, frozenset[str]]:
    """Instance -> values that it shares with others of its stage and that stay on the device.

    Shared are tied parameters, and everything persistent among slices of sequences. They stay if any node
    that is not ``chosen`` to run on the host uses them.
    """
    kept: defaultdict[str, set[str]] = defaultdict(set)
    for copies in (*_tied(graph), *_sliced(graph)):
        used = any(
            node.name not in chosen[instance.name] and not ours.isdisjoint((*node.inputs, *node.outputs))
            for instance, ours in copies
            for node in graph.block_of(instance).nodes
        )
        for instance, ours in copies if used and len(copies) > 1 else ():
            kept[instance.name] |= ours
    return {name: frozenset(values) for name, values in kept.items()}


Copies = list[tuple[Instance, set[str]]]
"""Instances of a stage, each with its names of something that they share."""


def _tied(graph: Graph) -> Iterator[Copies]:
    """Parameters of a stage that are one, with their gradients."""
    owners = {
        f"{owner.name}.{name}": (owner, name)
        for owner in graph.instances
        for name in graph.block_of(owner).parameters
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
    for instance in graph.instances if any(other.first_slice for other in graph.instances) else ():
        for name, value in graph.block_of(instance).values.items():
            if value.role in LASTING:
                together[instance.first_slice or instance.name, name].append((instance, {name}))
    yield from together.values()
