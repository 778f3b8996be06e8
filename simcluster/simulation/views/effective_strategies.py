"""The effective strategies of a plan, written as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Mesh, Strategy, axis_pieces, whole_axes
from simcluster.model import Node, Operator, Phase
from simcluster.plan import BATCH, Plan, instance_patterns


def effective_strategies_of(plan: Plan, *, cut: bool = False) -> list[dict[str, Any]]:
    """The effective strategies as users write them: pasted into the scenario they give the same Program.

    Where numbers of parts have cut an axis, its pieces are aliases of a layout; with ``cut`` they are named
    as if the mesh were written with them.
    """
    if plan.placement.part_of_rank:
        raise PlanError(
            "a program that is written by hand has no strategies",
            path="parallel.mode",
            hint="simcluster layouts shows what every rank runs",
        )
    groups: dict[tuple[str, ...], list[str]] = {}
    # What repeats an instance in another pass has its strategies.
    instances = [instance for instance in plan.logical.instances if not instance.repeats]
    for instance in instances:
        chosen = plan.strategies.of(instance.name)
        key = (instance.block, *map(str, chosen.values()))
        groups.setdefault(key, []).append(instance.name)
    blocks = {instance.name: plan.logical.block_of(instance) for instance in instances}
    write = _Writing(plan.mesh, plan.stage_axis, cut=cut)
    return [
        write.entry(f"{pattern}.{node.name}", node, plan.strategies.of(names[0])[node.name])
        for names in groups.values()
        for pattern in instance_patterns(names, list(blocks))
        for node in blocks[names[0]].phase(Phase.FORWARD)
        if node.name in plan.strategies.of(names[0])
    ]


@dataclass(frozen=True, slots=True)
class _Writing:
    """How strategies on a mesh are written."""

    mesh: Mesh
    stage_axis: str
    cut: bool

    def entry(self, match: str, node: Node, strategy: Strategy) -> dict[str, Any]:
        """One entry of the list."""
        assert isinstance(node.operator, Operator)
        aliases = not self.cut and self._cuts(strategy)
        written: dict[str, Any] = {
            dim: _axes(axes if self.cut or aliases else whole_axes(axes)) for dim, axes in strategy.splits
        }
        if BATCH in node.operator.dims().names:
            written.setdefault(BATCH, [])
        entry: dict[str, Any] = {"match": match, "split": written}
        if strategy.scatter:
            entry["forward_reduce_scatter"] = True
        elif strategy.outputs:
            outputs = dict(strategy.outputs)
            entry["out"] = [
                [
                    _axes(axes if self.cut or aliases else whole_axes(axes)) or 1
                    for axes in outputs[index].dims
                ]
                if index in outputs
                else None
                for index in range(len(node.outputs))
            ]
        if aliases:
            inside = [(name, size) for name, size in self.mesh.axes if name != self.stage_axis]
            entry["layout"] = {
                "device_matrix": [size for _, size in inside],
                "alias_name": [str(name) for name, _ in inside],
            }
        return entry

    def _cuts(self, strategy: Strategy) -> bool:
        """Whether it uses pieces of an axis apart from each other."""
        runs = [axes for _, axes in strategy.splits]
        runs += [axes for _, layout in strategy.outputs for axes in layout.dims]
        return any(
            "+".join(axis_pieces(self.mesh, axis)) not in "+".join(axes)
            for axes in runs
            for axis in whole_axes(axes)
        )


def _axes(axes: Sequence[str]) -> Any:
    """Axes as plain text: a piece of one is a text that knows more, which no file holds."""
    return str(axes[0]) if len(axes) == 1 else [str(axis) for axis in axes]
