"""The step with every kind of figures of the cluster better, and worse, by the same share."""

from __future__ import annotations

from collections.abc import Callable

from simcluster.cluster import ClusterScale, HardwareFigure, figures_of
from simcluster.deferred_dataclass import dataclass
from simcluster.program import InstructionKind
from simcluster.simulation import BuiltScenario, scaled_step

BY = 0.1
"""By how much figures are better or worse, unless said otherwise."""

LEAST_EFFECT = 0.0005
"""The share of a step below which an effect counts as none."""


@dataclass(frozen=True, slots=True)
class FigureEffect:
    """What a step takes with a kind of figures ``better`` or ``worse``, and as they are (``present``), in
    seconds.
    """

    figure: HardwareFigure
    present: float
    better: float
    worse: float

    @property
    def gain(self) -> float:
        """What better figures change, as a share of the step; below zero: it gets shorter."""
        return self.better / self.present - 1

    @property
    def loss(self) -> float:
        """What worse figures change, likewise."""
        return self.worse / self.present - 1

    @property
    def swing(self) -> float:
        """How far apart both are, as a share of the step."""
        return abs(self.loss - self.gain)

    @property
    def matters(self) -> bool:
        """Whether it changes anything worth telling."""
        return max(abs(self.gain), abs(self.loss)) >= LEAST_EFFECT


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A scenario's step, of inference its whole answer (``present`` seconds), and what figures better and
    worse ``by`` a share make of it: ``effects``, those with the largest swing first.
    """

    name: str
    what: str
    present: float
    by: float
    effects: tuple[FigureEffect, ...]

    @property
    def mattering(self) -> list[FigureEffect]:
        """The effects that are worth telling."""
        return [effect for effect in self.effects if effect.matters]


def figures_that_matter(built: BuiltScenario) -> list[HardwareFigure]:
    """The figures of its cluster that a scenario may depend on: disks only if something is copied."""
    copies = any(
        instruction.action is InstructionKind.COPY
        for tenant in (built, *built.tenants)
        for code in tenant.program.codes
        for instruction in code.instructions
    )
    return [figure for figure in figures_of(built.cluster) if copies or figure is not HardwareFigure.DISKS]


def better_steps(
    built: BuiltScenario, by: float = BY, watch: Callable[[HardwareFigure], None] | None = None
) -> dict[HardwareFigure, float]:
    """Seconds of a step with every kind of figures better, one at a time, as ``what_if`` has them."""
    steps = {}
    for figure in figures_that_matter(built):
        if watch is not None:
            watch(figure)
        steps[figure] = scaled_step(built, ClusterScale(figure, 1 + by))
    return steps


def what_if(
    built: BuiltScenario, by: float = BY, watch: Callable[[HardwareFigure], None] | None = None
) -> WhatIf:
    """Times a planned scenario with every kind of figures of its cluster better and worse by a share.

    Rates are multiplied with 1 + ``by`` or divided by it; latencies and launches, which are times, the other
    way around. Everything else stays, the plan too: only which algorithm a library chooses for a collective
    follows the figures. ``watch`` is called with each before it is tried. ValueError for a share that is not
    above zero.
    """
    if by <= 0:
        raise ValueError("a figure that is no better is none to try")
    present = scaled_step(built, ClusterScale(HardwareFigure.COMPUTE, 1.0))
    effects = [
        FigureEffect(figure, present, better, scaled_step(built, ClusterScale(figure, 1 / (1 + by))))
        for figure, better in better_steps(built, by, watch).items()
    ]
    effects.sort(key=lambda effect: -effect.swing)
    what = "answer" if built.plan.pipeline.generation is not None else "step"
    return WhatIf(built.scenario.name, what, present, by, tuple(effects))
