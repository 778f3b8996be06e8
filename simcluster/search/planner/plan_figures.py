"""The figures of a simulated plan that plans are compared by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from simcluster.analysis import deciding_verdict
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimclusterError
from simcluster.search.planner.shared_scenario import SharedScenario
from simcluster.simulation import simulate
from simcluster.tuning import Changes


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """A simulated plan; all times are seconds of a step, means over ranks but for the step itself."""

    step_time_s: float = 0.0
    """The step."""
    tokens_per_s: float = 0.0
    """Tokens trained per second, samples where the model has no tokens."""
    mfu: float = 0.0
    """Model FLOPs utilisation, 0 to 1."""
    recomputed: float = 0.0
    """Arithmetic that is done again, as a share of the model's."""
    compute_s: float = 0.0
    """Kernels, as if they had the device to themselves."""
    pipeline_wait_s: float = 0.0
    """Waiting for other stages."""
    other_s: float = 0.0
    """Slowed kernels, host, offload, input and idle time together."""
    exposed_s: Mapping[str, float] = field(default_factory=dict)
    """By axis the communication that no kernel hides."""
    memory: int = 0
    """Bytes that the device, or host, which decides whether it fits needs, fragments included."""
    capacity: int = 0
    """What that has."""
    headroom: int = 0
    """What is to be left free of it."""
    refused: str = ""
    """Why the plan is impossible; then there are no figures."""

    def fits(self, limit: float | None) -> bool:
        """Whether it is possible and needs at most ``limit`` of the memory; None: by the usual rule."""
        if self.refused:
            return False
        return self.lacking(limit) <= 0

    def lacking(self, limit: float | None) -> int:
        """Bytes by which it misses that; zero or less where it does not."""
        allowed = self.capacity - self.headroom if limit is None else int(limit * self.capacity)
        return self.memory - allowed

    def document(self) -> dict[str, Any]:
        """The figures as JSON-able data."""
        return asdict(self)


_OTHER = ("slowed_s", "host_s", "offload_wait_s", "input_wait_s", "idle_s")


def simulate_plan(task: tuple[SharedScenario, Changes]) -> PlanFigures:
    """The figures of a scenario with changes of its plan; a plan that is impossible says why."""
    shared, changes = task
    try:
        summary = simulate(shared.changed(changes)).documents["summary"]
    except SimclusterError as error:
        return PlanFigures(refused=error.problems[0].message)
    use = deciding_verdict(summary)
    return PlanFigures(
        summary["step_time_s"],
        summary.get("tokens_per_s", summary.get("samples_per_s", 0.0)),
        summary["mfu"],
        round(summary["hfu"] / summary["mfu"] - 1, 9) if summary["mfu"] else 0.0,
        summary["compute_s"],
        summary["pipeline_wait_s"],
        sum(summary[name] for name in _OTHER),
        dict(summary["exposed_communication_s"]),
        use.needed,
        use.capacity,
        use.headroom,
    )
