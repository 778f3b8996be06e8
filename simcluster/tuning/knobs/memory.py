"""What is kept in memory, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun
from simcluster.tuning.knobs.schedules import bubble_reason

_RECOMPUTE = (
    "recomputation keeps inputs of layers instead of results: MindSpore's overview of parallelism, memory"
)


class AutomaticRecomputeKnob(Knob):
    """Recomputation that the simulator chooses."""

    kind = "recompute auto"
    saves = ("activations",)
    source = _RECOMPUTE
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Recomputation as the simulator chooses it: of what fits the fastest, by stage and operator."""
        spec = scenario.spec.parallel.recompute
        if spec.nothing:
            yield (("parallel.recompute", "auto"),)


class RecomputeKnob(Knob):
    """Recomputation of whole layers."""

    kind = "recompute"
    saves = ("activations",)
    source = _RECOMPUTE
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """One layer of each stage more, up to all."""
        spec = scenario.spec.parallel.recompute
        if not isinstance(spec.layers, int) and spec.layers != "none":
            return
        present = spec.layers if isinstance(spec.layers, int) else 0
        for count in range(present + 1, max(plan["layers_per_stage"])):
            # Operators go with some layers, not with all.
            some = ("parallel.recompute.layers", str(count)) if spec.operators else None
            yield (some or ("parallel.recompute", f"{{layers: {count}}}"),)
        yield (("parallel.recompute", "{layers: all}"),)


class OptimizerShardingKnob(Knob):
    """Stages of ZeRO."""

    kind = "optimizer sharding"
    serves = frozenset({KnobPurpose.MEMORY, KnobPurpose.SPEED})
    saves = ("parameters", "gradients", "optimizer_states")
    source = (
        "MindSpore's optimizer parallelism, ZeRO (arXiv 1910.02054): data ranks hold and update a part each"
    )
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """The next stages of ZeRO."""
        present = plan["optimizer_sharding"]
        level = sum(bool(present[name]) for name in ("states", "gradients", "weights"))
        if plan["data_parallel_ways"] == 1 or (level and present["split"] != "flat"):
            return
        for zero in range(level + 1, 4):
            yield (("parallel.optimizer_sharding", f"{{zero: {zero}}}"),)

    def reason(self, present: PresentRun) -> str:
        """Memory is lacking, or all data ranks update all parameters."""
        if lacking := super().reason(present):
            return lacking
        if present.plan["optimizer_sharding"]["states"]:
            return ""
        entries = present.summary["peak_memory_bytes"]
        held = max(entry["breakdown"].get("optimizer_states", 0) for entry in entries)
        ways = present.plan["data_parallel_ways"]
        return f"each of {ways} data ranks holds and updates the same {units.size(held)} of optimizer states"


class OffloadKnob(Knob):
    """Offload to the host."""

    kind = "offload"
    saves = ("optimizer_states", "activations")
    source = (
        "MindSpore's overview of parallelism: heterogeneous storage, where parameters exceed device memory"
    )

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """States on the host, then activations, then weights, where these can be."""
        if any(host.pcie is None for host in scenario.cluster.kinds):
            return
        present, sharding = scenario.spec.parallel.offload, plan["optimizer_sharding"]
        whole = bool(sharding["weights"]) or not sharding["states"]
        away: list[str] = []
        kept = ("optimizer_states", "activations") if scenario.spec.training else ()
        for category in (*kept, *(("parameters",) if whole else ())):
            if getattr(present, category) is None:
                away.append(category)
                yield tuple((f"parallel.offload.{name}", "host") for name in away)


class MicroBatchKnob(Knob):
    """The size of micro-batches."""

    kind = "micro-batch"
    serves = frozenset({KnobPurpose.MEMORY, KnobPurpose.SPEED})
    saves = ("activations",)
    source = "bubble (P-1)/M of M micro-batches; activations are those of one: Narayanan et al. 2021"

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Fewer samples at a time."""
        section = "training" if scenario.spec.training else "inference"
        size = int(plan["micro_batch"]) * scenario.spec.parallel.copies
        while size % (2 * scenario.spec.parallel.copies) == 0:
            size //= 2
            yield ((f"{section}.micro_batch", str(size)),)

    def reason(self, present: PresentRun) -> str:
        """Memory is lacking, or the bubble is large."""
        why = bubble_reason(present)
        return super().reason(present) or (why and f"{why}, less with more and smaller micro-batches")


class CacheKnob(Knob):
    """The number format of keys and values."""

    kind = "cache"
    source = "keys and values in fp8: half the bytes of bf16"

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Keys and values kept in fewer bits."""
        if plan.get("inference", {}).get("cache") in ("fp32", "fp16", "bf16"):
            yield (("inference.cache", "fp8"),)
