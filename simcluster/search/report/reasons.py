"""Why a plan lost against the best one, in a few words."""

from __future__ import annotations

from simcluster import units
from simcluster.search.planner import PlanFigures, SimulatedPlan

_SIGNIFICANT = 0.25
"""Share of all that is lost from which on a further reason is told."""


def why_it_lost(plan: SimulatedPlan, best: SimulatedPlan, limit: float | None, devices_per_host: int) -> str:
    """What makes a plan worse than the best: memory, or the parts of a step that take longer, the largest
    first.
    """
    figures = plan.figures
    if figures.refused:
        return f"impossible: {figures.refused}"
    if not figures.fits(limit):
        return f"lacks {units.size(figures.lacking(limit))} of memory"
    parts = _longer_parts(plan, best, devices_per_host)
    lost = sum(seconds for _, seconds in parts)
    told = [
        f"{text} (+{units.seconds(seconds)})"
        for number, (text, seconds) in enumerate(parts)
        if number == 0 or (number < 2 and seconds > _SIGNIFICANT * lost)
    ]
    if told and figures.step_time_s > best.figures.step_time_s:
        return ", ".join(told)
    more = figures.memory - best.figures.memory
    return f"as fast, with {units.size(more)} more memory" if more > 0 else "as good"


def _longer_parts(plan: SimulatedPlan, best: SimulatedPlan, devices_per_host: int) -> list[tuple[str, float]]:
    """Parts of a step that take longer than in the best plan, and by how many seconds; the largest first."""
    own, other = plan.figures, best.figures
    parts = {
        "larger bubble": own.pipeline_wait_s - other.pipeline_wait_s,
        _compute_reason(plan, best): own.compute_s - other.compute_s,
        "more time lost to the host, offload or kernels beside communication": own.other_s - other.other_s,
    }
    for axis, seconds in own.exposed_s.items():
        spans = _spans_hosts(plan, axis, devices_per_host) and not _spans_hosts(best, axis, devices_per_host)
        what = f"{axis} over slower links" if spans else f"more exposed {axis} communication"
        parts[what] = seconds - other.exposed_s.get(axis, 0.0)
    longer = [(text, seconds) for text, seconds in parts.items() if seconds > 0]
    return sorted(longer, key=lambda part: -part[1])


def _compute_reason(plan: SimulatedPlan, best: SimulatedPlan) -> str:
    if _computed_again(plan.figures, best.figures):
        return "more recomputation"
    smaller = plan.choice.micro_batch < best.choice.micro_batch or plan.choice.size(
        "tensor"
    ) > best.choice.size("tensor")
    return "smaller matmuls" if smaller else "slower compute"


def _computed_again(own: PlanFigures, other: PlanFigures) -> bool:
    """Whether a plan does more arithmetic for the same model: HFU beyond MFU."""
    return own.recomputed > other.recomputed


def _spans_hosts(plan: SimulatedPlan, axis: str, devices_per_host: int) -> bool:
    """Whether groups over an axis reach over several hosts."""
    reach = 1
    for name, size in reversed(plan.choice.mesh):
        reach *= size
        if name == axis:
            return reach > devices_per_host
    return False
