"""The cost graph: the strategies and costs of every operator, and the redistributions between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Strategy
from simcluster.model import TensorType
from simcluster.plan.auto.candidates import CandidateRules, SearchMesh, candidate_strategies
from simcluster.plan.auto.cost_model import CostModel
from simcluster.plan.auto.cost_table import CostTable
from simcluster.plan.auto.operator_collectives import input_layout, output_layout
from simcluster.plan.auto.operator_graph import OperatorGraph, OperatorKind, TensorEdge
from simcluster.plan.auto.strategy_cost import IMPOSSIBLE, StrategyCost


@dataclass
class CostGraph:
    """An operator graph with costs; equal operators and equal edges share their tables."""

    graph: OperatorGraph
    """The operators."""
    search_mesh: SearchMesh
    """The ranks of a stage."""
    rules: CandidateRules
    """Which strategies are looked at."""
    model: CostModel
    """Prices them."""
    follow: bool = False
    """Whether element-wise operators keep the layout of what they read."""
    _edges: dict[tuple[int, int, int, int, bool, bool], CostTable] = field(default_factory=dict)
    _chosen: dict[tuple[int, Strategy], StrategyCost] = field(default_factory=dict)
    _layouts: dict[tuple[TensorType, bool, tuple[Layout, ...], tuple[Layout, ...]], CostTable] = field(
        default_factory=dict
    )
    _moves: dict[tuple[TensorType, Layout, Layout, bool], StrategyCost] = field(default_factory=dict)

    @cached_property
    def strategies(self) -> tuple[tuple[Strategy, ...], ...]:
        """For every kind of operator its candidates."""
        return tuple(candidate_strategies(kind, self.search_mesh, self.rules) for kind in self.graph.kinds)

    @property
    def num_candidates(self) -> int:
        """The strategies of all different operators that are not fixed."""
        return sum(
            len(own)
            for kind, own in zip(self.graph.kinds, self.strategies, strict=True)
            if kind.fixed is None
        )

    @cached_property
    def _operators(self) -> tuple[CostTable, ...]:
        return tuple(
            CostTable.of([self.model.operator(kind, strategy) for strategy in strategies])
            for kind, strategies in zip(self.graph.kinds, self.strategies, strict=True)
        )

    @cached_property
    def _followed(self) -> frozenset[TensorEdge]:
        """The edges whose layouts element-wise operators keep: the first that each of them reads."""
        if not self.follow:
            return frozenset()
        first: dict[int, TensorEdge] = {}
        for edge in self.graph.edges:
            kind = self.graph.kind_of(edge.reader)
            if kind.elementwise and kind.fixed is None and not edge.parameter:
                known = first.setdefault(edge.reader, edge)
                if edge.reader_index < known.reader_index:
                    first[edge.reader] = edge
        return frozenset(first.values())

    def choices(self, vertex: int) -> tuple[Strategy, ...]:
        """The strategies that an operator could have."""
        return self.strategies[self.graph.vertices[vertex].kind]

    def operator(self, vertex: int) -> CostTable:
        """The costs of an operator by its strategies."""
        return self._operators[self.graph.vertices[vertex].kind]

    def edge(self, edge: TensorEdge) -> CostTable:
        """The costs of an edge by the strategies of its source and of its reader."""
        source = self.graph.vertices[edge.source].kind
        reader = self.graph.vertices[edge.reader].kind
        key = (source, edge.source_index, reader, edge.reader_index, edge.parameter, edge in self._followed)
        if key not in self._edges:
            self._edges[key] = self._priced(edge, follows=key[-1])
        return self._edges[key]

    def _priced(self, edge: TensorEdge, *, follows: bool) -> CostTable:
        source, reader = self.graph.kind_of(edge.source), self.graph.kind_of(edge.reader)
        made = [self._made(source, strategy, edge) for strategy in self.choices(edge.source)]
        need = [input_layout(reader, strategy, edge.reader_index) for strategy in self.choices(edge.reader)]
        tensor, trained = reader.inputs[edge.reader_index], edge.reader_index in reader.trained
        rows, columns = list(dict.fromkeys(made)), list(dict.fromkeys(need))
        key = (tensor, trained, tuple(rows), tuple(columns))
        if key not in self._layouts:
            self._layouts[key] = self.model.redistributions(tensor, rows, columns, trained=trained)
        table = self._layouts[key]
        if follows:
            table = _only_same(table, rows, columns)
        row_index = {layout: index for index, layout in enumerate(rows)}
        column_index = {layout: index for index, layout in enumerate(columns)}
        row_of = np.array([row_index[layout] for layout in made])
        column_of = np.array([column_index[layout] for layout in need])
        return table.at(row_of[:, None], column_of[None, :])

    def _made(self, kind: OperatorKind, strategy: Strategy, edge: TensorEdge) -> Layout:
        layout = input_layout if edge.parameter else output_layout
        return layout(kind, strategy, edge.source_index)

    def _move(self, tensor: TensorType, made: Layout, need: Layout, *, trained: bool) -> StrategyCost:
        key = (tensor, made, need, trained)
        if key not in self._moves:
            self._moves[key] = self.model.redistribution(tensor, made, need, trained=trained)
        return self._moves[key]

    def total(self, chosen: Sequence[Strategy]) -> StrategyCost:
        """What a choice of strategies costs, whether or not they are candidates: all stages together."""
        costs = [self._own(vertex.kind, chosen[place]) for place, vertex in enumerate(self.graph.vertices)]
        costs += [self._between(edge, chosen[edge.source], chosen[edge.reader]) for edge in self.graph.edges]
        return StrategyCost(
            sum(cost.compute for cost in costs),
            sum(cost.communication for cost in costs),
            sum(cost.memory for cost in costs),
        )

    def stage_memory(self, chosen: Sequence[Strategy], stage: int) -> float:
        """The bytes that a choice of strategies needs on a device of a stage."""
        own = sum(
            self._own(vertex.kind, chosen[place]).memory
            for place, vertex in enumerate(self.graph.vertices)
            if vertex.stage == stage
        )
        return own + sum(
            self._between(edge, chosen[edge.source], chosen[edge.reader]).memory
            for edge in self.graph.edges
            if self.graph.vertices[edge.reader].stage == stage
        )

    def _own(self, kind: int, strategy: Strategy) -> StrategyCost:
        key = (kind, strategy)
        if key not in self._chosen:
            self._chosen[key] = self.model.operator(self.graph.kinds[kind], strategy)
        return self._chosen[key]

    def _between(self, edge: TensorEdge, making: Strategy, reading: Strategy) -> StrategyCost:
        source, reader = self.graph.kind_of(edge.source), self.graph.kind_of(edge.reader)
        need = input_layout(reader, reading, edge.reader_index)
        made, trained = self._made(source, making, edge), edge.reader_index in reader.trained
        return self._move(reader.inputs[edge.reader_index], made, need, trained=trained)


def _only_same(table: CostTable, rows: Sequence[Layout], columns: Sequence[Layout]) -> CostTable:
    """The table with only the layouts kept that stay as they are, where a reader can have them."""
    same = np.array([[start == target for target in columns] for start in rows])
    possible = same | ~same.any(axis=1, keepdims=True)
    return CostTable(table.compute, np.where(possible, table.communication, IMPOSSIBLE), table.memory)
