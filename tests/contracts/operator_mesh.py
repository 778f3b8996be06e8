"""What is done to the cases of operators: their gradients recorded, their values computed on four ranks."""

from __future__ import annotations

import itertools

import numpy as np

from simcluster.layout import Layout, Mesh, Strategy
from simcluster.model import ONE, Region
from tests.contracts.operator_case import WHOLE, type_of

MESH = Mesh.of({"a": 2, "b": 2})
RANKS = range(4)

# -- gradients ------------------------------------------------------------------------------------------


class Recorder:
    """A tape that keeps what is emitted."""

    def __init__(self, types, needed):
        self.types = dict(types)
        self.needed = needed
        self.emitted = []

    def emit(self, suffix, operator, inputs):
        assert all(name in self.types for name in inputs), (
            f"{operator.kind} reads values nobody has: {inputs}"
        )
        names = tuple(f"{suffix}.{index}" for index in range(len(operator.dims().outputs)))
        assert not any(name in self.types for name in names), f"suffix {suffix} is used twice"
        kinds = operator.infer([self.types[name] for name in inputs])
        self.types.update(zip(names, kinds, strict=True))
        self.emitted.append((operator, tuple(inputs), names))
        return names

    def needs_gradient(self, value):
        return value in self.needed


def differentiated(case, needed=None, live=None):
    """The recorder, and the names of the inputs' gradients."""
    inputs = [f"in{index}" for index in range(len(case.inputs))]
    types = dict(zip(inputs, case.types, strict=True))
    kinds = case.operator.infer(case.types)
    outputs = [f"out{index}" for index in range(len(kinds))]
    types.update(zip(outputs, kinds, strict=True))
    live = case.live if live is None else live
    grads = [None] * len(outputs)
    for index in live:
        grads[index] = ONE if case.loss else f"grad{index}"
        types[f"grad{index}"] = kinds[index]
    needed = case.floating if needed is None else needed
    tape = Recorder(types, {f"in{index}" for index in needed})
    found = case.operator.gradient(tape, inputs, outputs, grads)
    assert len(found) == len(inputs)
    return tape, found


def subsets(indices):
    return [
        chosen for count in range(1, len(indices) + 1) for chosen in itertools.combinations(indices, count)
    ]


# -- arrays on the mesh, by plain index arithmetic -------------------------------------------------------


def coordinate(rank: int, axis: str) -> int:
    return rank // 2 if axis == "a" else rank % 2


def position(rank: int, axes: tuple[str, ...]) -> int:
    return sum(coordinate(rank, axis) << (len(axes) - 1 - place) for place, axis in enumerate(axes))


def part(whole, layout: Layout, rank: int):
    for dim, axes in enumerate(layout.dims):
        whole = _with_halo(whole, dim, axes, position(rank, axes), layout)
    return whole


def _with_halo(whole, dim: int, axes, place: int, layout: Layout):
    """Part ``place`` along a dim, with what it reads of its neighbours; halos that add are left out."""
    size = whole.shape[dim] // 2 ** len(axes)
    halo = next((each for each in layout.halos if each.dim == dim and not each.adds), None)
    if halo is None:
        return np.split(whole, 2 ** len(axes), axis=dim)[place]
    margins = [(0, 0)] * whole.ndim
    margins[dim] = (halo.before, halo.after)
    padded = np.pad(whole, margins, constant_values=halo.fill)
    return padded.take(range(place * size, (place + 1) * size + halo.size), axis=dim)


def mates(rank: int, axes) -> list[int]:
    """The ranks that differ from ``rank`` along ``axes`` only."""
    return [
        other
        for other in RANKS
        if all(coordinate(other, axis) == coordinate(rank, axis) for axis in "ab" if axis not in axes)
    ]


def allowed(names, most: int = 2) -> list[Strategy]:
    """All ways to give the axes a and b to these dims: none, one axis, both apart, both on one dim."""
    found = [{}]
    found += [{dim: (axis,)} for dim in names for axis in "ab"]
    if most == 2:
        found += [{dim: axes} for dim in names for axes in (("a", "b"), ("b", "a"))]
        found += [{one: ("a",), two: ("b",)} for one, two in itertools.permutations(names, 2)]
    return [Strategy.of(splits) for splits in found]


