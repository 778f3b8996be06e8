"""Ranks that share the experts of every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.model import Routed
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.mesh_axes import doubled, halved, shared_gradients
from simcluster.tuning.knobs.present_run import PresentRun
from simcluster.tuning.knobs.tensor_collectives import exposed_tensor

EXPOSED_EXPERT = 0.05
"""The share of a step from which on exposed communication of tokens is worth a change."""


class ExpertParallelismKnob(Knob):
    """Ranks that share experts."""

    kind = "expert parallelism"
    serves = frozenset({KnobPurpose.MEMORY, KnobPurpose.SPEED})
    saves = ("parameters", "gradients", "optimizer_states")
    source = "Lepikhin et al., GShard (arXiv 2006.16668): experts on different devices, tokens sent to them"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Twice as many, at the cost of data parallelism, as long as the experts divide."""
        size, experts = scenario.spec.parallel.sizes.get("expert", 1), _num_experts(scenario)
        for changes in doubled(scenario, plan, "expert") if experts else ():
            size *= 2
            if experts % size:
                return
            yield changes

    def reason(self, present: PresentRun) -> str:
        """Weights are too large, or their gradients travel too long."""
        experts = _num_experts(present.scenario)
        why = present.lack_of_memory(self.saves) or shared_gradients(present)
        return f"{why}; {experts} experts are on {present.size('expert')} ranks" if why and experts else ""


class LessExpertParallelismKnob(Knob):
    """Fewer ranks that share experts."""

    kind = "less expert parallelism"
    serves = frozenset({KnobPurpose.SPEED})
    about = "expert"
    source = ExpertParallelismKnob.source
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Half of them, with twice the data parallelism."""
        if scenario.spec.parallel.sizes.get("expert", 1) > 1:
            yield from halved(scenario, plan, "expert", "data")

    def reason(self, present: PresentRun) -> str:
        """Tokens that are sent to experts are exposed."""
        share, ways = present.exposed("expert"), present.size("expert")
        if share <= EXPOSED_EXPERT:
            return ""
        return (
            f"{units.percent(share)} of the step is exposed communication of {ways} ranks that share experts"
        )


class WholeExpertsKnob(Knob):
    """Experts over the ranks of the tensor axis too, instead of parts of each on all of them."""

    kind = "whole experts"
    serves = frozenset({KnobPurpose.SPEED})
    about = "tensor"
    source = "--expert-tensor-parallel-size 1 of Megatron-Core, --moe-tp-extend-ep of MindSpeed-LLM"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Split over both axes, where the experts divide and no operator is configured."""
        sizes, experts = scenario.spec.parallel.sizes, _num_experts(scenario)
        tensor = sizes.get("tensor", 1)
        if tensor == 1 or not experts or scenario.spec.parallel.strategies:
            return
        axes = [axis for axis in ("expert", "tensor") if sizes.get(axis, 1) > 1]
        if experts % (tensor * sizes.get("expert", 1)) == 0:
            split = f"{{experts: [{', '.join(axes)}]}}"
            yield (("parallel.strategies", f'[{{match: "*layers.*.mlp.experts.*", split: {split}}}]'),)

    def reason(self, present: PresentRun) -> str:
        """Parts of experts read the tokens of all ranks, which are gathered behind their exchange."""
        why = exposed_tensor(present)
        return (
            f"{why}; parts of an expert need all its tokens gathered, whole ones do not"
            if why and _num_experts(present.scenario)
            else ""
        )


def _num_experts(scenario: Scenario) -> int:
    model = scenario.model
    return model.num_experts if isinstance(model, Routed) else 0
