"""Eliminations of a cost graph: one operator after the other is minimised over, until none is left.

Each elimination is exact. What MindSpore tells apart is here one rule for operators with at most two
neighbours, by whether these are producers or consumers:

    ==========  ============================================================
    edge        parallel edges between two operators are added
    merge       an operator without inputs and with one output
    contract    an operator with one input and without outputs
    operator    an operator between two others
    source      an operator with two outputs (with two inputs: its mirror)
    triangle    an operator between two that have an edge already
    star        an operator with three or more neighbours: a table over all of them
    ==========  ============================================================

The operator that gives the smallest table goes first, whichever rule that is; of equals the first. Equal
parts of a network have the same tables, which are known by identity: each different elimination is done once.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Floats

MOST_ENTRIES = 100_000_000
"""The largest table that is made, entries."""

_AT_ONCE = 4_000_000
"""Entries of the sums of one minimisation that are held at once."""

Variables = tuple[int, ...]


class TableTooLargeError(Exception):
    """An elimination would need a table of too many entries."""

    def __init__(self, vertex: int, entries: int) -> None:
        super().__init__(f"{entries:,} entries")
        self.vertex, self.entries = vertex, entries


@dataclass
class EliminationMemory:
    """Eliminations and sums of tables that were done before, by the identity of their tables."""

    minima: dict[tuple[object, ...], tuple[Floats, NDArray[np.intp]]] = field(default_factory=dict)
    """Tables with their place -> their minimum over an operator, and where that is."""
    sums: dict[tuple[int, int], Floats] = field(default_factory=dict)
    """Two tables -> their sum."""
    kept: list[Floats] = field(default_factory=list)
    """All tables that are known by identity, so that no other takes their place in memory."""

    def added(self, first: Floats, second: Floats) -> Floats:
        """The sum of two tables of one shape."""
        key = (id(first), id(second))
        if key not in self.sums:
            self.sums[key] = first + second
            self.kept += [first, second]
        return self.sums[key]

    def minimised(
        self, tables: Sequence[tuple[tuple[int, ...], Floats]], shape: tuple[int, ...], size: int
    ) -> tuple[Floats, NDArray[np.intp]]:
        """The minimum of a sum of tables over an operator with ``size`` strategies, and which one has it.

        Every table stands with the axes of the result that it has, in order, behind that of the operator.
        """
        key = tuple((axes, id(table)) for axes, table in tables)
        if key not in self.minima:
            self.minima[key] = _minimised(tables, shape, size)
            self.kept += [table for _, table in tables]
        return self.minima[key]


def _minimised(
    tables: Sequence[tuple[tuple[int, ...], Floats]], shape: tuple[int, ...], size: int
) -> tuple[Floats, NDArray[np.intp]]:
    entries = math.prod(shape)

    def widened(axes: tuple[int, ...], table: Floats) -> Floats:
        lengths = [1] * len(shape)
        for axis, length in zip(axes, table.shape[1:], strict=True):
            lengths[axis] = length
        return table.reshape(table.shape[0], *lengths)

    wide = [widened(axes, table) for axes, table in tables]
    if entries * size <= _AT_ONCE:
        total = wide[0]
        for table in wide[1:]:
            total = total + table
        total = np.broadcast_to(total, (size, *shape))
        place = np.asarray(total.argmin(axis=0))
        return np.take_along_axis(total, place[None], axis=0)[0], place
    least: Floats | None = None
    place = np.zeros(shape, dtype=np.intp)
    for index in range(size):
        total = wide[0][index]
        for table in wide[1:]:
            total = total + table[index]
        total = np.broadcast_to(total, shape)
        if least is None:
            least = total.copy()
            continue
        better = total < least
        least[better] = total[better]
        place[better] = index
    assert least is not None, "every operator has a strategy"
    return least, place


@dataclass(frozen=True, slots=True)
class _Eliminated:
    vertex: int
    neighbours: Variables
    place: NDArray[np.intp]


@dataclass
class Elimination:
    """A graph of operators with costs, of which one after the other is eliminated."""

    sizes: Mapping[int, int]
    """Operator -> the number of its strategies."""
    memory: EliminationMemory = field(default_factory=EliminationMemory)
    """What was done before, perhaps on another graph."""
    rules: Counter[str] = field(default_factory=Counter)
    """How often every rule was applied."""
    _factors: dict[Variables, Floats] = field(default_factory=dict)
    _around: dict[int, set[Variables]] = field(default_factory=dict)
    _done: list[_Eliminated] = field(default_factory=list)

    def add(self, variables: Variables, table: Floats) -> None:
        """Adds costs of one operator, or of several in rising order."""
        known = self._factors.get(variables)
        if known is not None:
            self.rules["edge"] += len(variables) == 2
            table = self.memory.added(known, table)
        self._factors[variables] = table
        for vertex in variables:
            self._around.setdefault(vertex, set()).add(variables)

    def run(self) -> tuple[float, dict[int, int]]:
        """The least cost, and the strategy of every operator that gives it; infinite where none does.

        Raises TableTooLargeError where too many operators depend on each other at once.
        """
        left = set(self.sizes)
        queue = [(self._entries(vertex), vertex) for vertex in left]
        heapq.heapify(queue)
        least = 0.0
        while queue:
            entries, vertex = heapq.heappop(queue)
            if vertex not in left or entries != self._entries(vertex):
                continue
            left.discard(vertex)
            least += self._eliminate(vertex, entries)
            for neighbour in self._done[-1].neighbours:
                heapq.heappush(queue, (self._entries(neighbour), neighbour))
        chosen: dict[int, int] = {}
        for step in reversed(self._done):
            chosen[step.vertex] = int(step.place[tuple(chosen[other] for other in step.neighbours)])
        return least, chosen

    def _neighbours(self, vertex: int) -> Variables:
        every = {other for variables in self._around.get(vertex, ()) for other in variables}
        return tuple(sorted(every - {vertex}))

    def _entries(self, vertex: int) -> int:
        """The entries of the sum from which an operator is eliminated."""
        return math.prod(self.sizes[other] for other in (vertex, *self._neighbours(vertex)))

    def _eliminate(self, vertex: int, entries: int) -> float:
        """Minimises over an operator; the cost that no other depends on."""
        neighbours = self._neighbours(vertex)
        self.rules[self._rule(vertex, neighbours)] += bool(neighbours)
        if entries > MOST_ENTRIES:
            raise TableTooLargeError(vertex, entries)
        place_of = {other: place for place, other in enumerate(neighbours)}
        tables: list[tuple[tuple[int, ...], Floats]] = []
        for variables in sorted(self._around.pop(vertex, ())):
            table = self._factors.pop(variables)
            for other in variables:
                if other != vertex:
                    self._around[other].discard(variables)
            axes = tuple(place_of[other] for other in variables if other != vertex)
            tables.append((axes, _with_first(table, variables.index(vertex), self.memory)))
        shape = tuple(self.sizes[other] for other in neighbours)
        if not tables:
            least, place = np.zeros(shape), np.zeros(shape, dtype=np.intp)
        else:
            tables.sort(key=lambda entry: entry[0])
            least, place = self.memory.minimised(tables, shape, self.sizes[vertex])
        self._done.append(_Eliminated(vertex, neighbours, place))
        if not neighbours:
            return float(least)
        self.add(neighbours, least)
        return 0.0

    def _rule(self, vertex: int, neighbours: Variables) -> str:
        """MindSpore's name for what is done; operators are numbered in the order in which they run."""
        before = sum(other < vertex for other in neighbours)
        if len(neighbours) == 1:
            return "contract" if before else "merge"
        if len(neighbours) > 2:
            return "star"
        if neighbours in self._factors:
            return "triangle"
        return "operator" if before == 1 else "source"


def _with_first(table: Floats, axis: int, memory: EliminationMemory) -> Floats:
    """The table with one axis in front; the same object every time."""
    if axis == 0:
        return table
    key = ("first", axis, id(table))
    if key not in memory.minima:
        memory.minima[key] = (np.ascontiguousarray(np.moveaxis(table, axis, 0)), np.zeros(0, dtype=np.intp))
        memory.kept.append(table)
    return memory.minima[key][0]
