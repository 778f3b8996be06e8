"""Strategies that a search found, as rules that say the same in a scenario: by pattern and iteration dim.

Units that stand side by side in one dim are one sub-axis, so that the mesh is cut no finer than strategies
need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simcluster.layout import MindSporeLayout, Strategy, SubAxis, spans
from simcluster.plan.auto.candidates import SearchMesh
from simcluster.plan.auto.operator_graph import OperatorGraph
from simcluster.plan.rules import BATCH, StrategyRule, instance_patterns


def searched_rules(
    graph: OperatorGraph,
    strategies: Sequence[Strategy],
    search_mesh: SearchMesh,
    stage_axis: str,
    source: str,
) -> list[StrategyRule]:
    """The rules that give every searched operator its strategy; later ones do not overlap earlier ones.

    Instances of one block with equal strategies share a rule where a pattern fits them and no others.
    """
    by_instance: dict[str, dict[str, Strategy]] = {}
    blocks: dict[str, str] = {}
    for vertex, strategy in zip(graph.vertices, strategies, strict=True):
        kind = graph.kinds[vertex.kind]
        blocks[vertex.instance] = kind.block
        own = by_instance.setdefault(vertex.instance, {})
        if kind.fixed is None:
            own[kind.node] = strategy
    groups: dict[tuple[str, tuple[tuple[str, Strategy], ...]], list[str]] = {}
    for name, own in by_instance.items():
        groups.setdefault((blocks[name], tuple(own.items())), []).append(name)
    write = _RuleWriter(search_mesh, dict(spans(search_mesh.mesh, stage_axis)), source)
    batched = {(kind.block, kind.node) for kind in graph.kinds if BATCH in kind.dims.names}
    return [
        write.rule(f"{pattern}.{node}", strategy, batched=(block, node) in batched)
        for (block, own), names in groups.items()
        for pattern in instance_patterns(names, list(by_instance))
        for node, strategy in own
    ]


class _RuleWriter:
    """Writes strategies on the mesh of a search as rules on that of the scenario."""

    def __init__(self, search_mesh: SearchMesh, places: Mapping[str, SubAxis], source: str) -> None:
        self.free = search_mesh.free
        self.devices = search_mesh.devices
        self.places, self.source = places, source

    def rule(self, match: str, strategy: Strategy, *, batched: bool) -> StrategyRule:
        """The rule; what has a batch and does not split it says so."""
        split = dict(strategy.splits)
        if batched:
            split.setdefault(BATCH, ())
        if not self.free or not any(split.values()):
            return StrategyRule(match, (split,), self.source)
        names, runs = self._aliases(strategy)
        matrix = self._matrix(list(runs.values()))
        alias_of = {run: name for name, run in runs.items()}
        sizes = tuple(run.size for run in matrix)
        aliases = tuple(alias_of.get(run, f"r{place}") for place, run in enumerate(matrix))
        layout = MindSporeLayout(sizes, aliases)
        return StrategyRule(match, ({dim: names.get(dim, ()) for dim in split},), self.source, layout=layout)

    def _aliases(self, strategy: Strategy) -> tuple[dict[str, tuple[str, ...]], dict[str, SubAxis]]:
        """Dim -> aliases, and alias -> the ranks that it separates."""
        names: dict[str, tuple[str, ...]] = {}
        runs: dict[str, SubAxis] = {}
        for dim, axes in strategy.splits:
            merged: list[SubAxis] = []
            for unit in (self.places[axis] for axis in axes):
                if merged and merged[-1].stride == unit.stride * unit.size:
                    merged[-1] = SubAxis(unit.stride, merged[-1].size * unit.size)
                else:
                    merged.append(unit)
            made = tuple(f"{dim}{place}" for place in range(len(merged)))
            names[dim] = made
            runs |= dict(zip(made, merged, strict=True))
        return names, runs

    def _matrix(self, runs: Sequence[SubAxis]) -> list[SubAxis]:
        """The runs, outermost first, with what lies between them, so that they cover the devices."""
        covered: list[SubAxis] = []
        stride = 1
        for run in sorted(runs):
            if run.stride > stride:
                covered.append(SubAxis(stride, run.stride // stride))
            covered.append(run)
            stride = run.stride * run.size
        if stride < self.devices:
            covered.append(SubAxis(stride, self.devices // stride))
        return covered[::-1]