def extents(operator, arrays) -> dict[str, int]:
    dims, found = operator.dims(), {}
    made = operator.infer([type_of(array) for array in arrays])
    shapes = [*(array.shape for array in arrays), *(kind.shape for kind in made)]
    steps = {(each.operand, each.dim): each.step for each in dims.windows}
    for operand, (names, shape) in enumerate(zip(dims.inputs + dims.outputs, shapes, strict=True)):
        for name, length in zip(names, shape, strict=True):
            size = length * steps.get((operand, name), 1)
            assert found.setdefault(name, size) == size, f"{name} has two sizes"
    assert found == dims.extents(shapes)
    return found


def fits(strategy: Strategy, extent) -> bool:
    return all(extent[dim] % 2 ** len(axes) == 0 for dim, axes in strategy.splits)


def regions(strategy: Strategy, extent) -> list[Region]:
    sizes = {dim: extent[dim] // 2 ** len(axes) for dim, axes in strategy.splits}
    return [
        Region(
            {dim: position(rank, axes) * sizes[dim] for dim, axes in strategy.splits}, WHOLE.step, sizes=sizes
        )
        for rank in RANKS
    ]


def on_ranks(operator, strategy: Strategy, inputs, masked=()):
    """What every rank computes; ``inputs`` are whole arrays, or one whole array per rank."""
    dims = operator.dims()
    layouts = dims.input_layouts(strategy)
    wholes = [[each] * 4 if isinstance(each, np.ndarray) else each for each in inputs]
    extent = extents(operator, [each[0] for each in wholes])
    made = []
    for rank, region in zip(RANKS, regions(strategy, extent), strict=True):
        arrays = [part(each[rank], layout, rank) for each, layout in zip(wholes, layouts, strict=True)]
        for index, axes in (*dims.masked(strategy), *masked):
            if position(rank, axes):
                arrays[index] = np.zeros_like(arrays[index])
        made.append(operator.evaluate(arrays, region))
    return made


def reduced(values, layout: Layout, rank: int):
    """What a rank holds once the partial values of its group are reduced."""
    reductions = {how for _, how in layout.partial}
    assert len(reductions) < 2
    combine = {"max": np.maximum}.get(next(iter(reductions), "sum"), np.add)
    total = {
        each: combine.reduce([values[other] for other in mates(each, layout.partial_axes)]) for each in RANKS
    }
    for halo in reversed(layout.halos):
        total = {each: _with_terms(total, halo, layout.dims[halo.dim], each) for each in RANKS}
    return total[rank]


def _with_terms(values, halo, axes, rank: int):
    """A rank's own part along a dim, with the terms that its neighbours have for it."""

    def along(start, stop):
        return (slice(None),) * halo.dim + (slice(start, stop),)

    size = values[rank].shape[halo.dim] - halo.size
    found = np.array(values[rank][along(halo.before, halo.before + size)])
    places = {position(other, axes): other for other in mates(rank, axes)}
    place = position(rank, axes)
    if place + 1 in places and halo.before:
        found[along(size - halo.before, size)] += values[places[place + 1]][along(0, halo.before)]
    if place - 1 in places and halo.after:
        found[along(0, halo.after)] += values[places[place - 1]][along(halo.before + size, None)]
    return found


def differences(operator, strategy: Strategy, inputs, expected, passing=(), masked=()) -> list[str]:
    """Where the ranks' results, reduced as their layouts say, are not the parts of the whole results."""
    made = on_ranks(operator, strategy, inputs, masked)
    layouts = operator.dims().output_layouts(strategy, passing)
    assert len(made[0]) == len(layouts) == len(expected)
    found = []
    for index, (layout, whole) in enumerate(zip(layouts, expected, strict=True)):
        values = [outputs[index] for outputs in made]
        for rank in RANKS:
            have, want = reduced(values, layout, rank), part(whole, layout, rank)
            if have.shape != want.shape or not np.allclose(have, want, rtol=1e-9, atol=1e-11):
                found.append(f"{strategy}: output {index} on rank {rank}, laid out {layout}")
    return found
