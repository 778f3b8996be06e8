"""More samples at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun

SPARE_MEMORY = 0.30
"""The share of a device's memory from which on what is free is worth being used."""
_DOUBLINGS = 3


class LargerMicroBatchKnob(Knob):
    """Larger micro-batches."""

    kind = "larger micro-batch"
    serves = frozenset({KnobPurpose.SPEED})
    source = (
        "Narayanan et al. 2021, section 3.4: kernels of larger micro-batches are faster, but fewer of these "
        "fill a pipeline"
    )
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Twice as many samples, and so on, while these divide the samples of a rank."""
        size = int(plan["micro_batch"]) * scenario.spec.parallel.copies
        samples = int(plan["global_batch"]) // int(plan["data_parallel_ways"])
        for _ in range(_DOUBLINGS):
            size *= 2
            if size > samples or samples % size:
                return
            yield (("training.micro_batch", str(size)),)

    def reason(self, present: PresentRun) -> str:
        """Memory is free."""
        if present.free <= SPARE_MEMORY:
            return ""
        size = present.plan["micro_batch"]
        free, mfu = units.percent(present.free), units.percent(present.summary.get("mfu", 0.0))
        return f"{free} of the memory is free, and kernels of micro-batches of {size} reach an MFU of {mfu}"
