"""What of a scenario can be changed to save memory, and how far it must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simcluster.registry import kinds
from simcluster.scenario import Scenario
from simcluster.tuning.bisection import bisect
from simcluster.tuning.knobs import Changes, Knob
from simcluster.tuning.scenario_trial import Trial, Trials


@dataclass(frozen=True, slots=True)
class OpenKnob:
    """A knob that a plan leaves something to turn at; ``uneven``: it may save less when turned further."""

    kind: str
    turns: tuple[Changes, ...]
    uneven: bool = False


def open_knobs(scenario: Scenario, plan: Mapping[str, Any]) -> list[OpenKnob]:
    """The knobs of a plan, in the order in which they are tried; ``plan`` is its document."""
    trained = scenario.spec.training is not None
    knobs = [
        OpenKnob(kind, tuple(knob().turns(scenario, plan)), knob.uneven)
        for kind, knob in kinds("simcluster.tuning.knobs", Knob).items()
        if trained or not knob.of_training
    ]
    return [knob for knob in knobs if knob.turns]


def nearest_change(trials: Trials, knob: OpenKnob) -> Trial:
    """The smallest turn of a knob that fits: by bisection if the last one does, of uneven knobs in order.

    Where none fits, of those that are possible the last, and of an uneven knob the one that lacks least.
    """

    def turned(number: int) -> Trial:
        return trials.run((knob.kind,), knob.turns[number])

    if knob.uneven:
        tried = []
        for number in range(len(knob.turns)):
            tried.append(turned(number))
            if tried[-1].fits:
                return tried[-1]
        return min(tried, key=lambda trial: trial.nearness)
    last = len(knob.turns) - 1
    best = turned(last)
    # A turn less may be possible where the last is not.
    while best.refused and last:
        last -= 1
        best = turned(last)
    if not best.fits:
        return best
    fitting = {0: best}

    def too_few(left_out: int) -> bool:
        trial = turned(last - left_out)
        if trial.fits:
            fitting[left_out] = trial
        return not trial.fits

    return fitting[bisect(0, last + 1, too_few) - 1]
