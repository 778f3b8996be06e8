"""Pipeline schedules with a smaller bubble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.adapted_stages import recompute_changes, schedule_text
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun

LARGE_BUBBLE = 0.10
"""The share of a step from which on a bubble is worth a change."""
_MOST_CHUNKS = 3


def bubble_reason(present: PresentRun) -> str:
    """How large the bubble is, beside that of the closed formula; empty if it is small."""
    stages, micro_batches = present.num_stages, present.plan["micro_batches"]
    if stages == 1 or present.bubble <= LARGE_BUBBLE:
        return ""
    share = units.percent(present.bubble)
    ideal = f"(P-1)/M = {stages - 1}/{micro_batches}"
    return (
        f"stages wait for each other in {share} of the step; 1F1B of equal stages waits {ideal} of its work"
    )


class InterleavedScheduleKnob(Knob):
    """Several chunks of layers on every stage."""

    kind = "interleaved schedule"
    serves = frozenset({KnobPurpose.SPEED})
    about = "bubble"
    source = "bubble (P-1)/(v M) of v chunks: Narayanan et al. 2021, MindSpore's pipeline_interleave"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Two chunks, and more, where the layers divide."""
        spec, stages = scenario.spec.parallel.schedule, len(plan["layers_per_stage"])
        if stages == 1 or spec.kind not in ("1f1b", "gpipe", "interleaved"):
            return
        per_stage, left = divmod(sum(plan["layers_per_stage"]), stages)
        present = (spec.chunks or 2) if spec.kind == "interleaved" else 1
        more = [chunks for chunks in range(present + 1, per_stage + 1) if per_stage % chunks == 0]
        recomputed = (*recompute_changes(scenario, per_stage * stages, stages, chunks_alone=True),)
        for chunks in [] if left else more[:_MOST_CHUNKS]:
            text = schedule_text(scenario, stages, kind="interleaved", chunks=chunks)
            yield (("parallel.schedule", text), *recomputed)

    def reason(self, present: PresentRun) -> str:
        """The bubble is large."""
        why = bubble_reason(present)
        return why and f"{why}, which v chunks of layers on a stage divide by v"


class ZeroBubbleKnob(Knob):
    """Weight gradients in what would be the bubble."""

    kind = "zero-bubble schedule"
    serves = frozenset({KnobPurpose.SPEED})
    about = "bubble"
    source = "Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241); MindSpore's zero_bubble_v"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """The backward in two halves: in the memory of 1F1B, then in V."""
        stages, num_layers = len(plan["layers_per_stage"]), sum(plan["layers_per_stage"])
        if stages == 1:
            return
        recomputed = (*recompute_changes(scenario, num_layers, stages, chunks_alone=True),)
        for kind in ("zb_h1", "zb_v") if num_layers >= 2 * stages else ("zb_h1",):
            if scenario.spec.parallel.schedule.kind != kind:
                yield (("parallel.schedule", schedule_text(scenario, stages, kind=kind)), *recomputed)

    def reason(self, present: PresentRun) -> str:
        """The bubble is large."""
        why = bubble_reason(present)
        return why and f"{why}; gradients of weights, which nothing waits for, can fill that"


class OneForwardOneBackwardKnob(Knob):
    """1F1B in place of GPipe."""

    kind = "1F1B schedule"
    serves = frozenset({KnobPurpose.SPEED})
    source = "1F1B keeps min(P-s, M) activations on stage s, GPipe all M: MindSpore's pipeline schedules"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """1F1B, where GPipe is asked for."""
        stages = len(plan["layers_per_stage"])
        if scenario.spec.parallel.schedule.kind == "gpipe" and stages > 1:
            yield (("parallel.schedule", schedule_text(scenario, stages, kind="1f1b")),)

    def reason(self, present: PresentRun) -> str:
        """There are more micro-batches than stages, so that GPipe keeps more activations."""
        stages, micro_batches = present.num_stages, present.plan["micro_batches"]
        if micro_batches <= stages:
            return ""
        return f"GPipe keeps the activations of all {micro_batches} micro-batches, 1F1B of at most {stages}"


class OverlappedTransfersKnob(Knob):
    """Transfers between stages beside kernels."""

    kind = "overlapped transfers"
    serves = frozenset({KnobPurpose.SPEED})
    about = "pipeline"
    source = "overlap_p2p_comm of Megatron-Core and NeMo's CommOverlap"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Receives posted ahead, where kernels wait for transfers."""
        spec, stages = scenario.spec.parallel.schedule, len(plan["layers_per_stage"])
        if stages > 1 and (spec.p2p or scenario.framework.p2p) != "overlapped":
            yield (("parallel.schedule", schedule_text(scenario, stages, p2p="overlapped")),)

    def reason(self, present: PresentRun) -> str:
        """Transfers are exposed."""
        share = present.exposed(str(present.plan["stage_axis"]))
        return (
            f"kernels wait for transfers between stages in {units.percent(share)} of the step"
            if share
            else ""
        )
