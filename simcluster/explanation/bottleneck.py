"""What a step is bound by, in one sentence, and what comes next."""

from __future__ import annotations

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.trace import RunDocument

_LEAST = 0.01
"""The share of a step from which on a part of it is named."""


@dataclass(frozen=True, slots=True)
class StepPart:
    """A part of the step of a rank, in the mean: its name, its share, and what the step is bound by where
    this is the largest one.
    """

    name: str
    share: float
    bound: str


def step_parts_of(documents: RunDocument) -> list[StepPart]:
    """The parts that a step is cut into, the largest first; their shares sum to 1."""
    summary = documents["summary"]
    step = float(summary["step_time_s"])
    use = documents["time_use"]
    arithmetic, memory = (
        sum(entry[name] for entry in use["operators"]) for name in ("arithmetic_s", "memory_s")
    )
    ideal = sum(entry["of_peak"] * (entry["arithmetic_s"] + entry["memory_s"]) for entry in use["operators"])
    peak = f", at {units.percent(ideal / (arithmetic + memory))} of the peak" if arithmetic else ""
    timed: list[tuple[str, float, str]] = [
        (
            "kernels bound by arithmetic",
            arithmetic,
            f"arithmetic: kernels bound by arithmetic take {{}} of the step{peak}",
        ),
        ("kernels bound by memory", memory, "memory bandwidth: kernels bound by it take {} of the step"),
        (
            "kernels slowed by communication",
            summary["slowed_s"],
            "communication beside kernels, which makes them longer by {} of the step",
        ),
        (
            "host and dispatch",
            summary["host_s"],
            "the host: devices wait for launches, dispatch and what runs on the host in {} of the step",
        ),
        (
            "pipeline wait",
            summary["pipeline_wait_s"],
            "the pipeline: stages wait for one another in {} of the step",
        ),
        ("offload", summary["offload_wait_s"], "offload: kernels wait for copies in {} of the step"),
        ("inputs", summary["input_wait_s"], "its inputs: kernels wait for data in {} of the step"),
        ("idle", summary["idle_s"], "other ranks: devices are idle in {} of the step"),
    ]
    for axis, exposed in summary["exposed_communication_s"].items():
        timed.append(
            (
                f"exposed {axis} communication",
                exposed,
                f"communication over {axis}, which is exposed in {{}} of the step",
            )
        )
    parts = [StepPart(name, seconds / step, bound) for name, seconds, bound in timed if seconds > 0]
    return sorted(parts, key=lambda part: -part.share)


def bottleneck_text(documents: RunDocument) -> str:
    """What the step is bound by, and what of it is next."""
    parts = step_parts_of(documents)
    if not parts:
        return "The step takes no time."
    first, *others = parts
    what = "answer" if "inference" in documents["plan"] else "step"
    text = f"The {what} is bound by {first.bound.format(units.percent(first.share))}."
    named = [f"{part.name} ({units.percent(part.share)})" for part in others[:3] if part.share >= _LEAST]
    return f"{text} Next: {', '.join(named)}." if named else text
