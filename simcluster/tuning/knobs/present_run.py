"""The run of a plan as it is, with the figures by which knobs are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simcluster import units
from simcluster.analysis import MemoryUse, deciding_verdict
from simcluster.deferred_dataclass import dataclass
from simcluster.scenario import Scenario

STATE_BYTES = 16
"""Bytes of weight, gradient, master copy and two Adam moments of a parameter in mixed precision (Rajbhandari
et al., ZeRO, arXiv 1910.02054); only what is worth a trial depends on it."""


@dataclass(frozen=True, slots=True)
class PresentRun:
    """A scenario with the summary of its run and the document of its plan."""

    scenario: Scenario
    summary: Mapping[str, Any]
    plan: Mapping[str, Any]

    @property
    def step(self) -> float:
        """Seconds of a step, of inference those of the whole answer."""
        return float(self.summary.get("latency_s", self.summary["step_time_s"]))

    @property
    def use(self) -> MemoryUse:
        """The memory that decides whether the plan fits."""
        return deciding_verdict(self.summary)

    @property
    def free(self) -> float:
        """The share of that memory which is free beyond the headroom; 0 or less if it does not fit."""
        return -self.use.lacking / self.use.capacity if self.use.capacity else 0.0

    @property
    def bubble(self) -> float:
        """The share of the step in which stages wait for each other, mean over ranks."""
        return float(self.summary.get("pipeline_wait_s", 0.0)) / self.step

    @property
    def host_share(self) -> float:
        """The share of the step in which devices wait for their host to launch, mean over ranks."""
        return float(self.summary.get("host_s", 0.0)) / self.step

    def exposed(self, axis: str) -> float:
        """The share of the step in which nothing but communication over an axis goes on, mean over ranks."""
        return float(self.summary.get("exposed_communication_s", {}).get(axis, 0.0)) / self.step

    def lost(self, what: str) -> float:
        """The share of the step that is lost to something: ``bubble``, ``host``, ``offload``, ``recompute``
        (arithmetic beyond the model's), or exposed communication over an axis.
        """
        done, needed = self.summary.get("hfu", 0.0), self.summary.get("mfu", 0.0)
        shares = {
            "bubble": self.bubble,
            "host": self.host_share,
            "offload": float(self.summary.get("offload_wait_s", 0.0)) / self.step,
            "recompute": (1 - needed / done) * float(self.summary.get("compute_s", 0.0)) / self.step
            if done
            else 0.0,
        }
        return shares[what] if what in shares else self.exposed(what)

    def size(self, axis: str) -> int:
        """Ranks along an axis of the mesh; 1 where there is none."""
        return int(self.plan["mesh"].get(axis, 1))

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return len(self.plan["layers_per_stage"])

    @property
    def state_bytes(self) -> int:
        """About what weights, gradients and optimizer states of the model take; frozen weights 2 bytes."""
        parameters = int(self.plan["parameters"])
        trained = int(self.plan.get("trained_parameters", parameters))
        return STATE_BYTES * trained + 2 * max(parameters - trained, 0)

    def lack_of_memory(self, categories: Sequence[str] = ()) -> str:
        """By how much the plan does not fit, and what some categories take of it; empty if it fits."""
        use = self.use
        if use.lacking <= 0:
            return ""
        fullest = max(self.summary["peak_memory_bytes"], key=lambda entry: entry["total"] / entry["capacity"])
        held = sum(fullest["breakdown"].get(name, 0) for name in categories)
        named = ", ".join(categories).replace("_", " ")
        part = f", and {named} take {units.size(held)}" if held else ""
        return f"{units.size(use.lacking)} of memory are lacking for {units.size(use.needed)}{part}"
