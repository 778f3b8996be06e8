"""The network of a scenario as a graph that Python shards: by operator, or by piece, as with MindSpore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.document import generalised_name, validate_data
from simcluster.draw import html_table
from simcluster.errors import ScenarioError
from simcluster.layout import MindSporeLayout
from simcluster.model import Operator
from simcluster.plan import ParallelSpec, ShardRequest, assign_subgraphs, boundary_dims
from simcluster.scenario import Scenario
from simcluster.work import DType

Entry = int | str | None | Sequence[str]
Operand = Sequence[Entry] | MindSporeLayout | None
Dims = tuple[tuple[str, ...], ...]
BoundaryLayouts = Mapping[str, tuple[str, ...]]


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
        seq = self.scenario.spec.task.seq_len
        graph = self.scenario.model.graph(1, seq, DType.FP32, 1)
        operators = {}
        for instance, node in graph.nodes():
            assert isinstance(node.operator, Operator)
            dims = node.operator.dims()
            operators[f"{instance.name}.{node.name}"] = node.operator.kind, dims.inputs, dims.outputs
        return operators

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
        entry["in"], entry["out"] = _written(in_strategy), _written(out_strategy)
        layout = _common_layout([*(in_strategy or ()), *(out_strategy or ())])
        if layout is not None:
            names = ("device_matrix", "alias_name", "rank_list")
            entry["layout"] = {name: getattr(layout, name) for name in names if getattr(layout, name)}
        entry = {key: value for key, value in entry.items() if value is not None}
        if forward_reduce_scatter:
            entry["forward_reduce_scatter"] = True
        return self._with("strategies", entry)

    def _with(self, key: str, entry: Mapping[str, Any]) -> ShardedGraph:
        """The graph with one more entry under a key of ``parallel``."""
        spec = self.scenario.spec
        before = spec.parallel.model_dump(mode="json", exclude_unset=True)
        parallel = validate_data({**before, key: [*before.get(key, ()), entry]}, ParallelSpec)
        return ShardedGraph(replace(self.scenario, spec=spec.model_copy(update={"parallel": parallel})))

    def piece(self, match: str) -> GraphPiece:
        """The operators or modules of a pattern as a function, to be sharded by what crosses its border."""
        return GraphPiece(self, match)

    def __repr__(self) -> str:
        return f"ShardedGraph: {self.scenario.name}"

    def __str__(self) -> str:
        """Every operator with its dims, equal instances once."""
        return "\n".join(
            f"{stem}  {kind}  {inputs} -> {outputs}" for stem, kind, inputs, outputs in self._rows
        )

    def _repr_html_(self) -> str:
        return html_table(("operator", "kind", "dims of inputs", "dims of results"), self._rows)

    @property
    def _rows(self) -> Iterable[tuple[str, str, str, str]]:
        return dict.fromkeys(
            (generalised_name(name), kind, _listed(inputs), _listed(outputs))
            for name, (kind, inputs, outputs) in self.operators.items()
        )


@dataclass(frozen=True)
class GraphPiece:
    """Operators or modules of a graph that are one function in each layer: ``graph.piece("layers.*.mlp")``.

    ``inputs`` and ``outputs`` are what crosses its border, in the order in which strategies are given.
    """

    graph: ShardedGraph
    match: str

    @cached_property
    def inputs(self) -> BoundaryLayouts:
        """What it reads that others make -> the names of its dims."""
        return self._border[0]

    @cached_property
    def outputs(self) -> BoundaryLayouts:
        """What it makes for others -> the names of its dims."""
        return self._border[1]

    @cached_property
    def _border(self) -> tuple[BoundaryLayouts, BoundaryLayouts]:
        """Of the first layer that has it. PlanError if the pattern fits nothing, or what is no function."""
        scenario = self.graph.scenario
        seq = scenario.spec.task.seq_len
        shard = ShardRequest(self.match, None, None, (), None, 0, "")
        graph, pieces = assign_subgraphs(scenario.model.graph(1, seq, DType.FP32, 1), [shard])
        block, piece = next(
            (graph.blocks[name], subgraphs[0]) for name, subgraphs in pieces.items() if subgraphs
        )
        inputs, outputs = (
            {value: boundary_dims(block, piece, value) for value in values}
            for values in (piece.inputs, piece.outputs)
        )
        return inputs, outputs

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
        operands = (*(in_strategy or ()), *(out_strategy or ()), *(parameter_plan or {}).values())
        if any(isinstance(operand, MindSporeLayout) for operand in operands):
            raise ScenarioError(
                "a device matrix of its own is not supported at the border of a piece",
                hint="write numbers of parts or axes of the mesh, one per dim",
            )
        entry: dict[str, Any] = {
            "piece": self.match,
            "in": _written(in_strategy),
            "out": _written(out_strategy),
            "parameter_plan": {
                name: (_written([entries]) or [None])[0] for name, entries in (parameter_plan or {}).items()
            },
            "device": device,
            "level": level,
        }
        return self.graph._with("shard", {key: value for key, value in entry.items() if value is not None})


def _listed(operands: Dims) -> str:
    return ", ".join(f"({', '.join(names)})" for names in operands)


def _written(operands: Sequence[Operand] | None) -> list[Any] | None:
    """Operands as a scenario has them."""
    if operands is None:
        return None
    written: list[Any] = []
    for operand in operands:
        if isinstance(operand, MindSporeLayout):
            if operand.dims is None:
                raise ScenarioError(
                    "a layout of no tensor stands where one of a tensor should",
                    hint='call it with the dims: layout("dp", "None")',
                )
            written.append([list(dim) or 1 for dim in operand.dims])
        else:
            written.append(operand and [list(e) if isinstance(e, tuple) else e for e in operand])
    return written


def _common_layout(operands: Sequence[Operand]) -> MindSporeLayout | None:
    """The device matrix of all operands, if they are layouts."""
    layouts = {replace(operand, dims=None) for operand in operands if isinstance(operand, MindSporeLayout)}
    if len(layouts) > 1:
        raise ScenarioError("the layouts of one operator have different device matrices")
    return layouts.pop() if layouts else None
