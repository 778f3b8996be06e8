"""Eliminations that keep lists of costs instead of the least one, for a limit of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.auto.cost_table import ParetoList
from simcluster.plan.auto.elimination import Variables
from simcluster.plan.auto.stage_problem import StageProblem, WeightedSolver

MOST_CELLS = 60_000
"""The most lists that are added, over all different eliminations: some seconds."""

MOST_ENTRIES = 10_000_000
"""The most entries of them."""


class ListsTooLongError(Exception):
    """The lists of a network would take too long to make."""


@dataclass(eq=False, slots=True)
class _ListTable:
    """A list of costs for every combination of strategies of ``variables``.

    Of an elimination, ``vertex`` is the operator that went, ``sources`` are the tables that were added, and
    an entry's origin is a row of ``rows`` for its cell: the strategy, and the entry of every source.
    """

    variables: Variables
    lists: NDArray[Any]
    vertex: int = -1
    sources: tuple[_ListTable, ...] = ()
    rows: dict[tuple[int, ...], NDArray[np.int64]] = field(default_factory=dict)


@dataclass
class ListElimination:
    """The operators of a stage, to be eliminated with lists."""

    problem: StageProblem
    """The operators and their costs."""
    share: float
    """What an entry may be dearer by that replaces another one, for each elimination."""
    longest: int
    """The most entries of a list."""
    tables: list[_ListTable]
    """The tables that are left."""
    entries: int = 0
    """Entries that were added so far."""
    cells: int = 0
    """Lists that were added so far."""
    known: dict[tuple[object, ...], _ListTable] = field(default_factory=dict)
    """Eliminations that were done before, by their tables and the places of these."""

    @classmethod
    def of(
        cls, problem: StageProblem, solver: WeightedSolver, epsilon: float, *, short: bool
    ) -> ListElimination:
        """``short`` lists have at most 1 / epsilon entries; others as many as it takes to be within it."""
        single: dict[int, NDArray[Any]] = {}
        for _, table in problem.tables:
            if id(table) not in single:
                objective = solver.objectives[id(table)]
                lists = single[id(table)] = np.empty(objective.shape, dtype=object)
                for place in np.ndindex(objective.shape):
                    own = objective[place].reshape(1), table.memory[place].reshape(1)
                    lists[place] = ParetoList.of(*own, np.zeros(1, dtype=np.int64))
        tables = [_ListTable(variables, single[id(table)]) for variables, table in problem.tables]
        share = math.expm1(math.log1p(epsilon) / max(len(problem.sizes), 1))
        return cls(problem, share, math.ceil(1 / epsilon) if short else 1 << 20, tables)

    def best(self, capacity: float) -> dict[int, int] | None:
        """The cheapest choice within so many bytes that the lists still have; None if there is none.

        Raises ListsTooLongError where it would take too long.
        """
        for vertex in self._order():
            self._eliminate(vertex)
        # What is left are tables over nothing, one for each part of the network that stands alone.
        total = self._sum(self.tables, ())
        rows = total[1]
        fitting = total[0].within(capacity)
        if not len(fitting):
            return None
        chosen: dict[int, int] = {}
        pending = [
            (table, int(entry)) for table, entry in zip(self.tables, rows[fitting.origin[0]], strict=True)
        ]
        while pending:
            table, entry = pending.pop()
            if table.vertex < 0:
                continue
            cell = tuple(chosen[vertex] for vertex in table.variables)
            origin = int(table.lists[cell].origin[entry])
            strategy, *entries = (int(number) for number in table.rows[cell][origin])
            chosen[table.vertex] = strategy
            pending += zip(table.sources, entries, strict=True)
        return chosen

    def _order(self) -> list[int]:
        """The operators in the order in which they go: that with the smallest table first."""
        sizes = self.problem.sizes
        around: dict[int, set[int]] = {vertex: {vertex} for vertex in sizes}
        for table in self.tables:
            for vertex in table.variables:
                around[vertex] |= set(table.variables)

        def cells(vertex: int) -> int:
            return math.prod(sizes[other] for other in around[vertex])

        order: list[int] = []
        while around:
            vertex = min(around, key=lambda vertex: (cells(vertex), vertex))
            others = around.pop(vertex) - {vertex}
            for other in others:
                around[other] = (around[other] | others) - {vertex}
            order.append(vertex)
        return order

    def _neighbours(self, vertex: int) -> Variables:
        every = {other for table in self.tables if vertex in table.variables for other in table.variables}
        return tuple(sorted(every - {vertex}))

    def _eliminate(self, vertex: int) -> None:
        neighbours = self._neighbours(vertex)
        sources = tuple(table for table in self.tables if vertex in table.variables)
        shape = tuple(self.problem.sizes[other] for other in neighbours)
        place_of = {other: place for place, other in enumerate((vertex, *neighbours))}
        sources = tuple(sorted(sources, key=lambda table: [place_of[other] for other in table.variables]))
        key = tuple((id(table.lists), *(place_of[other] for other in table.variables)) for table in sources)
        if key in self.known:
            same = self.known[key]
            made = _ListTable(neighbours, same.lists, vertex, sources, same.rows)
            self.tables = [table for table in self.tables if table not in sources] + [made]
            return
        self.cells += math.prod(shape) * self.problem.sizes[vertex]
        if self.cells > MOST_CELLS:
            raise ListsTooLongError
        made = self.known[key] = _ListTable(neighbours, np.empty(shape, dtype=object), vertex, sources)
        for cell in product(*map(range, shape)):
            known = dict(zip(neighbours, cell, strict=True))
            lists, rows = [], []
            for strategy in range(self.problem.sizes[vertex]):
                places = [
                    tuple({**known, vertex: strategy}[other] for other in table.variables)
                    for table in sources
                ]
                total, entries = self._sum(sources, places)
                if len(total):
                    lists.append(total)
                    chosen = entries[total.origin]
                    rows.append(np.column_stack((np.full(len(chosen), strategy), chosen)))
            made.rows[cell] = (
                np.concatenate(rows) if rows else np.zeros((0, 1 + len(sources)), dtype=np.int64)
            )
            made.lists[cell] = self._joined(lists)
        self.tables = [table for table in self.tables if table not in sources] + [made]

    def _joined(self, lists: Sequence[ParetoList]) -> ParetoList:
        """The best of several lists; origins count the entries of all of them."""
        count = sum(map(len, lists))
        empty = np.zeros(0)
        joined = ParetoList.of(
            np.concatenate([entries.objective for entries in lists]) if lists else empty,
            np.concatenate([entries.memory for entries in lists]) if lists else empty,
            np.arange(count),
        )
        return joined.thinned(self.share).at_most(self.longest)

    def _sum(
        self, tables: Sequence[_ListTable], places: Sequence[tuple[int, ...]]
    ) -> tuple[ParetoList, NDArray[np.int64]]:
        """The sums of one entry of each table, and for every origin the entries."""
        total = ParetoList(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64))
        rows = np.zeros((1, 0), dtype=np.int64)
        for index, table in enumerate(tables):
            other: ParetoList = table.lists[places[index] if places else ()]
            self.entries += len(total) * len(other)
            if self.entries > MOST_ENTRIES:
                raise ListsTooLongError
            pairs = np.add.outer(total.objective, other.objective).ravel()
            memory = np.add.outer(total.memory, other.memory).ravel()
            first = np.repeat(total.origin, len(other))
            second = np.tile(np.arange(len(other)), len(total))
            rows = (
                np.column_stack((rows[first], second)) if len(pairs) else np.zeros((0, index + 1), np.int64)
            )
            total = ParetoList.of(pairs, memory, np.arange(len(pairs)))
        return total, rows
