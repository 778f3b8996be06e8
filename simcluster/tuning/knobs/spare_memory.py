"""What costs time to save memory that is not needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.model import ATTENTION_CORES
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.micro_batches import SPARE_MEMORY
from simcluster.tuning.knobs.present_run import PresentRun

_SPARE_AFTER_OFFLOAD = 0.10
"""What is on the host is large: the less is free, the more of it the simulator refuses to bring back."""
_EXPOSED_DATA = 0.02


class LessRecomputeKnob(Knob):
    """Less recomputation."""

    kind = "less recomputation"
    serves = frozenset({KnobPurpose.SPEED})
    about = "recompute"
    source = (
        "full recomputation adds 20 to 25 % of computation in practice: MindSpore's recompute; selective: "
        "Korthikanti et al. 2022"
    )
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """The cores of attention alone, as the simulator chooses, nothing."""
        spec = scenario.spec.parallel.recompute
        if spec.nothing or spec.layers == "auto":
            return
        if "heads" in scenario.model.dimensions and spec.layers != "none":
            yield (("parallel.recompute", f'{{operators: ["{ATTENTION_CORES}*"]}}'),)
        yield (("parallel.recompute", "auto"),)
        yield (("parallel.recompute", "none"),)

    def reason(self, present: PresentRun) -> str:
        """Memory is free."""
        if present.free <= SPARE_MEMORY:
            return ""
        done, needed = present.summary.get("hfu", 0.0), present.summary.get("mfu", 0.0)
        more = units.percent(done / needed - 1) if needed else "0 %"
        return (
            f"{units.percent(present.free)} of the memory is free, while {more} more arithmetic is done than "
            "the model needs"
        )


class LessOffloadKnob(Knob):
    """Less on the host."""

    kind = "less offload"
    serves = frozenset({KnobPurpose.SPEED})
    about = "offload"
    source = "what is needed soon stays on the device: MindSpore's memory offload"

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Nothing offloaded."""
        if plan.get("offload"):
            yield (("parallel.offload", "{}"),)

    def reason(self, present: PresentRun) -> str:
        """Memory is free."""
        if present.free <= _SPARE_AFTER_OFFLOAD:
            return ""
        waits = float(present.summary.get("offload_wait_s", 0.0)) / present.step
        return (
            f"{units.percent(present.free)} of the memory is free, and devices wait for what is offloaded in "
            f"{units.percent(waits)} of the step"
        )


class LessShardingKnob(Knob):
    """Gradients and weights whole, states sharded."""

    kind = "less sharding"
    serves = frozenset({KnobPurpose.SPEED})
    about = "data"
    source = "traffic of 3 N elements with sharded weights, 2 N without: ZeRO (arXiv 1910.02054), section 7"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """ZeRO 1."""
        present = plan["optimizer_sharding"]
        if present["gradients"] or present["weights"]:
            yield (("parallel.optimizer_sharding", "{zero: 1}"),)

    def reason(self, present: PresentRun) -> str:
        """Memory is free, and collectives of data parallelism are exposed."""
        exposed = present.exposed("data")
        if present.free <= SPARE_MEMORY or exposed <= _EXPOSED_DATA:
            return ""
        return (
            f"{units.percent(present.free)} of the memory is free, while gathering weights or scattering "
            f"gradients leaves {units.percent(exposed)} of the step exposed"
        )
