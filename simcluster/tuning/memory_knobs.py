"""The knobs of a scenario that save memory, and how far one must be turned for the plan to fit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.registry import kinds
from simcluster.scenario import Scenario
from simcluster.tuning.knobs import Changes, Knob, KnobPurpose
from simcluster.tuning.searches import bisect, try_in_order
from simcluster.tuning.trials import Trial, Trials


@dataclass(frozen=True, slots=True)
class OpenKnob:
    """A knob with the turns that a plan leaves; ``uneven``: it may save less when turned further."""

    kind: str
    turns: tuple[Changes, ...]
    uneven: bool = False


def open_knobs(scenario: Scenario, plan: Mapping[str, Any]) -> list[OpenKnob]:
    """The knobs of a plan that save memory, in the order of trials; ``plan`` is its document."""
    trained = scenario.spec.training is not None
    knobs = [
        OpenKnob(kind, tuple(knob().turns(scenario, plan)), knob.uneven)
        for kind, knob in kinds("simcluster.tuning.knobs", Knob).items()
        if KnobPurpose.MEMORY in knob.serves and (trained or not knob.of_training)
    ]
    return [knob for knob in knobs if knob.turns]


def nearest_change(trials: Trials, knob: OpenKnob) -> Trial:
    """The smallest turn of a knob that fits: by bisection if the last one does, of uneven knobs in order.

    Where none fits, of those that are possible the last, and of an uneven knob the one that lacks least.
    """

    @cache
    def turned(number: int) -> Trial:
        return trials.run((knob.kind,), knob.turns[number])

    if knob.uneven:
        return min(try_in_order(map(turned, range(len(knob.turns)))), key=lambda trial: trial.nearness)
    # A turn less may be possible where the last is not.
    last = next((number for number in range(len(knob.turns) - 1, 0, -1) if not turned(number).refused), 0)
    if not turned(last).fits:
        return turned(last)
    return turned(last + 1 - bisect(0, last + 1, lambda fewer: not turned(last - fewer).fits))
