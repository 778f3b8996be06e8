"""The network of a scenario as a graph of operators that Python shards, as MindSpore's ``shard`` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.layout import MindSporeLayout
from simcluster.model import Operator
from simcluster.plan.spec import ParallelSpec
from simcluster.scenario import Scenario
from simcluster.simulation.piece import GraphPiece
from simcluster.simulation.written import Operand, written
from simcluster.work import DType

Dims = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ShardedGraph:
    """The operators of a scenario's model, and how they are sharded; ``shard`` gives another one.

    graph = simcluster.graph("scenarios/quickstart.yaml")
    graph = graph.shard("layers.*.mlp.up", ((4, 1, 1), (1, 2), (1, 2)))
    simcluster.simulate(graph)
    """

    scenario: Scenario

    @cached_property
    def operators(self) -> Mapping[str, tuple[str, Dims, Dims]]:
        """Full name -> kind of operator, and the names of the dims of its inputs and of its outputs."""
        seq = self.scenario.spec.training.seq_len
        graph = self.scenario.model.graph(1, seq, DType.FP32, 1)
        found = {}
        for instance, node in graph.nodes():
            assert isinstance(node.operator, Operator)
            dims = node.operator.dims()
            found[f"{instance.name}.{node.name}"] = node.operator.kind, dims.inputs, dims.outputs
        return found

    def shard(
        self,
        match: str,
        in_strategy: Sequence[Operand] | None = None,
        out_strategy: Sequence[Operand] | None = None,
        *,
        split: Mapping[str, str | Sequence[str]] | None = None,
        repeated_on: str | None = None,
        forward_reduce_scatter: bool = False,
    ) -> ShardedGraph:
        """The graph with one more strategy, which wins over those before it.

        ``match`` is an operator pattern. ``in_strategy`` has one entry per input and dim: a number of parts,
        an axis or several of them, 1 or None for whole; or MindSporeLayout objects over one device matrix.
        ``out_strategy`` is the same for results. ``split`` names iteration dims instead. Raises ScenarioError
        for what is no strategy; whether it fits the operators is found when the graph is planned.
        """
        entry: dict[str, Any] = {"match": match, "split": split, "repeated_on": repeated_on}
        entry["in"], entry["out"] = written(in_strategy), written(out_strategy)
        layout = _common_layout([*(in_strategy or ()), *(out_strategy or ())])
        if layout is not None:
            names = ("device_matrix", "alias_name", "rank_list")
            entry["layout"] = {name: getattr(layout, name) for name in names if getattr(layout, name)}
        entry = {key: value for key, value in entry.items() if value is not None}
        if forward_reduce_scatter:
            entry["forward_reduce_scatter"] = True
        spec = self.scenario.spec
        before = spec.parallel.model_dump(mode="json", exclude_unset=True)
        before["strategies"] = [*before.get("strategies", ()), entry]
        parallel = validate_data(before, ParallelSpec)
        return ShardedGraph(replace(self.scenario, spec=spec.model_copy(update={"parallel": parallel})))

    def piece(self, match: str) -> GraphPiece:
        """The operators or modules of a pattern as a function, to be sharded by what crosses its border."""
        return GraphPiece(self, match)

    def __str__(self) -> str:
        """Every operator with its dims, equal instances once."""
        lines: dict[str, list[str]] = {}
        for name, (kind, inputs, outputs) in self.operators.items():
            stem, number = _numbered(name)
            text = f"{stem}  {kind}  {_listed(inputs)} -> {_listed(outputs)}"
            lines.setdefault(text, []).append(number)
        return "\n".join(lines)


def _numbered(name: str) -> tuple[str, str]:
    """``layers.3.mlp.up`` as ``layers.*.mlp.up`` and 3."""
    parts = name.split(".")
    numbers = [part for part in parts if part.isdigit()]
    return ".".join("*" if part.isdigit() else part for part in parts), ".".join(numbers)


def _listed(operands: Dims) -> str:
    return ", ".join(f"({', '.join(names)})" for names in operands)


def _common_layout(operands: Sequence[Operand]) -> MindSporeLayout | None:
    """The device matrix of all operands, if they are layouts."""
    layouts = {replace(operand, dims=None) for operand in operands if isinstance(operand, MindSporeLayout)}
    if len(layouts) > 1:
        raise ScenarioError("the layouts of one operator have different device matrices")
    return layouts.pop() if layouts else None
