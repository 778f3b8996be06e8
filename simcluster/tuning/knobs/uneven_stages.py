"""Stages with fewer layers where there is something besides layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.adapted_stages import schedule_text
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun

UNEQUAL_WORK = 0.02
"""By which share the busiest rank computes longer than the mean from which on that is worth a change."""

_LEAST_STAGES = 3


class UnevenStagesKnob(Knob):
    """Layers taken from the ends of the pipeline."""

    kind = "uneven stages"
    serves = frozenset({KnobPurpose.SPEED})
    about = "bubble"
    source = "Llama 3 (arXiv 2407.21783), section 3.3.2: a layer less on the first and on the last stage"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """A layer of the last stage to one in the middle, then one of the first stage, too."""
        schedule, layers = scenario.spec.parallel.schedule, list(plan["layers_per_stage"])
        if len(layers) < _LEAST_STAGES or min(layers) < 2:
            return
        if schedule.build().chain(len(layers)).num_chunks > 1:
            return  # layers are then listed by chunk, of which which is moved is another question
        # Stages keep activations the longer, the nearer to the first they are: those behind have room.
        layers[-1] -= 1
        layers[-2] += 1
        yield _staged(scenario, layers)
        layers[0] -= 1
        layers[-2 if len(layers) == _LEAST_STAGES else -3] += 1
        yield _staged(scenario, layers)

    def reason(self, present: PresentRun) -> str:
        """Some ranks compute longer than others, and these wait."""
        mean = present.summary.get("compute_s", 0.0)
        more = present.summary.get("compute_s_max", 0.0) / mean - 1 if mean else 0.0
        if present.num_stages < _LEAST_STAGES or more <= UNEQUAL_WORK:
            return ""
        return f"ranks of the busiest stage compute {units.percent(more)} longer than the mean"


def _staged(scenario: Scenario, layers: list[int]) -> Changes:
    return (("parallel.schedule", schedule_text(scenario, len(layers), stages=layers)),)
