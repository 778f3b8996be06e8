"""A proposal to reorder the mesh axes where tensor parallelism crosses hosts and need not.

Ranks are numbered row by row, the last axis innermost: its ranks are neighbours. Tensor parallelism reduces
activations in every layer, so its groups should be within a host. Only the tensor axes are moved: whether
expert or context parallelism gains more from being inside a host depends on sizes. So a proposal is made only
if it makes the priced collectives of a step faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from simcluster import units
from simcluster.cluster import Cluster
from simcluster.collectives import Selection
from simcluster.layout import Mesh, Movement, unsplit_mesh, whole
from simcluster.model import Block, Graph, Phase
from simcluster.plan.redistribution import RedistributionPlanner, movement_cost
from simcluster.plan.rules import BATCH, PIPELINE, SEQUENCE, AxisRoles
from simcluster.plan.strategies import EXPERTS

_OF_A_STEP = (Phase.BEGIN, Phase.END)
"""Phases that run once per step; the others run for every micro-batch."""


def axis_order_note(
    graph: Graph, mesh: Mesh, roles: AxisRoles, cluster: Cluster, algorithms: Selection, micro_batches: int
) -> Iterator[str]:
    """A note with the better order of axes, if tensor groups span hosts and another order keeps them inside.

    None if that makes the collectives of a step no faster, as where hosts are linked as fast as their
    devices; nor on a mixed cluster, where another order puts stages on other devices.
    """
    axes = _tensor_axes(unsplit_mesh(mesh), roles)
    if cluster.mixed or not axes:
        return
    present = _spread(unsplit_mesh(mesh), axes, cluster)
    proposed = min(_orders(unsplit_mesh(mesh), axes), key=lambda order: len(_spread(order, axes, cluster)))
    inside = [axis for axis in present if axis not in _spread(proposed, axes, cluster)]
    if not set(_spread(proposed, axes, cluster)) < set(present):
        return
    now = _spent(graph, mesh, cluster, algorithms, micro_batches)
    then = _spent(graph, _like(mesh, proposed), cluster, algorithms, micro_batches)
    if then < now:
        order = ", ".join(f"{axis}: {size}" for axis, size in proposed.axes)
        most = max(present[axis] for axis in inside)
        place = "host" if cluster.host.pod is None else "pod"
        yield (
            f"{' and '.join(inside)} groups span {most} {place}s; mesh: {{{order}}} would keep each in one "
            f"{place}, as ranks of the last axis are neighbours: the collectives of a step take "
            f"{units.seconds(now)} if none is hidden, and would take {units.seconds(then)}"
        )


def _tensor_axes(mesh: Mesh, roles: AxisRoles) -> list[str]:
    """Axes that split neither the batch, nor layers over stages, nor sequences, nor experts."""
    others = {axis for role in (BATCH, PIPELINE, SEQUENCE, EXPERTS) for axis in roles.axes.get(role, ())}
    return [axis for axis, size in mesh.axes if size > 1 and axis not in others]


def _orders(mesh: Mesh, axes: Sequence[str]) -> Iterator[Mesh]:
    """The mesh with some of these axes last, fewest first; the others stay in their order."""
    for count in range(1, len(axes) + 1):
        for chosen in combinations(axes, count):
            rest = [entry for entry in mesh.axes if entry[0] not in chosen]
            yield Mesh((*rest, *(entry for entry in mesh.axes if entry[0] in chosen)), off_axes=mesh.off_axes)


def _spread(mesh: Mesh, axes: Sequence[str], cluster: Cluster) -> dict[str, int]:
    """Of axes whose groups span several hosts, or pods where hosts are joined to these: how many at most."""
    spans = {axis: cluster.pods_spanned(mesh.groups((axis,))) for axis in axes}
    return {axis: count for axis, count in spans.items() if count > 1}


def _like(mesh: Mesh, order: Mesh) -> Mesh:
    """A mesh, its axes cut or not, in the order of another one."""
    axes = sorted(mesh.axes, key=lambda entry: order.names.index(whole(entry[0])))
    return Mesh(tuple(axes), off_axes=mesh.off_axes)


def _spent(graph: Graph, mesh: Mesh, cluster: Cluster, algorithms: Selection, micro_batches: int) -> float:
    """Seconds of all collectives of a step that change layouts, on the stage that has most of them."""
    router = RedistributionPlanner(mesh, movement_cost(cluster, mesh, algorithms))
    known: dict[str, float] = {}
    stages: dict[int, float] = {}
    for instance in graph.instances:
        if instance.block not in known:
            known[instance.block] = _of_block(graph.blocks[instance.block], router, micro_batches)
        stages[instance.stage] = stages.get(instance.stage, 0.0) + known[instance.block]
    return max(stages.values(), default=0.0)


def _of_block(block: Block, router: RedistributionPlanner, micro_batches: int) -> float:
    total = 0.0
    for node in block.nodes:
        if isinstance(node.operator, Movement) and node.operator.is_collective:
            before, after = block.values[node.inputs[0]], block.values[node.outputs[0]]
            assert before.layout is not None and after.layout is not None
            times = 1 if node.phase in _OF_A_STEP else micro_batches
            total += times * router.price(before.type, before.layout, ((node.operator, after.layout),))
    return total
