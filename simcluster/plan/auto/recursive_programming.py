"""MindSpore's double recursive search: the ranks are halved cut by cut, and in each cut operator by operator.

The outer recursion goes over the units of the mesh from the outermost, whose ranks are joined by the slowest
links, to the innermost. In each cut the operators that cost most come first; each picks the dim that is
cheapest to cut: the bytes of the tensors that do not have the dim, which both halves need or must add, and
those of tensors that neighbours have cut elsewhere. A tensor of s bytes costs s/2 in the first case and s/4
in the second; a unit of n ranks (1 - 1/n) s and (n - 1)/n^2 s. Operators that do little themselves follow
their neighbours.

Rules, tie order and which operators count are those of ``rec_core`` of MindSpore 1.0, which cuts up to 1,024
devices; more are an extension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Strategy
from simcluster.plan.auto.candidates import search_dims, split_refusal
from simcluster.plan.auto.operator_graph import OperatorGraph, OperatorKind, TensorEdge
from simcluster.plan.auto.strategy_search import SearchOutcome, SearchProblem, StrategySearch
from simcluster.plan.rules import BATCH

MOST_DEVICES = 1024
"""Devices up to which MindSpore's own search cuts."""

COSTED = frozenset({"matmul", "convolution", "pool", "batch_norm", "loss", "attention"})
"""Families of operators that are searched; all others follow."""

_BATCH_ONLY = frozenset({"convolution", "pool", "batch_norm"})
"""Families of which only the batch is cut, if it can be: without channel partition, as in MindSpore."""


class RecursiveProgramming(StrategySearch):
    """Linear in operators, so near-instant; no bound."""

    kind: ClassVar[str] = "recursive_programming"

    def search(self, problem: SearchProblem) -> SearchOutcome:
        """Strategies for any network: what no cut divides stays whole."""
        bisection = _Bisection(problem)
        for unit in problem.costs.search_mesh.units:
            bisection.cut(unit)
        devices = problem.costs.search_mesh.devices
        notes = []
        if devices > MOST_DEVICES:
            notes.append(
                f"{devices:,} devices of a stage are an extension: MindSpore's search cuts {MOST_DEVICES:,}"
            )
        return SearchOutcome(bisection.strategies(), None, tuple(notes))


Split = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class _CutCost:
    """The dims of a kind that a cut may take, cheapest first among equals, with their costs."""

    dims: tuple[str, ...]
    costs: tuple[float, ...]


