"""Wrong rules of layouts: each changes one function of the algebra, as a slip of the pen would.

They are of the steps of redistribution, of what dims say, and of MindSpore's inference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from simcluster.layout import FLAT, Dims, MovementKind, Strategy, movement
from simcluster.layout import mindspore_redistribution as inference
from simcluster.plan.redistribution import redistribution_planner as redistribute

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Mutant:
    """``owner.name`` becomes what ``change`` makes of it."""

    label: str
    owner: Any
    name: str
    change: Change

    def __str__(self) -> str:
        return self.label


# -- the steps of redistribution ------------------------------------------------------------------------


def steps(change) -> Change:
    """Changes every step that a generator of steps yields: (movement, layout before, reached) -> movement."""

    def mutated(original):
        def generator(layout, *rest):
            for step, reached in original(layout, *rest):
                found = change(step, layout, reached)
                yield found if isinstance(found, tuple) else (found, reached)

        return generator

    return mutated


def of_kind(kind, change):
    """The change of steps of one kind."""
    return steps(lambda step, layout, reached: change(step, layout, reached) if step.kind is kind else step)


def reversed_axes(step, layout, reached):
    return replace(step, axes=step.axes[::-1])


def other_dim(step, layout, reached):
    return step if step.dim == FLAT else replace(step, dim=(step.dim + 1) % len(layout.dims))


def fewer_axes(step, layout, reached):
    """Of several axes only the first, though the layout says all."""
    return replace(step, axes=step.axes[:1])


def outer_for_inner(step, layout, reached):
    """The outermost axes of a dim instead of the innermost."""
    held = layout.dims[step.dim] if step.dim != FLAT else layout.flat
    return replace(step, axes=held[: len(step.axes)])


def cut_not_reduced(step, layout, reached):
    return replace(step, kind=MovementKind.SLICE)


def as_maximum(step, layout, reached):
    return replace(step, reduction="max")


def exchanged_dims(step, layout, reached):
    return replace(step, dim=step.to_dim, to_dim=step.dim)


def other_side(step, layout, reached):
    return replace(step, halo=step.halo[::-1], to_halo=step.to_halo[::-1])


def already_reduced(original):
    """Sums that are due to no one are taken as done."""

    def generator(layout, target):
        yield from original(layout, target)
        for axis, _ in layout.partial:
            if axis not in target.axes:
                left = tuple(item for item in layout.partial if item[0] != axis)
                yield movement.Movement(MovementKind.COPY, ()), replace(layout, partial=left)

    return generator


def gathered_as_sum(step, layout, reached):
    """An all-gather instead of an all-to-all's half: nothing is split."""
    return replace(step, kind=MovementKind.ALL_GATHER)


def used_axes_too(original):
    """Slices over axes that the layout has in use already."""

    def generator(layout, target):
        yield from original(replace(layout, partial=()), target)

    return generator


def corners_left(original):
    """Halos of the next dim are read before those of the dim before are there."""

    def generator(layout, target):
        for step, reached in original(layout, target):
            if (
                step.kind in (MovementKind.NEIGHBOR_EXCHANGE, MovementKind.SHIFT)
                and not layout.has_pending_reduction
            ):
                others = [halo for halo in layout.halos if halo.dim != step.dim]
                if others:
                    yield replace(step, halo=(0, 0), to_halo=(0, 0)), reached
                    continue
            yield step, reached

    return generator


MOVEMENTS = [
    Mutant(label, movement, name, change)
    for label, name, change in [
        ("an all-reduce leaves an axis out", "_reductions", of_kind(MovementKind.ALL_REDUCE, fewer_axes)),
        ("an all-reduce takes the maximum", "_reductions", of_kind(MovementKind.ALL_REDUCE, as_maximum)),
        ("a reduce-scatter only cuts", "_reductions", of_kind(MovementKind.REDUCE_SCATTER, cut_not_reduced)),
        (
            "a reduce-scatter takes the maximum",
            "_reductions",
            of_kind(MovementKind.REDUCE_SCATTER, as_maximum),
        ),
        (
            "a reduce-scatter scatters another dim",
            "_reductions",
            of_kind(MovementKind.REDUCE_SCATTER, other_dim),
        ),
        (
            "a reduce-scatter turns its axes",
            "_reductions",
            of_kind(MovementKind.REDUCE_SCATTER, reversed_axes),
        ),
        ("sums are taken as done", "_reductions", already_reduced),
        ("a gather turns its axes", "_gathers", of_kind(MovementKind.ALL_GATHER, reversed_axes)),
        ("a gather takes the outer axes", "_gathers", of_kind(MovementKind.ALL_GATHER, outer_for_inner)),
        ("a gather joins another dim", "_gathers", of_kind(MovementKind.ALL_GATHER, other_dim)),
        ("a gather leaves an axis out", "_gathers", of_kind(MovementKind.ALL_GATHER, fewer_axes)),
        ("a slice turns its axes", "_slices", of_kind(MovementKind.SLICE, reversed_axes)),
        ("a slice cuts another dim", "_slices", of_kind(MovementKind.SLICE, other_dim)),
        ("a slice cuts what is still partial", "_slices", used_axes_too),
        ("an exchange turns its axes", "_exchanges", of_kind(MovementKind.ALL_TO_ALL, reversed_axes)),
        ("an exchange turns its dims", "_exchanges", of_kind(MovementKind.ALL_TO_ALL, exchanged_dims)),
        ("an exchange is a gather", "_exchanges", of_kind(MovementKind.ALL_TO_ALL, gathered_as_sum)),
        ("halos lie on the other side", "_halo_steps", steps(other_side)),
        ("corners do not travel", "_halo_steps", corners_left),
    ]
]


