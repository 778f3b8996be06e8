"""Roles of mesh axes, and checks of a mesh."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from simcluster.cluster import Cluster
from simcluster.errors import Problem, nearest
from simcluster.layout import Mesh, unsplit_mesh, whole
from simcluster.plan.rules import BATCH, PIPELINE, SEQUENCE, AxisRoles, StrategyRule
from simcluster.plan.spec import ParallelSpec

CONTEXT = "context"
"""The usual name of the axis that splits sequences."""

EXPERTS, EXPERT = "experts", "expert"
"""The role of axes that share the experts of a mixture, and the axis that usually has it."""


def roles_of(parallel: ParallelSpec) -> dict[str, tuple[str, ...]]:
    """Role -> axes: the defaults, overridden by the scenario."""
    given = {role: (axes,) if isinstance(axes, str) else axes for role, axes in parallel.roles.items()}
    return {**_USUAL, **given}


REPEAT = "repeat"
"""The role of axes whose ranks repeat the work of others (MindSpore's repeated calculation)."""

_USUAL: dict[str, tuple[str, ...]] = {
    BATCH: ("data", EXPERT),
    PIPELINE: (PIPELINE,),
    EXPERTS: (EXPERT,),
    SEQUENCE: (CONTEXT,),
    REPEAT: (),
}


def check_mesh(mesh: Mesh, cluster: Cluster) -> list[Problem]:
    """Problems of a mesh that has another number of ranks than there are devices."""
    devices = cluster.num_devices
    if mesh.num_ranks == devices:
        return []
    shown = " x ".join(f"{name} {size}" for name, size in mesh.axes) or "an empty mesh"
    if mesh.off_axes:
        shown += f" + {mesh.off_axes - 1} servers + 1 scheduler"
    owner = "the cluster has" if cluster.whole is None else "its hosts have"
    message = f"{shown} = {mesh.num_ranks}, but {owner} {devices} devices"
    total = sum(group.num_hosts * group.host.num_devices for group in cluster.groups)
    hint = f"{_hosts(cluster)} = {devices}"
    if total != devices:
        hint = f"{devices} are named of {_hosts(cluster)} = {total}"
    if proposed := _proposed(mesh, devices):
        axis, size = proposed
        hint += f"; --set parallel.mesh.{axis}={size} matches, and so does {axis}: auto"
    return [Problem(message, "parallel.mesh", hint)]


def _proposed(mesh: Mesh, devices: int) -> tuple[str, int] | None:
    """The axis and its size with which a mesh would have so many ranks, data first; None if there is none."""
    sizes = {"data": 1} | mesh.sizes
    for axis, size in sizes.items():
        others = mesh.num_on_axes // size
        on_axes = devices - mesh.off_axes
        if on_axes > 0 and on_axes % others == 0:
            return axis, on_axes // others
    return None


def _hosts(cluster: Cluster) -> str:
    """``2 hosts x 8 devices``, and so on for every group."""
    return " + ".join(
        f"{group.num_hosts} hosts x {group.host.num_devices} devices" for group in cluster.groups
    )


def unknown_axes(parallel: ParallelSpec, mesh: Mesh) -> list[Problem]:
    """Problems of roles and overlap settings that name axes which the mesh does not have."""
    named = [(axis, f"parallel.overlap.{axis}") for axis in parallel.overlap]
    named += [
        (axis, f"parallel.roles.{role}")
        for role, axes in parallel.roles.items()
        for axis in ((axes,) if isinstance(axes, str) else axes)
    ]
    return [
        Problem(f"the mesh has no axis '{axis}'", path, nearest(axis, mesh.names))
        for axis, path in named
        if axis not in unsplit_mesh(mesh).sizes
    ]


def unused_roles(parallel: ParallelSpec, named: Collection[str]) -> list[Problem]:
    """Problems of roles that are none of the planner's, and that nothing in the scenario names."""
    return [
        Problem(
            f"there is no role '{role}', and no strategy names it",
            f"parallel.roles.{role}",
            nearest(role, _USUAL),
        )
        for role in parallel.roles
        if role not in _USUAL and role not in named
    ]


def unused_axes(mesh: Mesh, roles: AxisRoles, rules: Sequence[StrategyRule]) -> list[Problem]:
    """Problems of axes that no role and no rule names: all their ranks would repeat the same work."""
    named = {axis for axes in roles.axes.values() for axis in axes}
    if any(rule.numbered for rule in rules):
        return []
    # A role is not the axis of its name: its own axes are named already.
    names = {axis for rule in rules for axis in rule.names} - set(roles.axes)
    # A name that a small plan was written with may be that of a piece: as a text it does not know its axis.
    written = {axis: whole(axis) for axis in mesh.names}
    named.update(written.get(axis, whole(axis)) for axis in names)
    return [
        Problem(
            f"no role and no strategy uses axis '{axis}': its {size} ranks would repeat others' work",
            f"parallel.mesh.{axis}",
            f"{nearest(axis, named)}; or write roles: {{{REPEAT}: {axis}}} if they shall repeat it",
        )
        for axis, size in mesh.axes
        if whole(axis) not in named and size > 1
    ]
