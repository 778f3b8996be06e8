"""Operators on ranks over which their dims do not divide, with the worst that padding may hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simcluster.layout import Mesh, Strategy, needed_padding, padding_refusal, zero_padding
from simcluster.model import Region
from tests.contracts.operator_case import WHOLE, type_of
from tests.contracts.operator_checks import gradient_values, inherited, upstream_of
from tests.contracts.operator_mesh import Ranks, allowed, are_close, extents
from tests.contracts.operator_tape import differentiated

FEW = Ranks(Mesh.of({"a": 3}))
"""Sizes of cases mostly divide by 4: over 3 ranks they do not, and one or the other holds only padding."""

UNEVEN = tuple(Ranks(Mesh.of(sizes)) for sizes in ({"a": 3, "b": 2}, {"a": 2, "b": 3}))
"""Two axes: dims split over both, unevenly over the outer, the inner or all, and two dims at once."""


@dataclass(frozen=True)
class Findings:
    """What was wrong, what was refused and why, and how many splits were tried."""

    wrong: list[str]
    refused: dict[str, str]
    tried: int


@dataclass(frozen=True)
class Run:
    """The part of a dim that a rank has: where it begins, its true elements, and its length with padding."""

    start: int
    true: range
    length: int


def runs(size: int, ways) -> list[Run]:
    """Every part of a dim that is split in turn, outermost first."""
    parts = [Run(0, range(size), size)]
    for count in ways:
        found = []
        for part in parts:
            length = math.ceil(part.length / count)
            for index in range(count):
                start = part.start + index * length
                true = [each for each in part.true if start <= each < start + length]
                found.append(Run(start, range(start, start + len(true)), length))
        parts = found
    return parts


def operators(case):
    """The operator and those of its gradient, each with whole inputs; primitives of what is decomposed."""
    steps = [(case.operator, case.inputs)]
    if case.live is not None:
        tape, _ = differentiated(case)
        values = gradient_values(case, tape, upstream_of(case, case.live, np.random.default_rng(1)))
        steps += [(operator, tuple(values[name] for name in reads)) for operator, reads, _ in tape.emitted]
    return steps


def primitives(operator, inputs, split):
    """The primitives of an operator where these of its dims are split, with whole inputs."""
    values = {f"in{index}": array for index, array in enumerate(inputs)}
    for _, part, reads, outputs in operator.decompose(split).parts:
        arrays = tuple(values[name] for name in reads)
        values.update(zip(outputs, part.evaluate(arrays, WHOLE), strict=True))
        yield part, arrays


def findings(case, ranks: Ranks) -> Findings:
    """Every split of a case's dims, and of those it is decomposed for, that does not divide."""
    wrong, refused, tried = [], {}, 0
    for operator, inputs in operators(case):
        dims = operator.dims()
        able = [
            dim
            for dim in dims.names
            if dim in dims.splittable or operator.decompose(frozenset({dim})) is not None
        ]
        for strategy in dict.fromkeys(inherited(operator, each) for each in allowed(able, ranks.mesh)):
            barred = {dim for dim, _ in dims.unsplittable}
            split = frozenset(dim for dim, _ in strategy.splits if dim in barred)
            if split and operator.decompose(split) is None:
                continue
            parts = list(primitives(operator, inputs, split)) if split else [(operator, inputs)]
            for part, arrays in parts:
                found = one(part, arrays, inherited(part, strategy), ranks, case.resized)
                tried += found.tried
                wrong += found.wrong
                refused |= found.refused
    return Findings(wrong, refused, tried)


def one(operator, inputs, strategy: Strategy, ranks: Ranks, resized) -> Findings:
    """One operator under one strategy: right, whatever stands in padding; and zero where that is promised."""
    dims = operator.dims()
    extent = extents(operator, inputs, resized)
    padded = [dim for dim, axes in strategy.splits if extent[dim] % ranks.ways(axes)]
    layouts = (*dims.input_layouts(strategy), *dims.output_layouts(strategy))
    if not padded or any(layout.halos for layout in layouts):
        return Findings([], {}, 0)
    whole = operator.evaluate(inputs, WHOLE)
    floating = [type_of(each).dtype.is_float for each in inputs]
    reason = padding_refusal(dims, padded, [each.shape for each in (*inputs, *whole)])
    fills = reason or needed_padding(dims, padded, floating)
    if isinstance(fills, str):
        return Findings([], {f"{operator.kind} {', '.join(padded)}": fills}, 1)
    wrong = []
    for poison in (math.nan, 0.0):
        zero = [() if poison or any(fill.values()) else dims.names for fill in fills]
        promised = zero_padding(dims, padded, floating, zero)
        made = made_by(operator, inputs, strategy, ranks, extent, fills, poison)
        for index, layout in enumerate(dims.output_layouts(strategy)):
            values = [outputs[index] for outputs in made]
            own = {dim: dims.outputs[index].index(dim) for dim in promised[index]}
            for rank in range(len(ranks)):
                label = f"{operator} on {ranks} ranks, {strategy}, padding {poison}: output {index} of {rank}"
                have = ranks.reduced(values, layout, rank)
                parts = parts_of(whole[index].shape, layout, ranks, rank)
                if have.shape != tuple(part.length for part in parts):
                    wrong.append(f"{label} has shape {have.shape}")
                    continue
                true = have[tuple(slice(len(part.true)) for part in parts)]
                want = whole[index][np.ix_(*(part.true for part in parts))]
                if not are_close(true, want):
                    wrong.append(label)
                for dim, place in own.items():
                    beyond = have.take(range(len(parts[place].true), parts[place].length), axis=place)
                    if beyond.any():
                        wrong.append(f"{label} is not zero in the padding of {dim}")
    return Findings(wrong, {}, 1)


def parts_of(shape, layout, ranks: Ranks, rank: int) -> list[Run]:
    """The part of every dim of a tensor that a rank has."""
    sizes = dict(ranks.mesh.axes)
    return [
        runs(size, [sizes[axis] for axis in axes])[ranks.position(rank, axes)]
        for size, axes in zip(shape, layout.dims, strict=True)
    ]


def made_by(operator, inputs, strategy: Strategy, ranks: Ranks, extent, fills, poison):
    """What every rank computes of its padded parts."""
    dims = operator.dims()
    layouts = dims.input_layouts(strategy)
    names, found = [dim for dim, _ in strategy.splits], []
    for rank in range(len(ranks)):
        own = parts_of([extent[dim] for dim in names], strategy.layout(names), ranks, rank)
        region = Region(
            {dim: part.start for dim, part in zip(names, own, strict=True)},
            WHOLE.step,
            sizes={dim: part.length for dim, part in zip(names, own, strict=True)},
            kept={dim: len(part.true) for dim, part in zip(names, own, strict=True)},
        )
        arrays = []
        for whole, labels, layout, fill in zip(inputs, dims.inputs, layouts, fills, strict=True):
            parts = parts_of(whole.shape, layout, ranks, rank)
            value = poison if whole.dtype.kind == "f" else whole.max()
            array = np.full([part.length for part in parts], value, dtype=whole.dtype)
            for dim, needs in fill.items():
                place = labels.index(dim)
                array[(slice(None),) * place + (slice(len(parts[place].true), None),)] = needs
            true = tuple(slice(len(part.true)) for part in parts)
            array[true] = whole[np.ix_(*(part.true for part in parts))]
            arrays.append(array)
        for index, axes in dims.masked(strategy):
            if ranks.position(rank, axes):
                arrays[index] = np.zeros_like(arrays[index])
        with np.errstate(all="ignore"):
            found.append(operator.evaluate(arrays, region))
    return found