@dataclass
class _Bisection:
    """What every operator has been split over so far."""

    problem: SearchProblem
    splits: list[Split] = field(init=False)
    ways: list[dict[str, int]] = field(init=False)
    _costs: dict[tuple[int, tuple[tuple[str, int], ...], str], _CutCost] = field(default_factory=dict)
    _bytes: dict[tuple[int, int, tuple[tuple[str, int], ...]], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mesh, kinds = self.problem.costs.search_mesh, map(self.graph.kind_of, range(len(self.graph.vertices)))
        given = [(mesh.given(kind), mesh.given_ways(kind)) for kind in kinds]
        self.splits = [split for split, _ in given]
        self.ways = [ways for _, ways in given]

    @property
    def graph(self) -> OperatorGraph:
        """The operators."""
        return self.problem.costs.graph

    def strategies(self) -> tuple[Strategy, ...]:
        """The strategy of every operator, those that the user fixed as they were."""
        return tuple(
            self.graph.kind_of(vertex).fixed or Strategy.of(split) for vertex, split in enumerate(self.splits)
        )

    def cut(self, unit: str) -> None:
        """Splits every operator that can be over one more unit."""
        chosen: dict[int, str | None] = {}
        order: list[tuple[float, int]] = []
        for vertex in range(len(self.graph.vertices)):
            kind = self.graph.kind_of(vertex)
            if kind.fixed is not None:
                chosen[vertex] = next((dim for dim, axes in kind.fixed.splits if unit in axes), None)
            elif kind.family in COSTED:
                possible = self._possible(vertex, unit)
                if possible.dims:
                    order.append((-min(possible.costs), vertex))
                else:
                    chosen[vertex] = None
        for _, vertex in sorted(order):
            chosen[vertex] = self._cheapest(vertex, unit, chosen)
        self._follow(unit, chosen)
        size = self.problem.costs.search_mesh.mesh.size(unit)
        for vertex, dim in chosen.items():
            if dim is not None and self.graph.kind_of(vertex).fixed is None:
                self.splits[vertex].setdefault(dim, []).append(unit)
                self.ways[vertex][dim] = self.ways[vertex].get(dim, 1) * size

    # -- one operator of one cut --------------------------------------------------------------------------

    def _possible(self, vertex: int, unit: str) -> _CutCost:
        """The dims that the cut may take, in MindSpore's order of ties: those of the result, then others."""
        number = self.graph.vertices[vertex].kind
        key = (number, tuple(sorted(self.ways[vertex].items())), unit)
        if key not in self._costs:
            kind = self.graph.kinds[number]
            dims = [dim for dim in _tie_order(kind) if self._divides(vertex, dim, unit)]
            if kind.family in _BATCH_ONLY and BATCH in dims:
                dims = [BATCH]
            costs = tuple(self._intrinsic(vertex, dim, unit) for dim in dims)
            self._costs[key] = _CutCost(tuple(dims), costs)
        return self._costs[key]

    def _divides(self, vertex: int, dim: str, unit: str) -> bool:
        size = self.problem.costs.search_mesh.mesh.size(unit)
        ways = self.ways[vertex]
        wanted = {**ways, dim: ways.get(dim, 1) * size}
        return not split_refusal(self.graph.kind_of(vertex), wanted, self.problem.costs.rules)

    def _intrinsic(self, vertex: int, dim: str, unit: str) -> float:
        """What cutting a dim costs: the tensors that do not have it."""
        kind = self.graph.kind_of(vertex)
        size = self.problem.costs.search_mesh.mesh.size(unit)
        names = kind.dims.inputs + kind.dims.outputs
        missing = sum(self._local(vertex, place) for place, dims in enumerate(names) if dim not in dims)
        return self.problem.costs.model.collective(unit, (1 - 1 / size) * missing)

    def _local(self, vertex: int, operand: int) -> float:
        """Bytes of an operand, inputs before outputs, after the cuts so far."""
        number = self.graph.vertices[vertex].kind
        ways = self.ways[vertex]
        key = (number, operand, tuple(sorted(ways.items())))
        if key not in self._bytes:
            kind = self.graph.kinds[number]
            names = (kind.dims.inputs + kind.dims.outputs)[operand]
            parts = 1
            for dim in names:
                parts *= ways.get(dim, 1)
            self._bytes[key] = (kind.inputs + kind.outputs)[operand].num_bytes / parts
        return self._bytes[key]

    def _cheapest(self, vertex: int, unit: str, chosen: Mapping[int, str | None]) -> str:
        """The dim with the least cost, neighbours that this cut has decided included; of equals the first."""
        possible = self._possible(vertex, unit)
        moved = [
            (own, other, size) for own, other, size in self._decided_neighbours(vertex, chosen) if other >= 0
        ]
        best, least = possible.dims[0], float("inf")
        for dim, intrinsic in zip(possible.dims, possible.costs, strict=True):
            cost = intrinsic
            for own, other, size in moved:
                if dim in own and own.index(dim) != other:
                    cost += self._redistribution(unit, size)
            if cost < least:
                best, least = dim, cost
        return best

    def _redistribution(self, unit: str, num_bytes: float) -> float:
        """What a tensor costs that two operators have cut along different dims."""
        size = self.problem.costs.search_mesh.mesh.size(unit)
        return self.problem.costs.model.collective(unit, num_bytes * (size - 1) / size**2)

    def _decided_neighbours(
        self, vertex: int, chosen: Mapping[int, str | None]
    ) -> Iterator[tuple[tuple[str, ...], int, float]]:
        """Of every tensor that is shared with an operator that this cut has decided: its dims as this one
        calls them, the place of the dim that is cut there (-1: none), and its bytes.
        """
        for edge in self.graph.edges_at[vertex]:
            names, other_names, other = self._ends(edge, vertex)
            if other in chosen:
                dim = chosen[other]
                place = other_names.index(dim) if dim is not None and dim in other_names else -1
                yield names, place, self._local(edge.reader, edge.reader_index)

    def _ends(self, edge: TensorEdge, vertex: int) -> tuple[tuple[str, ...], tuple[str, ...], int]:
        """The dims of a tensor as an operator and as the other one at the edge call them, and the other."""
        source, reader = self.graph.kind_of(edge.source).dims, self.graph.kind_of(edge.reader).dims
        made = (source.inputs if edge.parameter else source.outputs)[edge.source_index]
        read = reader.inputs[edge.reader_index]
        return (made, read, edge.reader) if edge.source == vertex else (read, made, edge.source)

    # -- operators that follow ----------------------------------------------------------------------------

    def _follow(self, unit: str, chosen: dict[int, str | None]) -> None:
        """Operators that are not costed take the cut of their producer, else of a consumer, else the batch.

        Twice in order and once against it, so that what only a consumer knows reaches all that come before.
        """
        vertices = range(len(self.graph.vertices))
        for vertex in vertices:
            if vertex not in chosen and (dim := self._neighbours_cut(vertex, unit, chosen)) is not None:
                chosen[vertex] = dim
        for vertex in reversed(vertices):
            if vertex not in chosen and (dim := self._neighbours_cut(vertex, unit, chosen)) is not None:
                chosen[vertex] = dim
        summed: set[int] = set()
        for vertex in vertices:
            if vertex not in chosen:
                dim = self._neighbours_cut(vertex, unit, chosen)
                if dim is None and self._reads_sums(vertex, chosen, summed):
                    summed.add(vertex)
                chosen[vertex] = None if vertex in summed else dim or self._first(vertex, unit)

    def _neighbours_cut(self, vertex: int, unit: str, chosen: Mapping[int, str | None]) -> str | None:
        """The dim that keeps a tensor as a neighbour has it; producers before consumers."""
        edges = sorted(self.graph.edges_at[vertex], key=lambda edge: (edge.parameter, edge.source == vertex))
        for edge in edges:
            names, other_names, other = self._ends(edge, vertex)
            dim = chosen.get(other)
            if dim is None or dim not in other_names:
                continue
            own = names[other_names.index(dim)]
            if self._divides(vertex, own, unit):
                return own
        return None

    def _reads_sums(self, vertex: int, chosen: Mapping[int, str | None], summed: set[int]) -> bool:
        """Whether it reads a sum over the unit, or what ``summed`` ones made of it, which all ranks have."""
        for edge in self.graph.edges_at[vertex]:
            if edge.reader == vertex and not edge.parameter:
                dim, made = chosen.get(edge.source), self.graph.kind_of(edge.source).dims
                is_sum = dim is not None and dim not in made.outputs[edge.source_index]
                if is_sum or edge.source in summed:
                    return True
        return False

    def _first(self, vertex: int, unit: str) -> str | None:
        """The batch, or the first dim that can be cut."""
        dims = search_dims(self.graph.kind_of(vertex).dims)
        return next((dim for dim in dims if self._divides(vertex, dim, unit)), None)


def _tie_order(kind: OperatorKind) -> tuple[str, ...]:
    """The dims of results, then those that are reduced: of a matmul rows, columns, contracted."""
    dims = search_dims(kind.dims)
    made = {dim for names in kind.dims.outputs for dim in names}
    return tuple(sorted(dims, key=lambda dim: dim not in made))
