"""Ranks that share long sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.mesh_axes import doubled, halved
from simcluster.tuning.knobs.present_run import PresentRun

LONG_SEQUENCE = 8192
"""Tokens of a sequence from which on sharing it is worth a trial: shorter ones leave little to each rank."""

EXPOSED_CONTEXT = 0.05
"""The share of a step from which on exposed communication of keys and values is worth a change."""


class ContextParallelismKnob(Knob):
    """Ranks that share sequences."""

    kind = "context parallelism"
    serves = frozenset({KnobPurpose.MEMORY, KnobPurpose.SPEED})
    saves = ("activations",)
    source = "Liu et al., Ring Attention (arXiv 2310.01889); context parallelism of Megatron-Core"
    uneven = True
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Twice as many, at the cost of data parallelism, as long as the sequence divides."""
        training = scenario.spec.training
        if training is None or training.seq_len < LONG_SEQUENCE:
            return
        size = scenario.spec.parallel.sizes.get("context", 1)
        for changes in doubled(scenario, plan, "context"):
            size *= 2
            if training.seq_len % (2 * size):
                return
            yield changes

    def reason(self, present: PresentRun) -> str:
        """Activations of long sequences are too large."""
        lacking = present.lack_of_memory(self.saves)
        return lacking and f"{lacking}; a rank keeps whole sequences of {present.plan['seq_len']:,} tokens"


class LessContextParallelismKnob(Knob):
    """Fewer ranks that share sequences."""

    kind = "less context parallelism"
    serves = frozenset({KnobPurpose.SPEED})
    about = "context"
    source = ContextParallelismKnob.source
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Half of them: with twice the data parallelism, then with twice the tensor parallelism."""
        if scenario.spec.parallel.sizes.get("context", 1) > 1:
            yield from halved(scenario, plan, "context", "data")
            yield from halved(scenario, plan, "context", "tensor")

    def reason(self, present: PresentRun) -> str:
        """Keys and values that travel are exposed."""
        share, ways = present.exposed("context"), present.size("context")
        if share <= EXPOSED_CONTEXT:
            return ""
        return f"{units.percent(share)} of the step is exposed communication of {ways} ranks of a sequence"
