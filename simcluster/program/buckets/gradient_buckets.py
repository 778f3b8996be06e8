"""Buckets: the gradients of several layers that travel as one collective.

A bucket is a block of its own, made of the reductions of its gradients as the layers' blocks have them: first
steps together, then second steps, equal movements of one step as one collective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh, Movement, MovementKind
from simcluster.model import Block, Graph, Instance, Node, Phase, TensorType, Value
from simcluster.plan import ALONE, SINGLE_BUCKET, Buckets, ExecutionPolicy
from simcluster.program.isa import Scope
from simcluster.program.lowering import local_type, reduction_nodes

Naming = Callable[[str, str], str]
"""(instance, value) -> the name of its buffer in the stage."""


Ties = Mapping[tuple[str, str], int]
"""(instance, gradient) -> the place of its tie among all ties."""


@dataclass(frozen=True, slots=True)
class GradientBucket:
    """A bucket of gradients or weights, as a block whose values have the names of their buffers in the stage.

    ``at`` is the instance whose backward makes the last of the gradients, or which needs the first of the
    weights. ``scopes`` say how long each value lives that other blocks make or read.
    """

    block: Block
    at: str
    scopes: Mapping[str, Scope] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Part:
    """The steps of one gradient's reduction, their places in that of the block, and its part on a rank.

    ``parameter`` is the one it belongs to, by the name under which it counts; empty for a loss.
    """

    instance: str
    parameter: str
    nodes: tuple[Node, ...]
    places: tuple[int, ...]
    local: TensorType
    is_loss: bool
    tie: int | None

    @property
    def steps(self) -> tuple[Movement, ...]:
        """The collectives it travels in."""
        movements = (node.operator for node in self.nodes if isinstance(node.operator, Movement))
        return tuple(movement for movement in movements if movement.is_collective)


def fill_gradient_buckets(
    graph: Graph,
    instances: Sequence[Instance],
    policy: ExecutionPolicy,
    mesh: Mesh,
    naming: Naming,
    ties: Ties,
) -> list[GradientBucket]:
    """The buckets of a stage in the order in which they fill; ``instances`` in the order of their backward.

    Losses have collectives of their own: they are no part of any buffer of gradients. Only what travels layer
    by layer takes them along. ``ties``, which are reduced with other stages, come last, in their order.
    """
    values: dict[str, Value] = {}
    parts = [part for instance in instances for part in _parts(graph, instance, mesh, naming, values, ties)]
    tied = [part for part in parts if part.tie is not None]
    own = [part for part in parts if part.tie is None]
    if policy.buckets is None:
        groups = _grouped(own, policy)
    else:
        groups = [([part], True) for part in own if part.is_loss]
        groups += _grouped([part for part in own if not part.is_loss], policy)
    ready = [group[-1].instance for group, _ in groups] + [tied[-1].instance for _ in tied]
    groups += [([part], True) for part in sorted(tied, key=lambda part: part.tie or 0)]
    return [
        _bucket(f"bucket.{number}", *group, last, values)
        for number, (group, last) in enumerate(zip(groups, ready, strict=True))
    ]


def _grouped(gradients: Sequence[_Part], policy: ExecutionPolicy) -> list[tuple[list[_Part], bool]]:
    """The gradients that travel together, in the order in which the last of them is ready; and whether they
    share a buffer, or are those of a layer and travel as its block has them.

    Those of operations with buckets of their own are sorted by their steps and fusion ids, since a bucket of
    these is one collective per step; the rest fills the profile's buckets whatever their steps, or travels by
    layer.
    """
    sorted_by: dict[tuple[object, ...], list[int]] = {}
    rules: dict[tuple[object, ...], Buckets | None] = {}
    for position, part in enumerate(gradients):
        own = _own_rule(part, policy)
        key: tuple[object, ...] = (part.instance,) if policy.buckets is None else ()
        if own is not None:
            assert policy.fusion is not None
            number = policy.fusion.id_of(part.parameter)
            key = (part.steps, number)
            own = SINGLE_BUCKET if number == ALONE else own
        rules[key] = own or policy.buckets
        sorted_by.setdefault(key, []).append(position)
    groups: list[tuple[list[int], bool]] = []
    for key, positions in sorted_by.items():
        rule = rules[key]
        filled = _filled(rule, [gradients[position] for position in positions])
        groups += [([positions[index] for index in group], rule is not None) for group in filled]
    groups.sort(key=lambda group: group[0][-1])
    return [([gradients[position] for position in group], shared) for group, shared in groups]


def _own_rule(part: _Part, policy: ExecutionPolicy) -> Buckets | None:
    """The buckets that the scenario gives to the operation which reduces a gradient, if it does."""
    if policy.fusion is None or part.is_loss or not part.steps:
        return None
    scattered = any(step.kind is MovementKind.REDUCE_SCATTER for step in part.steps)
    return policy.fusion.reduce_scatter if scattered else policy.fusion.all_reduce


def _filled(rule: Buckets | None, parts: Sequence[_Part]) -> list[list[int]]:
    if rule is None:
        return [list(range(len(parts)))]
    types = [part.local for part in parts]
    sizes = [local.num_elements if rule.in_elements else local.num_bytes for local in types]
    names = [part.nodes[0].inputs[0] for part in parts]
    return rule.fill(sizes, names, [part.instance for part in parts])


def _parts(
    graph: Graph,
    instance: Instance,
    mesh: Mesh,
    naming: Naming,
    values: dict[str, Value],
    ties: Ties,
) -> Iterator[_Part]:
    """The reductions of an instance in the order in which its gradients are ready."""
    block = graph.block_of(instance)
    ready = value_order(block)
    owners = {block.gradients[name]: name for name in block.parameters if name in block.gradients}
    steps: dict[str, list[Node]] = {}
    places: dict[str, list[int]] = {}
    for place, node in enumerate(reduction_nodes(block)):
        steps.setdefault(node.origin, []).append(node)
        places.setdefault(node.origin, []).append(place)
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
        local = local_type(block.values[gradient], mesh)
        tie = ties.get((instance.name, gradient))
        owner = owners.get(gradient)
        parameter = "" if owner is None else graph.canonical(f"{instance.name}.{owner}")
        yield _Part(
            instance.name, parameter, renamed, tuple(places[gradient]), local, gradient == block.loss, tie
        )


def _bucket(
    name: str, parts: Sequence[_Part], shared: bool, ready: str, values: dict[str, Value]
) -> GradientBucket:
    nodes: list[Node] = []
    if shared:
        nodes += bucket_steps([part.nodes for part in parts])
    else:
        placed = [pair for part in parts for pair in zip(part.places, part.nodes, strict=True)]
        nodes += [node for _, node in sorted(placed, key=lambda pair: pair[0])]
    held = {value: values[value] for node in nodes for value in node.inputs + node.outputs}
    return GradientBucket(Block(name, (), (), (), (), held, tuple(nodes)), ready)


def value_order(block: Block) -> dict[str, int]:
    """Value -> its position among all that the block computes for a micro-batch."""
    phases = (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS)
    written = [value for node in block.phase(*phases) for value in node.outputs]
    return {value: position for position, value in enumerate(written)}


def bucket_steps(parts: Sequence[Sequence[Node]], prefix: str = "") -> Iterator[Node]:
    """The nodes of a bucket: the first step of each member, then the second, equal collectives as one launch.

    ``prefix`` tells its kernels from those of other buckets in one block.
    """
    for step in range(max(map(len, parts))):
        yield from _together([nodes[step] for nodes in parts if step < len(nodes)], step, prefix)


def _together(nodes: Sequence[Node], step: int, prefix: str) -> Iterator[Node]:
    """Nodes of one step, equal collectives beside each other under one kernel name."""
    groups: dict[object, list[Node]] = {}
    for node in nodes:
        moved = isinstance(node.operator, Movement) and node.operator.is_collective
        groups.setdefault(node.operator if moved else node.name, []).append(node)
    for number, (key, group) in enumerate(groups.items()):
        if not isinstance(key, Movement):
            yield from group
            continue
        kernel = prefix + (f"step{step}.{number}.{key.kind}" if step or number else str(key.kind))
        yield replace(group[0], name=kernel, kernel=kernel)
        yield from (replace(node, kernel=kernel) for node in group[1:])


def crossing_ties(graph: Graph) -> Ties:
    """The gradients of parameters with copies on more than one stage, with the place of their tie.

    Stages finish the backward of their copies in different orders, but members of a group must issue
    collectives in one order: so these come after all others, in the order of the graph's ties.
    """
    ties: dict[tuple[str, str], int] = {}
    tied = {name for group in graph.ties for name in group}
    copies = {
        full: (instance, block.gradients[name])
        for instance in (graph.instances if tied else ())
        for block in (graph.block_of(instance),)
        for name in block.parameters
        if name in block.gradients and (full := f"{instance.name}.{name}") in tied
    }
    for place, group in enumerate(graph.ties):
        held = [copies[name] for name in group if name in copies]
        if len({instance.stage for instance, _ in held}) > 1:
            ties |= {(instance.name, gradient): place for instance, gradient in held}
    return ties
