"""The names of an operator's iteration dims, and the layouts that follow from a strategy.

This is the whole of the layout algebra inside an operator: what a split does to the results, and which
partial sums may pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

from simcluster.deferred_dataclass import dataclass
from simcluster.layout.halo import Halo
from simcluster.layout.layout import Layout
from simcluster.layout.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Window:
    """How an operand lies along an iteration dim over which others slide.

    ``operand`` counts inputs, then outputs. It has one element for every ``step`` of the dim. Where the dim
    is split, an input needs ``before`` and ``after`` elements of the neighbours besides (``fill`` beyond the
    ends), and what an output has there is to be added to the neighbours' own.
    """

    operand: int
    dim: str
    step: int = 1
    before: int = 0
    after: int = 0
    fill: float = 0.0


_no_window = cache(Window)


@dataclass(frozen=True, slots=True)
class Dims:
    """The iteration dims of an operator, einsum-like.

    Where an operator merges or divides dims, the outermost keeps its name with another size, and a split must
    divide both. A split dim that an output does not have, but what it is made of has, is *reduced*: that
    output is partial over the dim's axes, by ``reduction``.
    """

    inputs: tuple[tuple[str, ...], ...]
    """The dims of every input."""
    outputs: tuple[tuple[str, ...], ...]
    """The dims of every output."""
    unsplittable: tuple[tuple[str, str], ...] = ()
    """Dims that may not be split, with the reason."""
    linear: tuple[frozenset[int], ...] = ()
    """The sets of inputs in which the operator is jointly linear."""
    reduction: str = "sum"
    """How partial outputs are put together: sum, max or min."""
    terms: tuple[tuple[frozenset[int], ...], ...] = ()
    """For every output the terms that add up to it, each as the set of its inputs; empty: every output is one
    term of all inputs."""
    windows: tuple[Window, ...] = ()
    """Operands that do not have one element for every element of a dim, or need some of their neighbours."""
    neutral: tuple[tuple[int, float], ...] = ()
    """Inputs with the value at which what stands in a reduced dim adds nothing, whatever the other inputs
    have there. Without it zeros in all inputs do so where the operator is linear, or the least or largest
    number, by the reduction."""
    division_inputs: frozenset[int] = frozenset()
    """Inputs that are divided by: where they are zero, results may be NaN or infinite, whatever is linear."""
    zero_preserving: tuple[tuple[int, frozenset[int]], ...] = ()
    """(output, inputs): outputs that are zero wherever all of these inputs are, though not linear in them."""
    unpaddable: tuple[tuple[str, str], ...] = ()
    """Dims that may not be padded, with the reason."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every iteration dim once, in order of first appearance."""
        return tuple(dict.fromkeys(name for operand in self.inputs + self.outputs for name in operand))

    @property
    def splittable(self) -> tuple[str, ...]:
        """The dims a strategy may split."""
        whole = {name for name, _ in self.unsplittable}
        return tuple(name for name in self.names if name not in whole)

    def input_layouts(self, strategy: Strategy) -> tuple[Layout, ...]:
        """The layout each input must have."""
        return tuple(
            self._with_halos(index, strategy.layout(names), adds=False)
            for index, names in enumerate(self.inputs)
        )

    def _with_halos(self, operand: int, layout: Layout, *, adds: bool) -> Layout:
        if not self.windows:
            return layout
        names = (self.inputs + self.outputs)[operand]
        halos = [
            Halo(names.index(window.dim), window.before, window.after, window.fill, adds)
            for window in self.windows
            if window.operand == operand
        ]
        return layout.with_halos(halos)

    def extents(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """The size of every dim, from the whole shapes of all operands (inputs, then outputs).

        Where operands have a dim in several sizes, as a reshape's, what divides all of them divides their
        common divisor.
        """
        extents: dict[str, int] = {}
        for name, length, window in self._sizes(shapes):
            size = length * window.step
            extents[name] = math.gcd(extents.get(name, size), size)
        return extents

    def misfit(self, dim: str, shapes: Sequence[Sequence[int]], ways: int) -> str:
        """Why windows over ``dim`` forbid a split into so many equal parts, with the arithmetic, or nothing.

        ``shapes`` are those of whole operands.
        """
        if all(along.dim != dim for along in self.windows):
            return ""
        sizes = [(length, window) for name, length, window in self._sizes(shapes) if name == dim]
        size = sizes[0][0] * sizes[0][1].step
        for length, window in sizes:
            if length * window.step != size:
                return (
                    f"{dim} {size} is not a multiple of {window.step}, the step of the windows over it: "
                    f"{size} / {window.step} = {size / window.step:g}"
                )
        for length, window in sizes:
            if length % ways:
                every = f" in steps of {window.step}" if window.step > 1 else ""
                return f"{dim} {size}{every} into {ways} parts: {length} / {ways} = {length / ways:g}"
        reach = max(max(window.before, window.after) for _, window in sizes)
        if reach > size // ways:
            return (
                f"{dim} {size} / {ways} = {size // ways}, but windows reach {reach} beyond a part: "
                f"further than the next rank's"
            )
        return ""

    def _sizes(self, shapes: Sequence[Sequence[int]]) -> Iterator[tuple[str, int, Window]]:
        """Dim, size and window of every dim of every operand."""
        for operand, (names, shape) in enumerate(zip(self.inputs + self.outputs, shapes, strict=True)):
            for name, size in zip(names, shape, strict=True):
                yield name, size, self.window(operand, name)

    def window(self, operand: int, dim: str) -> Window:
        """How an operand, counted over inputs and then outputs, lies along a dim."""
        for window in self.windows:
            if window.operand == operand and window.dim == dim:
                return window
        return _no_window(operand, dim)

    def terms_of(self, output: int) -> tuple[frozenset[int], ...]:
        """The terms that add up to an output, each as the set of its inputs."""
        return self.terms[output] if self.terms else (frozenset(range(len(self.inputs))),)

    def output_layouts(self, strategy: Strategy, passing: Sequence[str] = ()) -> tuple[Layout, ...]:
        """The layout each output gets; ``passing`` are the axes of partial sums let through."""
        layouts = []
        for output, names in enumerate(self.outputs):
            due = [axis for dim, axes in strategy.splits if any(self._reduced(dim, output)) for axis in axes]
            layout = strategy.layout(names).with_partial(due, self.reduction).with_partial(passing)
            layouts.append(self._with_halos(len(self.inputs) + output, layout, adds=True))
        return tuple(layouts)

    def masked(self, strategy: Strategy) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """(input, axes) of terms that a reduced dim does not reach: they count only at coordinate 0.

        Where a sum is split in some of its terms only, every rank has the whole of the others.
        """
        masked = []
        for output in range(len(self.outputs)):
            for dim, axes in strategy.splits:
                reached = self._reduced(dim, output)
                if any(reached):
                    terms = zip(self.terms_of(output), reached, strict=True)
                    masked += [(min(term), axes) for term, has in terms if not has]
        return tuple(masked)

    def _reduced(self, dim: str, output: int) -> list[bool]:
        """For every term of an output, whether it is reduced over ``dim``."""
        if dim in self.outputs[output]:
            return []
        return [any(dim in self.inputs[index] for index in term) for term in self.terms_of(output)]

    def passes(self, axis: str, partial: frozenset[int], strategy: Strategy) -> frozenset[int] | None:
        """The inputs that must join by being zero except at coordinate 0, if a partial sum may pass.

        ``partial`` are the inputs partial over ``axis``. None if it has to be reduced before: the axis is in
        use, or no jointly linear set holds all of them.
        """
        if any(axis in axes for _, axes in strategy.splits):
            return None
        for members in self.linear:
            if partial <= members:
                return members - partial
        return None
