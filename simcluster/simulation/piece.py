"""A piece of a network as an object that Python shards: what MindSpore's ``shard`` gets as its function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.layout import MindSporeLayout
from simcluster.model import Operator, Phase
from simcluster.plan.piece import Shard, marked
from simcluster.plan.spec import ParallelSpec
from simcluster.simulation.written import Entry, Operand, written
from simcluster.work import DType

if TYPE_CHECKING:
    from simcluster.simulation.sharded import ShardedGraph

Border = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class GraphPiece:
    """Operators or modules of a graph that are one function in each layer: ``graph.piece("layers.*.mlp")``.

    ``inputs`` and ``outputs`` are what crosses its border, in the order in which strategies are given.
    """

    graph: ShardedGraph
    match: str

    @cached_property
    def inputs(self) -> Border:
        """What it reads that others make -> the names of its dims."""
        return self._border[0]

    @cached_property
    def outputs(self) -> Border:
        """What it makes for others -> the names of its dims."""
        return self._border[1]

    @cached_property
    def _border(self) -> tuple[Border, Border]:
        """Of the first layer that has it. PlanError if the pattern fits nothing, or what is no function."""
        scenario = self.graph.scenario
        seq = scenario.spec.training.seq_len
        shard = Shard(self.match, None, None, (), None, 0, "")
        graph, pieces = marked(scenario.model.graph(1, seq, DType.FP32, 1), [shard])
        block, piece = next((graph.blocks[name], found[0]) for name, found in pieces.items() if found)
        names: dict[str, tuple[str, ...]] = {}
        for node in block.phase(Phase.FORWARD):
            if node.name in piece.nodes:
                assert isinstance(node.operator, Operator)
                dims = node.operator.dims()
                operands = zip(node.inputs + node.outputs, dims.inputs + dims.outputs, strict=True)
                names = {**dict(operands), **names}
        return {name: names[name] for name in piece.inputs}, {name: names[name] for name in piece.outputs}

    def shard(
        self,
        in_strategy: Sequence[Operand] | None = None,
        out_strategy: Sequence[Operand] | None = None,
        parameter_plan: Mapping[str, Sequence[Entry]] | None = None,
        device: str | None = "Ascend",
        level: int = 0,
    ) -> ShardedGraph:
        """The graph in which the piece runs as a graph of its own, sharded by what is said of its border.

        Everything else is dispatched operator by operator. ``in_strategy`` has one entry per input, None or
        one number of parts or axis per dim, ``out_strategy`` the same of outputs; ``parameter_plan`` maps
        parameters to such entries. The operators inside follow: ``level`` 0 for least communication, 1 for
        least memory, 2 for least time. ``device`` must be what the cluster has (None: any). Raises
        ScenarioError for what has not this form; whether it fits is found when the graph is planned.
        """
        spec = self.graph.scenario.spec
        if any(isinstance(each, MindSporeLayout) for each in (*(in_strategy or ()), *(out_strategy or ()))):
            raise ScenarioError(
                "a device matrix of its own is not supported at the border of a piece",
                hint="write numbers of parts or axes of the mesh, one per dim",
            )
        found: dict[str, Any] = {
            "piece": self.match,
            "in": written(in_strategy),
            "out": written(out_strategy),
            "parameter_plan": {
                name: (written([entries]) or [None])[0] for name, entries in (parameter_plan or {}).items()
            },
            "device": device,
            "level": level,
        }
        before = spec.parallel.model_dump(mode="json", exclude_unset=True)
        before["shard"] = [*before.get("shard", ()), {k: v for k, v in found.items() if v is not None}]
        parallel = validate_data(before, ParallelSpec)
        scenario = replace(self.graph.scenario, spec=spec.model_copy(update={"parallel": parallel}))
        return replace(self.graph, scenario=scenario)
