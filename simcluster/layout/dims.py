"""The names of an operator's iteration dims, and the layouts that follow from a strategy.

This is the whole of the layout algebra inside an operator: what a split does to the results, and which
partial sums may pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simcluster.layout.layout import Layout
from simcluster.layout.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Dims:
    """The iteration dims of an operator, einsum-like.

    ``inputs`` and ``outputs`` name the dims of every operand; where an operator merges or divides dims, the
    outermost keeps its name with another size, and a split must divide both. A split dim that an output does
    not have, but what it is made of has, is *reduced*: that output is partial over the dim's axes, by
    ``reduction``.
    ``whole`` dims may not be split, with the reason. ``linear`` are the sets of inputs in which the operator
    is jointly linear. ``terms`` gives for every output the terms that add up to it, each as the set of its
    inputs; if empty, every output is one term of all inputs.
    """

    inputs: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, ...], ...]
    whole: tuple[tuple[str, str], ...] = ()
    linear: tuple[frozenset[int], ...] = ()
    reduction: str = "sum"
    terms: tuple[tuple[frozenset[int], ...], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every iteration dim once, in order of first appearance."""
        return tuple(dict.fromkeys(name for operand in self.inputs + self.outputs for name in operand))

    @property
    def splittable(self) -> tuple[str, ...]:
        """The dims a strategy may split."""
        whole = {name for name, _ in self.whole}
        return tuple(name for name in self.names if name not in whole)

    def input_layouts(self, strategy: Strategy) -> tuple[Layout, ...]:
        """The layout each input must have."""
        return tuple(strategy.layout(names) for names in self.inputs)

    def terms_of(self, output: int) -> tuple[frozenset[int], ...]:
        """The terms that add up to an output, each as the set of its inputs."""
        return self.terms[output] if self.terms else (frozenset(range(len(self.inputs))),)

    def output_layouts(self, strategy: Strategy, passing: Sequence[str] = ()) -> tuple[Layout, ...]:
        """The layout each output gets; ``passing`` are the axes of partial sums let through."""
        found = []
        for output, names in enumerate(self.outputs):
            due = [axis for dim, axes in strategy.splits if any(self._reduced(dim, output)) for axis in axes]
            layout = strategy.layout(names).with_partial(due, self.reduction)
            found.append(layout.with_partial(passing))
        return tuple(found)

    def masked(self, strategy: Strategy) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """(input, axes) of terms that a reduced dim does not reach: they count only at coordinate 0.

        Where a sum is split in some of its terms only, every rank has the whole of the others.
        """
        found = []
        for output in range(len(self.outputs)):
            for dim, axes in strategy.splits:
                reached = self._reduced(dim, output)
                if any(reached):
                    terms = zip(self.terms_of(output), reached, strict=True)
                    found += [(min(term), axes) for term, has in terms if not has]
        return tuple(found)

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