# -- dims and linearity ---------------------------------------------------------------------------------


def no_partial(original):
    """Results of a reduced dim that is split count as whole."""
    return lambda self, strategy, passing=(): tuple(
        layout.reduced for layout in original(self, strategy, passing)
    )


def always_summed(original):
    """Whatever the reduction is, it is taken for a sum."""

    def layouts(self, strategy, passing=()):
        return original(replace(self, reduction="sum"), strategy, passing)

    return layouts


def passing_forgotten(original):
    return lambda self, strategy, passing=(): original(self, strategy)


def no_halos(original):
    return lambda self, operand, layout, *, adds: layout


def halos_not_owed(original):
    return lambda self, operand, layout, *, adds: (
        layout if adds else original(self, operand, layout, adds=adds)
    )


def axes_turned(original):
    """The axes of a dim lie in an input in another order than the strategy says."""

    def layouts(self, strategy):
        return tuple(
            replace(layout, dims=tuple(axes[::-1] for axes in layout.dims))
            for layout in original(self, strategy)
        )

    return layouts


def one_term(original):
    return lambda self, output: (frozenset(range(len(self.inputs))),)


def nobody_joins(original):
    """Replicated members of a linear set are not masked."""

    def passes(self, axis, partial, strategy):
        return None if original(self, axis, partial, strategy) is None else frozenset()

    return passes


def all_linear(original):
    """Every operator is taken as linear in all its inputs together."""

    def passes(self, axis, partial, strategy):
        whole = replace(self, linear=(frozenset(range(len(self.inputs))),))
        return original(whole, axis, partial, strategy)

    return passes


def each_linear(original):
    """What is linear in several inputs together is taken as linear in each of them alone."""

    def passes(self, axis, partial, strategy):
        apart = tuple(frozenset({index}) for members in self.linear for index in members)
        return original(replace(self, linear=apart), axis, partial, strategy)

    return passes


def used_axes_pass(original):
    return lambda self, axis, partial, strategy: original(self, axis, partial, Strategy())


def nothing_passes(original):
    return lambda self, axis, partial, strategy: None


DIMS = [
    Mutant(label, Dims, name, change)
    for label, name, change in [
        ("a reduced dim leaves no sum", "output_layouts", no_partial),
        ("every reduction is a sum", "output_layouts", always_summed),
        ("sums that pass are forgotten", "output_layouts", passing_forgotten),
        ("windows read no neighbours", "_with_halos", no_halos),
        ("neighbours' terms are not added", "_with_halos", halos_not_owed),
        ("inputs turn the axes of a dim", "input_layouts", axes_turned),
        ("all terms count on every rank", "masked", lambda original: lambda self, strategy: ()),
        ("terms are one", "terms_of", one_term),
        ("replicated members are not masked", "passes", nobody_joins),
        ("linear sets are too large", "passes", all_linear),
        ("each of a linear set is linear alone", "passes", each_linear),
        ("sums pass over axes in use", "passes", used_axes_pass),
    ]
]


# -- MindSpore's inference ------------------------------------------------------------------------------


def sums_forgotten(original):
    def found(start, target, **options):
        made = original(start, target, **options)
        return made and tuple(step for step in made if step[0].kind is not MovementKind.ALL_REDUCE)

    return found


def inferred_steps(change):
    def mutated(original):
        def found(start, target, **options):
            made = original(start, target, **options)
            return made and tuple((change(step, start, reached), reached) for step, reached in made)

        return found

    return mutated


def only(kind, change):
    return lambda step, layout, reached: change(step, layout, reached) if step.kind is kind else step


def units_turned(original):
    return lambda axes, inside: [unit[::-1] for unit in original(axes, inside)]


def exchange_without_split(original):
    def permute(self):
        for dim in self._open():
            unit = self._wanted(dim)
            holder = next((other for other in self._open() if self._extra(other) == unit), None)
            if unit is not None and holder is not None:
                self.now[holder].pop()
                self.now[dim].append(unit)
                self._take(movement.Movement(MovementKind.ALL_GATHER, unit, holder))

    return permute


INFERENCE = [
    Mutant("MindSpore forgets sums", redistribute, "infer_mindspore_sequence", sums_forgotten),
    Mutant(
        "its exchanges turn their dims",
        redistribute,
        "infer_mindspore_sequence",
        inferred_steps(only(MovementKind.ALL_TO_ALL, exchanged_dims)),
    ),
    Mutant(
        "its gathers join another dim",
        redistribute,
        "infer_mindspore_sequence",
        inferred_steps(only(MovementKind.ALL_GATHER, other_dim)),
    ),
    Mutant(
        "its splits cut another dim",
        redistribute,
        "infer_mindspore_sequence",
        inferred_steps(only(MovementKind.SLICE, other_dim)),
    ),
    Mutant("its device dims are turned", inference, "_units", units_turned),
    Mutant("its exchanges only gather", inference._Inference, "_permute", exchange_without_split),
]
