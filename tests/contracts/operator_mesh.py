"""Operators on the ranks of a mesh: every strategy there is, and what each rank computes of it.

Parts and groups are found by plain index arithmetic, independent of the package's own.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simcluster.layout import Layout, Mesh, Strategy
from simcluster.model import Region
from tests.contracts.operator_case import WHOLE, type_of


def allowed(names, mesh: Mesh, without: str = "") -> list[Strategy]:
    """All ways to give axes to these dims: every axis to a dim or to none, several on a dim in any order."""
    axes = [axis for axis in mesh.names if axis != without]
    found = []
    for chosen in itertools.product((None, *names), repeat=len(axes)):
        on = {dim: [axis for axis, to in zip(axes, chosen, strict=True) if to == dim] for dim in names}
        orders = [itertools.permutations(each) for each in on.values()]
        found += [Strategy.of(dict(zip(on, each, strict=True))) for each in itertools.product(*orders)]
    return found


def extents(operator, arrays, resized=frozenset()) -> dict[str, int]:
    """Dim -> its size; where operands have a ``resized`` dim in several sizes, their common divisor.

    An operand with one element for several of a dim counts as many times as it has.
    """
    dims, found = operator.dims(), {}
    made = operator.infer([type_of(array) for array in arrays])
    operands = [*(array.shape for array in arrays), *(kind.shape for kind in made)]
    steps = {(each.operand, each.dim): each.step for each in dims.windows}
    for operand, (names, shape) in enumerate(zip(dims.inputs + dims.outputs, operands, strict=True)):
        for name, length in zip(names, shape, strict=True):
            size = length * steps.get((operand, name), 1)
            assert found.setdefault(name, size) == size or name in resized, f"{name} has two sizes"
            found[name] = math.gcd(found[name], size)
    return found


@dataclass(frozen=True)
class Ranks:
    """The ranks of a mesh, row-major."""

    mesh: Mesh

    def __str__(self) -> str:
        return "x".join(str(size) for _, size in self.mesh.axes)

    @cached_property
    def coordinates(self) -> list[dict[str, int]]:
        """Of every rank, its coordinate along every axis."""
        every = itertools.product(*(range(size) for _, size in self.mesh.axes))
        return [dict(zip(self.mesh.names, each, strict=True)) for each in every]

    def __len__(self) -> int:
        return len(self.coordinates)

    def ways(self, axes) -> int:
        return math.prod(dict(self.mesh.axes)[axis] for axis in axes)

    def position(self, rank: int, axes) -> int:
        found = 0
        for axis in axes:
            found = found * dict(self.mesh.axes)[axis] + self.coordinates[rank][axis]
        return found

    def part(self, whole, layout: Layout, rank: int):
        for dim, axes in enumerate(layout.dims):
            if axes:
                whole = self._part_along(whole, dim, layout, rank)
        return whole

    def _part_along(self, whole, dim: int, layout: Layout, rank: int):
        """A part with what it reads of its neighbours; halos that are owed are left out."""
        ways, place = self.ways(layout.dims[dim]), self.position(rank, layout.dims[dim])
        halo = next((each for each in layout.halos if each.dim == dim and not each.adds), None)
        if halo is None:
            size, lost = divmod(whole.shape[dim], ways)
            assert not lost
            return whole[(slice(None),) * dim + (slice(place * size, (place + 1) * size),)]
        margins = [(0, 0)] * whole.ndim
        margins[dim] = (halo.before, halo.after)
        size = whole.shape[dim] // ways
        padded = np.pad(whole, margins, constant_values=halo.fill)
        return padded.take(range(place * size, (place + 1) * size + halo.before + halo.after), axis=dim)

    def mates(self, rank: int, axes) -> list[int]:
        """The ranks that differ from ``rank`` along ``axes`` only."""
        mine = self.coordinates[rank]
        rest = [axis for axis in self.mesh.names if axis not in axes]
        return [
            other
            for other, each in enumerate(self.coordinates)
            if all(each[axis] == mine[axis] for axis in rest)
        ]

    # -- strategies -------------------------------------------------------------------------------------

    def legal(self, operator, names, arrays, resized=frozenset(), without: str = "") -> list[Strategy]:
        """The strategies over these dims whose sizes divide."""
        extent = extents(operator, arrays, resized)
        return [each for each in allowed(names, self.mesh, without) if self.fits(each, extent)]

    def different(self, strategies) -> list[Strategy]:
        """One strategy for every number of ways by dim: which axes they are decides no work."""
        found = {}
        for each in strategies:
            found.setdefault(tuple((dim, self.ways(axes)) for dim, axes in each.splits), each)
        return list(found.values())

    def fits(self, strategy: Strategy, extent) -> bool:
        return all(extent[dim] % self.ways(axes) == 0 for dim, axes in strategy.splits)

    # -- values -----------------------------------------------------------------------------------------

    def regions(self, strategy: Strategy, extent) -> list[Region]:
        sizes = {dim: extent[dim] // self.ways(axes) for dim, axes in strategy.splits}
        return [
            Region(
                {dim: self.position(rank, axes) * sizes[dim] for dim, axes in strategy.splits},
                WHOLE.step,
                sizes=sizes,
            )
            for rank in range(len(self))
        ]

    def made(self, operator, strategy: Strategy, inputs, masked=(), resized=frozenset()):
        """What every rank computes; ``inputs`` are whole arrays, or one whole array per rank.

        Ranks with the same parts of the same arrays compute the same, so one computes for all of them.
        """
        dims = operator.dims()
        layouts = dims.input_layouts(strategy)
        alike = all(isinstance(each, np.ndarray) for each in inputs)
        wholes = [[each] * len(self) if isinstance(each, np.ndarray) else each for each in inputs]
        extent = extents(operator, [each[0] for each in wholes], resized)
        zeroed = (*dims.masked(strategy), *masked)
        done, found = {}, []
        for rank, region in enumerate(self.regions(strategy, extent)):
            silent = tuple(index for index, axes in zeroed if self.position(rank, axes))
            key = (tuple(region.starts.items()), silent) if alike else rank
            if key not in done:
                arrays = [
                    self.part(each[rank], layout, rank) for each, layout in zip(wholes, layouts, strict=True)
                ]
                for index in silent:
                    arrays[index] = np.zeros_like(arrays[index])
                done[key] = operator.evaluate(arrays, region)
            found.append(done[key])
        return found

    def reduced(self, values, layout: Layout, rank: int):
        """What a rank holds once the partial values of its group are reduced."""
        reductions = {how for _, how in layout.partial}
        assert len(reductions) < 2
        combine = {"max": np.maximum, "min": np.minimum, "logsumexp": np.logaddexp}.get(
            next(iter(reductions), "sum"), np.add
        )

        def own(each: int):
            return combine.reduce([values[other] for other in self.mates(each, layout.partial_axes)])

        if not layout.halos:
            return own(rank)
        totals = {each: own(each) for each in range(len(self))}
        for halo in layout.halos:
            totals = {each: self._with_terms(totals, halo, layout, each) for each in totals}
        return totals[rank]

    def _with_terms(self, values, halo, layout: Layout, rank: int):
        """A rank's own part along a dim, with the terms that its neighbours have for it."""
        axes = layout.dims[halo.dim]
        beside = {self.position(other, axes): values[other] for other in self.mates(rank, axes)}
        place = self.position(rank, axes)
        size = values[rank].shape[halo.dim] - halo.before - halo.after

        def along(start, stop):
            return (slice(None),) * halo.dim + (slice(start, stop),)

        found = np.array(values[rank][along(halo.before, halo.before + size)])
        if place + 1 in beside:
            found[along(size - halo.before, size)] += beside[place + 1][along(0, halo.before)]
        if place - 1 in beside:
            found[along(0, halo.after)] += beside[place - 1][along(halo.before + size, None)]
        return found

    def differences(
        self, operator, strategy: Strategy, inputs, expected, passing=(), masked=(), resized=frozenset()
    ) -> list[str]:
        """Where the ranks' results, reduced as their layouts say, are not the parts of the whole results."""
        made = self.made(operator, strategy, inputs, masked, resized)
        layouts = operator.dims().output_layouts(strategy, passing)
        assert len(made[0]) == len(layouts) == len(expected)
        found = []
        for index, (layout, whole) in enumerate(zip(layouts, expected, strict=True)):
            values = [outputs[index] for outputs in made]
            for rank in range(len(self)):
                have, want = self.reduced(values, layout, rank), self.part(whole, layout, rank)
                if have.shape != want.shape or not are_close(have, want):
                    found.append(
                        f"{operator.kind} on {self} ranks, {strategy}: output {index} on rank {rank}, "
                        f"laid out {layout}"
                    )
        return found


def are_close(have, want) -> bool:
    """Most are equal, which is seen sooner."""
    return np.array_equal(have, want) or np.allclose(have, want, rtol=1e-9, atol=1e-11)


PAIR = Ranks(Mesh.of({"a": 2, "b": 2}))
"""Two axes: enough to see what a split does beside another."""

SMALL = (Ranks(Mesh.of({"a": 4})), PAIR)
"""Meshes of 4 ranks: every layout is tried everywhere. Those of 2 are those of the pair that use one axis."""

LARGE = tuple(Ranks(Mesh.of(sizes)) for sizes in ({"a": 8}, {"a": 2, "b": 4}, {"a": 2, "b": 2, "c": 2}))
"""Meshes of 8 ranks: every layout is tried in exhaustive runs, a twentieth of them in thorough ones."""


def twentieth(strategies, label: str) -> list[Strategy]:
    """A twentieth of the strategies, rounded up, the same for one label."""
    return random.Random(label).sample(strategies, -(-len(strategies) // 20))
