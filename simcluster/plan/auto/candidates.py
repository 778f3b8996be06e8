"""The strategies that an operator could have: MindSpore's enumeration, from its iteration dims and the ranks.

The ranks of a stage are *units*, atomic axes of the mesh, outermost first. Where the mesh gives a stage
several axes, these are the units, and every dim may be split over any of them. Where it gives it one, the
scenario leaves it to the search how ranks are arranged: the axis is cut into prime factors (of MindSpore's
powers of two halves), and candidates are MindSpore's device matrices: numbers of parts by dim, the batch
outermost and the other dims in the order of the operands (of a matmul batch, rows, contracted, columns),
ranks that are left over on the left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims, Mesh, Strategy, SubAxis, spans, unsplit_mesh, whole
from simcluster.plan.auto.operator_graph import OperatorKind
from simcluster.plan.rules import BATCH, SEQ

_ALIGNED = "matmul"


@dataclass(frozen=True, slots=True)
class SearchMesh:
    """The ranks of a stage as units that strategies give to dims."""

    mesh: Mesh
    """The mesh, in which every unit is an axis."""
    units: tuple[str, ...]
    """The axes with several ranks within a stage, outermost first."""
    free: bool
    """Whether the scenario leaves the arrangement of ranks to the search."""
    context: tuple[str, ...] = ()
    """Axes that split sequences, in every operator that has some: the plan says so, they are not searched."""

    @classmethod
    def of(cls, mesh: Mesh, stage_axis: str, context: Sequence[str] = ()) -> SearchMesh:
        """The units of a mesh that is cut for them."""
        several = [name for name, size in mesh.axes if size > 1]
        units = tuple(name for name in several if name != stage_axis and name not in context)
        sequence = tuple(name for name in context if name in several)
        return cls(mesh, units, leaves_mesh_free(mesh, stage_axis, sequence), sequence)

    @property
    def devices(self) -> int:
        """The ranks of a stage."""
        return self.mesh.product(self.units + self.context)

    def given(self, kind: OperatorKind) -> dict[str, list[str]]:
        """Dim -> axes that split it, whatever the search decides of an operator."""
        return {SEQ: list(self.context)} if self.context and SEQ in kind.dims.names else {}

    def given_ways(self, kind: OperatorKind) -> dict[str, int]:
        """Dim -> the parts that it is in already."""
        return {dim: self.mesh.product(axes) for dim, axes in self.given(kind).items()}

    def sizes(self) -> tuple[int, ...]:
        """The ranks along every unit."""
        return tuple(map(self.mesh.size, self.units))


@dataclass(frozen=True, slots=True)
class CandidateRules:
    """Which strategies are looked at."""

    fully_use_devices: bool = True
    """Only those over all devices of the stage, or over as many as the operator can be split over."""
    slice_multiple: int = 1
    """Of matmuls, elements that the last dim of every slice is a multiple of, if the whole one is."""


def leaves_mesh_free(mesh: Mesh, stage_axis: str, context: Sequence[str] = ()) -> bool:
    """Whether a mesh, as the user wrote it, says no more of a stage than how many ranks it has, but for axes
    of ``context``.
    """
    said = {stage_axis, *map(whole, context)}
    return sum(size > 1 for name, size in unsplit_mesh(mesh).axes if name not in said) <= 1


def unit_sub_axes(mesh: Mesh, stage_axis: str, context: Sequence[str] = ()) -> list[SubAxis]:
    """The prime factors of what a mesh, cut as far as written strategies need it, leaves to the search."""
    if not leaves_mesh_free(mesh, stage_axis, context):
        return []
    units: list[SubAxis] = []
    for name, span in spans(mesh, stage_axis):
        if name in context:
            continue
        stride = span.stride
        for factor in _prime_factors(span.size):
            units.append(SubAxis(stride, factor))
            stride *= factor
    return units


def split_refusal(kind: OperatorKind, ways: Mapping[str, int], rules: CandidateRules) -> bool:
    """Whether an operator cannot have its dims in so many equal parts.

    Dims along which parts would need elements of their neighbours are left to the user, as in MindSpore's
    convolutions.
    """
    dims, shapes = kind.dims, kind.shapes
    extents = dims.extents(shapes)
    split = {dim: count for dim, count in ways.items() if count > 1}
    if any(extents[dim] % count for dim, count in split.items()):
        return True
    if any(window.dim in split and (window.before or window.after) for window in dims.windows):
        return True
    if dims.windows and any(dims.misfit(dim, shapes, count) for dim, count in split.items()):
        return True
    barred = frozenset(dim for dim, _ in dims.unsplittable if dim in split)
    if barred and kind.operator.decompose(barred) is None:
        return True
    if rules.slice_multiple > 1 and kind.family == _ALIGNED:
        return any(
            shape[-1] % rules.slice_multiple == 0 and shape[-1] // split[names[-1]] % rules.slice_multiple
            for names, shape in zip(dims.inputs + dims.outputs, shapes, strict=True)
            if names and names[-1] in split
        )
    return False


def search_dims(dims: Dims) -> tuple[str, ...]:
    """The dims in the order of a device matrix: the batch first, others as operands have them."""
    return tuple(sorted(dims.names, key=lambda dim: dim != BATCH))


def splittable_dims(kind: OperatorKind, search_mesh: SearchMesh, rules: CandidateRules) -> tuple[str, ...]:
    """The dims that some unit can split, in the order of a device matrix."""
    counts, given = set(search_mesh.sizes()), search_mesh.given_ways(kind)
    return tuple(
        dim
        for dim in search_dims(kind.dims)
        if any(not split_refusal(kind, {**given, dim: given.get(dim, 1) * count}, rules) for count in counts)
    )


def candidate_strategies(
    kind: OperatorKind, search_mesh: SearchMesh, rules: CandidateRules
) -> tuple[Strategy, ...]:
    """The strategies of an operator, those that split its first dims most before others.

    A strategy that the user wrote is the only one. There always is one: that which splits nothing.
    """
    if kind.fixed is not None:
        return (kind.fixed,)
    dims = splittable_dims(kind, search_mesh, rules)
    arrange = _device_matrices if search_mesh.free else _assignments
    sizes = search_mesh.sizes()
    made: dict[Strategy, int] = {}
    for places in arrange(len(search_mesh.units), len(dims)):
        ways, split = search_mesh.given_ways(kind), search_mesh.given(kind)
        for unit, size, place in zip(search_mesh.units, sizes, places, strict=True):
            if place is not None:
                ways[dims[place]] = ways.get(dims[place], 1) * size
                split.setdefault(dims[place], []).append(unit)
        if not split_refusal(kind, ways, rules):
            made.setdefault(Strategy.of(split), math.prod(ways.values()))
    if rules.fully_use_devices:
        most = max(made.values())
        return tuple(strategy for strategy, used in made.items() if used == most)
    return tuple(made)


Places = Sequence[int | None]
"""For every unit the index of the dim that it splits, or None."""


def _device_matrices(num_units: int, num_dims: int) -> Iterator[Places]:
    """Runs of units for the dims in order, behind a run that splits nothing."""

    def runs(left: int, dim: int) -> Iterator[tuple[int | None, ...]]:
        if dim == num_dims:
            if left == 0:
                yield ()
            return
        for count in range(left, -1, -1):
            for others in runs(left - count, dim + 1):
                yield (*(dim,) * count, *others)

    for unused in range(num_units + 1):
        for places in runs(num_units - unused, 0):
            yield (*(None,) * unused, *places)


def _assignments(num_units: int, num_dims: int) -> Iterator[Places]:
    """Every unit to any dim or to none."""
    return product((*range(num_dims), None), repeat=num_units)


def _prime_factors(number: int) -> list[int]:
    factors: list[int] = []
    divisor = 2
    while number > 1:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return factors
