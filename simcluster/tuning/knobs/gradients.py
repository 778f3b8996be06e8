"""Collectives of gradients and weights: how many, and what goes on beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.plan import MEGATRON_BUCKETS
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun

_EXPOSED_DATA = 0.01
_HOST_SHARE = 0.01


def _flow(section: Mapping[str, object]) -> str:
    """A section of a scenario on one line."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in section.items()) + "}"


def exposed_data(present: PresentRun) -> str:
    """How much communication of the data axis is exposed; empty if next to none."""
    share = present.exposed("data")
    if share <= _EXPOSED_DATA:
        return ""
    return f"{units.percent(share)} of the step is exposed communication of {present.size('data')} data ranks"


class GradientBucketsKnob(Knob):
    """What of gradients travels as one collective."""

    kind = "gradient buckets"
    serves = frozenset({KnobPurpose.SPEED})
    about = "data"
    source = (
        "MindSpore's comm_fusion, 64 MB in mode auto: fewer collectives have fewer latencies, more of them "
        "start earlier"
    )
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """64 MB, and what the simulator finds best."""
        spec = scenario.spec.parallel
        if plan["data_parallel_ways"] == 1 or {"fusion", "all_reduce_fusion_config"} & spec.model_fields_set:
            return
        operation = "reduce_scatter" if plan["optimizer_sharding"]["states"] else "all_reduce"
        for mode in ("auto", "search"):
            yield (("parallel.fusion", f"{{{operation}: {{mode: {mode}}}}}"),)

    def reason(self, present: PresentRun) -> str:
        """Communication is exposed."""
        why = exposed_data(present)
        return why and f"{why}, which depends on how gradients are put together"


class GradientOverlapKnob(Knob):
    """Gradients reduced beside the backward, weights gathered beside the forward."""

    kind = "gradient overlap"
    serves = frozenset({KnobPurpose.SPEED})
    about = "data"
    source = "overlap_grad_reduce and overlap_param_gather of Megatron-Core, on in NeMo's recipes"
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Both switches of the framework profile, where one is off; one whole buffer is cut too."""
        framework = scenario.framework
        if plan["data_parallel_ways"] == 1:
            return
        reduction = framework.reduction
        if reduction.overlap and framework.gather.value == "overlapped":
            return
        data = scenario.document.data if scenario.document is not None else None
        written = data.get("framework", framework.name) if isinstance(data, dict) else None
        changes = {"overlap": "true"}
        if reduction.bucket == "whole" and reduction.limit is None:  # is ready when the backward has ended
            changes["limit"] = _flow(MEGATRON_BUCKETS)
        if isinstance(written, str):  # a name alone holds no key that could be changed
            profile = {"use": written, "reduction": _flow(changes), "gather": "overlapped"}
            yield (("framework", _flow(profile)),)
        else:
            paths = {f"reduction.{key}": value for key, value in changes.items()}
            yield tuple(
                (f"framework.{key}", value) for key, value in {**paths, "gather": "overlapped"}.items()
            )

    def reason(self, present: PresentRun) -> str:
        """Communication is exposed."""
        why = exposed_data(present)
        return why and f"{why}, and the profile {present.plan['framework']} does part of it beside nothing"


class ReusedCallsKnob(Knob):
    """Collectives that are alike as one reusable call."""

    kind = "communication sub-graph reuse"
    serves = frozenset({KnobPurpose.SPEED})
    about = "host"
    source = "MindSpore's overview of parallelism, communication sub-graph extraction and reuse"

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Reuse, where the scenario does not say it."""
        if scenario.spec.parallel.comm_subgraph_reuse is None and scenario.framework.collective_call:
            yield (("parallel.comm_subgraph_reuse", "true"),)

    def reason(self, present: PresentRun) -> str:
        """Devices wait for the host."""
        if present.host_share <= _HOST_SHARE:
            return ""
        return f"devices wait for the host to launch in {units.percent(present.host_share)} of the step"
