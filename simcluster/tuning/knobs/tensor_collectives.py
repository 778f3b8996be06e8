"""Collectives inside of layers: other ones, and kernels beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun

EXPOSED_TENSOR = 0.05
"""The share of a step from which on exposed communication inside of layers is worth a change."""


def exposed_tensor(present: PresentRun) -> str:
    """How much communication of the tensor axis is exposed; empty if little."""
    share = present.exposed("tensor")
    if share <= EXPOSED_TENSOR:
        return ""
    ways = present.size("tensor")
    return f"{units.percent(share)} of the step is exposed communication of {ways} tensor ranks"


class SequenceParallelismKnob(Knob):
    """Sequence parallelism where tensor parallelism is, or none of it."""

    kind = "sequence parallelism"
    serves = frozenset({KnobPurpose.SPEED})
    about = "tensor"
    source = "Korthikanti et al. 2022 (arXiv 2205.05198): as much traffic, norms and residuals split"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """The recipe with it for the one without, and the other way around."""
        other = {"megatron": "megatron_sp", "megatron_sp": "megatron"}.get(plan["recipe"])
        if other and plan["mesh"].get("tensor", 1) > 1:
            yield (("parallel.recipe", other),)

    def reason(self, present: PresentRun) -> str:
        """Exposed communication; memory only where it would become less."""
        if present.plan["recipe"] == "megatron_sp":
            why = exposed_tensor(present)
            return (
                why and f"{why}: all-reduces can be faster than gathers and scatters, where memory suffices"
            )
        lacking = present.lack_of_memory(("activations",))
        if lacking:
            return f"{lacking}, parts of which every tensor rank keeps whole"
        why = exposed_tensor(present)
        return why and f"{why}; norms and residuals are computed on all of them alike"


class CopiesKnob(Knob):
    """Two copies of the micro-batch in turns."""

    kind = "copies"
    serves = frozenset({KnobPurpose.SPEED})
    about = "tensor"
    source = "MindSpore's overview of parallelism, multi-copy: one copy computes while the other communicates"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Two copies; of micro-batches twice as large, where these do not divide."""
        if scenario.spec.parallel.copies > 1 or plan["mesh"].get("tensor", 1) == 1:
            return
        size, samples = int(plan["micro_batch"]), int(plan["global_batch"]) // int(plan["data_parallel_ways"])
        if size % 2 == 0:
            yield (("parallel.copies", "2"),)
        if samples % (2 * size) == 0:
            yield (("parallel.copies", "2"), ("training.micro_batch", str(2 * size)))

    def reason(self, present: PresentRun) -> str:
        """Communication is exposed."""
        why = exposed_tensor(present)
        return why and f"{why}, which another copy of the micro-batch can compute beside"


class ChunkedCollectivesKnob(Knob):
    """Collectives in chunks with their matmuls."""

    kind = "chunked collectives"
    serves = frozenset({KnobPurpose.SPEED})
    about = "tensor"
    source = "tp_comm_overlap of Transformer Engine, MindSpeed's communication over computation"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Two chunks, four."""
        if not scenario.spec.parallel.overlap and plan["mesh"].get("tensor", 1) > 1:
            for chunks in (2, 4):
                yield (("parallel.overlap", f"{{tensor: {chunks}}}"),)

    def reason(self, present: PresentRun) -> str:
        """Communication is exposed."""
        why = exposed_tensor(present)
        return why and f"{why}; in chunks, each goes beside the matmul of the one before"
