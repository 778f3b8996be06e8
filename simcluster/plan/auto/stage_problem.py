"""The search on one pipeline stage: tables of its operators and of the edges between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Floats
from simcluster.plan.auto.cost_graph import CostGraph
from simcluster.plan.auto.cost_table import CostTable
from simcluster.plan.auto.elimination import Elimination, EliminationMemory, Variables


@dataclass
class TableCache:
    """Tables that are derived from others, each made once, so that equal ones are one object."""

    parts: dict[tuple[int, int, int], CostTable] = field(default_factory=dict)
    """(table, axis, index) -> that row or column."""
    transposed: dict[int, CostTable] = field(default_factory=dict)
    """Table -> the same with its axes exchanged."""
    kept: list[CostTable] = field(default_factory=list)
    """What the keys are about."""

    def part(self, table: CostTable, axis: int, index: int) -> CostTable:
        """One row (axis 0) or column (axis 1)."""
        key = (id(table), axis, index)
        if key not in self.parts:
            self.kept.append(table)
            self.parts[key] = table.at(index) if axis == 0 else table.at(slice(None), index)
        return self.parts[key]

    def turned(self, table: CostTable) -> CostTable:
        """The table with its axes exchanged."""
        if id(table) not in self.transposed:
            self.kept.append(table)
            self.transposed[id(table)] = CostTable(
                table.compute.T.copy(), table.communication.T.copy(), table.memory.T.copy()
            )
        return self.transposed[id(table)]


@dataclass(frozen=True)
class StageProblem:
    """The operators of a stage, with what surrounds them decided."""

    sizes: Mapping[int, int]
    """Operator -> the number of its strategies."""
    tables: tuple[tuple[Variables, CostTable], ...]
    """Costs of operators, and of edges by their operators in rising order."""

    @classmethod
    def of(cls, costs: CostGraph, stage: int, decided: Mapping[int, int], cache: TableCache) -> StageProblem:
        """The problem of a stage; edges to operators of other stages count if these are ``decided``."""
        graph = costs.graph
        own = [place for place, vertex in enumerate(graph.vertices) if vertex.stage == stage]
        tables: list[tuple[Variables, CostTable]] = [((vertex,), costs.operator(vertex)) for vertex in own]
        inside = frozenset(own)
        for edge in graph.edges:
            source, reader = edge.source in inside, edge.reader in inside
            if source and reader:
                table = costs.edge(edge)
                pair = (edge.source, edge.reader)
                rising = edge.source < edge.reader
                tables.append((pair, table) if rising else (pair[::-1], cache.turned(table)))
            elif reader and edge.source in decided:
                tables.append(((edge.reader,), cache.part(costs.edge(edge), 0, decided[edge.source])))
            elif source and edge.reader in decided:
                tables.append(((edge.source,), cache.part(costs.edge(edge), 1, decided[edge.reader])))
        return cls({vertex: len(costs.choices(vertex)) for vertex in own}, tuple(tables))

    def memory_of(self, chosen: Mapping[int, int]) -> float:
        """The bytes that a choice needs."""
        return sum(
            float(table.memory[tuple(chosen[vertex] for vertex in variables)])
            for variables, table in self.tables
        )


@dataclass
class WeightedSolver:
    """Finds the choice with the least weighted sum of objective and memory, for any weights."""

    objectives: dict[int, Floats]
    """Table -> its objective."""
    memories: dict[tuple[float, float], EliminationMemory] = field(default_factory=dict)
    """Weights -> the eliminations that were done with them."""
    weighted: dict[tuple[float, float, int], Floats] = field(default_factory=dict)
    """Weights and table -> the weighted table."""
    last: Elimination | None = None
    """The last elimination, which knows what it did."""

    def solve(
        self, problem: StageProblem, of_objective: float, of_memory: float
    ) -> tuple[float, dict[int, int]]:
        """The least weighted sum and a choice that has it; infinite where nothing is possible."""
        weights = (of_objective, of_memory)
        elimination = Elimination(problem.sizes, self.memories.setdefault(weights, EliminationMemory()))
        for variables, table in problem.tables:
            elimination.add(variables, self._table(table, of_objective, of_memory))
        self.last = elimination
        return elimination.run()

    def cost_of(self, problem: StageProblem, chosen: Mapping[int, int]) -> float:
        """The objective of a choice."""
        return sum(
            float(self.objectives[id(table)][tuple(chosen[vertex] for vertex in variables)])
            for variables, table in problem.tables
        )

    def _table(self, table: CostTable, of_objective: float, of_memory: float) -> Floats:
        key = (of_objective, of_memory, id(table))
        if key not in self.weighted:
            objective = self.objectives[id(table)]
            possible = np.isfinite(objective)
            finite = np.where(possible, objective, 0.0)
            total = of_objective * finite + of_memory * table.memory
            self.weighted[key] = np.where(possible, total, np.inf)
        return self.weighted[key]
