"""The knobs that a run gives a reason to turn."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass
from simcluster.registry import kinds
from simcluster.tuning.knobs import Knob, KnobPurpose, PresentRun
from simcluster.tuning.memory_knobs import OpenKnob


@dataclass(frozen=True, slots=True)
class ReasonedKnob:
    """A knob with what it can change, why the run asks for it, and who advises so.

    ``nearest``: it is turned as little as the plan needs to fit; otherwise every turn is worth a trial.
    ``stake``: the share of the step that is lost to what it is about.
    """

    knob: OpenKnob
    why: str
    source: str
    nearest: bool = False
    stake: float = 0.0


def reasoned_knobs(present: PresentRun) -> list[ReasonedKnob]:
    """The knobs that have a reason in a run and something left to turn, in the order of their modules.

    None for a program that is written by hand: it has no meaning on another mesh.
    """
    if present.scenario.spec.parallel.mode == "manual":
        return []
    trained = present.scenario.spec.training is not None
    lacking = present.use.lacking > 0
    reasoned = []
    for kind, knob_class in kinds("simcluster.tuning.knobs", Knob).items():
        knob = knob_class()
        if (knob.of_training and not trained) or not (why := knob.reason(present)):
            continue
        if turns := tuple(knob.turns(present.scenario, present.plan)):
            nearest = lacking and KnobPurpose.MEMORY in knob.serves
            stake = present.lost(knob.about) if knob.about else 0.0
            reasoned.append(
                ReasonedKnob(OpenKnob(kind, turns, knob.uneven), why, knob.source, nearest, stake)
            )
    return reasoned
