"""Figures that only whole training steps show, and scenarios in which one of them is another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.scenario import Scenario
from simcluster.work import Kernel

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunParameter:
    """A figure that is fitted as a multiple of what the files have, one for each device or framework."""

    key: str
    """Its path in a device file or a framework profile."""

    of_device: bool
    """Whether a family of devices has it; else those framework profiles that stem from one."""

    is_rate: bool
    """Whether steps are shorter the larger it is: a rate, not a time."""

    trust: float
    """How far it may be from what the files have, as a standard deviation of the logarithm."""

    tried: float
    """The multiple at which steps are simulated once more, to see what it does to them."""

    written: Callable[[Data, Scenario, float], dict[str, Any] | None]
    """A scenario's data with so many times the figure; None where it has none."""

    def work(self, multiple: float) -> float:
        """Times of steps are linear in this: the multiple of a time, its inverse of a rate."""
        return 1 / multiple if self.is_rate else multiple


def _tried(value: Any) -> dict[str, Any]:
    return {"value": value, "source": "tried", "provenance": "assumed"}


def _sustained(data: Data, scenario: Scenario, multiple: float) -> dict[str, Any] | None:
    share = min(1.1, scenario.cluster.host.device.gemm.sustained * multiple)  # what device files allow
    return _with_device(data, "gemm", {"sustained": _tried(share)})


def _streaming(data: Data, scenario: Scenario, multiple: float) -> dict[str, Any] | None:
    # Matmuls and attention read their operands at the rate of copies, which single kernels show.
    written = {
        str(kernel): _tried([[f"{size:.0f} B", min(1.0, share * multiple)] for size, share in curve.points])
        for kernel, curve in scenario.cluster.host.device.streaming.items()
        if kernel is not Kernel.COPY
    }
    return _with_device(data, "streaming", written)


def _with_device(data: Data, section: str, figures: Data) -> dict[str, Any]:
    """The data of a scenario with figures of a section of the device in the hosts."""
    cluster = dict(data["cluster"])
    host = dict(cluster.pop("host")) if "host" in cluster else {"use": cluster.pop("use")}
    device = dict(host.get("device", {}))
    device[section] = {**device.get(section, {}), **figures}
    return {**data, "cluster": {**cluster, "host": {**host, "device": device}}}


def _profile_figure(key: str, unit: str) -> Callable[[Data, Scenario, float], dict[str, Any] | None]:
    def write(data: Data, scenario: Scenario, multiple: float) -> dict[str, Any] | None:
        own = getattr(scenario.framework, key)
        if not own:
            return None
        framework = data["framework"]
        profile = {"use": framework} if isinstance(framework, str) else dict(framework)
        value = own * multiple
        return {**data, "framework": {**profile, key: f"{value * 1e6:.6g} {unit}" if unit else value}}

    return write


RUN_PARAMETERS = (
    RunParameter("gemm.sustained", True, True, 0.05, 0.9, _sustained),
    RunParameter("streaming", True, True, 0.2, 0.8, _streaming),
    RunParameter("dispatch", False, False, 0.3, 1.5, _profile_figure("dispatch", "")),
    RunParameter("collective_call", False, False, 0.5, 3.0, _profile_figure("collective_call", "us")),
    RunParameter("step_overhead", False, False, 0.5, 3.0, _profile_figure("step_overhead", "us")),
)
"""The clock of devices under a step's load, and how fast their memory-bound kernels are; what an operator, a
collective and a step cost the host."""
