"""Splits mesh axes into sub-axes where strategies give numbers of parts instead of axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simcluster.errors import PlanError, Problem
from simcluster.layout import Mesh, SplitMesh, SubAxis
from simcluster.model import Graph, Operator, Phase
from simcluster.plan.rules import AxisRoles, StrategyRule, first_rule, stage_devices
from simcluster.plan.strategies.operand_splits import StrategyMismatch, split_candidates


def split_mesh_axes(
    graph: Graph,
    rules: Sequence[StrategyRule],
    mesh: Mesh,
    roles: AxisRoles,
    stage_axis: str,
    others: Sequence[tuple[str, str, SubAxis]] = (),
) -> tuple[Mesh, AxisRoles]:
    """The mesh with its axes split where rules need it, and the roles with the map from sub-axes to axes.

    ``others`` are (name, key path, sub-axis) of other needs. Without numbered rules and others the mesh stays
    as it is. PlanError where splits do not fit on one mesh; a rule that does not fit its operator is left for
    ``assign_strategies`` to refuse.
    """
    if not others and not any(rule.numbered for rule in rules):
        return mesh, roles
    digits: list[SubAxis] = []
    split_mesh = SplitMesh.of(mesh, stage_axis, digits)
    for name, path, digit in (*_digits(graph, rules, stage_devices(mesh, roles)), *others):
        if digit in digits:
            continue
        try:
            split_mesh = SplitMesh.of(mesh, stage_axis, [*digits, digit])
        except ValueError as error:
            beside = ", ".join(str(other) for other in digits)
            raise PlanError(
                Problem(
                    f"{name}: a split over {digit} does not fit on mesh {mesh}"
                    f"{f' beside splits over {beside}' if beside else ''}: {error}",
                    path,
                    "each axis, and each run of ranks that is split off, must divide the next larger one",
                )
            ) from None
        digits.append(digit)
    return split_mesh.mesh, replace(roles, cut=split_mesh)


def _digits(graph: Graph, rules: Sequence[StrategyRule], devices: int) -> Iterator[tuple[str, str, SubAxis]]:
    """What the rules split off, with the first operator for which they do, and the rule's key path."""
    seen: set[tuple[str, str, int]] = set()
    for instance in graph.instances:
        for node in graph.block_of(instance).phase(Phase.FORWARD):
            name = f"{instance.known_as}.{node.name}"
            index = first_rule(rules, name)
            if index is None or not rules[index].numbered or (instance.block, node.name, index) in seen:
                continue
            seen.add((instance.block, node.name, index))
            assert isinstance(node.operator, Operator)
            try:
                for candidate in split_candidates(rules[index], node.operator.dims(), devices):
                    everything = (
                        *candidate.dims.values(),
                        *(t for out in candidate.outputs.values() for t in out),
                    )
                    for token in (token for tokens in everything for token in tokens):
                        if isinstance(token, SubAxis):
                            yield name, rules[index].path, token
            except StrategyMismatch:
                continue
