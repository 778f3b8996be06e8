"""What a step and the memory of a run are made of: kept with its record, to tell what made a figure move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from simcluster.document import Name, Section, generalised_name
from simcluster.trace import COMPUTE, Run

SMALLEST_SHARE = 1e-4
"""Operators and collectives that take less of the step are left out: less than tolerances can see."""

_PARTS = {
    "compute": "compute_s",
    "slowed beside communication": "slowed_s",
    "pipeline wait": "pipeline_wait_s",
    "host and dispatch": "host_s",
    "offload wait": "offload_wait_s",
    "input wait": "input_wait_s",
    "idle": "idle_s",
}


class Composition(Section):
    """Seconds of a step, mean over ranks, and bytes of the fullest device at its peak, by what takes them."""

    step: dict[Name, float]
    """The parts that sum to the step: compute, communication that is not hidden by axis, waits."""

    operators: dict[Name, float]
    """Kernels by operator, all layers together: ``layers.*.mlp.up``; those of 0.01 % of the step or more."""

    collectives: dict[Name, float]
    """Collectives and sends by operator and mesh axis, exposed or not: ``layers.*.mlp.up.all_gather
    (tensor)``."""

    memory: dict[Name, int]
    """What the fullest device holds at its peak, by category."""

    @classmethod
    def of(cls, run: Run) -> Composition:
        """The composition of a run."""
        summary = run.documents["summary"]
        exposed = summary["exposed_communication_s"]
        step = {f"{axis} communication": exposed[axis] for axis in sorted(exposed)}
        step |= {name: summary[key] for name, key in _PARTS.items()}
        operators, collectives = _by_operator(run)
        smallest = SMALLEST_SHARE * summary["step_time_s"]
        peaks = summary["peak_memory_bytes"]
        fullest = max(peaks, key=lambda entry: entry["total"])["breakdown"] if peaks else {}
        return cls(
            step={name: seconds for name, seconds in step.items() if seconds},
            operators={name: seconds for name, seconds in operators.items() if seconds >= smallest},
            collectives={name: seconds for name, seconds in collectives.items() if seconds >= smallest},
            memory={name: size for name, size in fullest.items() if size},
        )


def _by_operator(run: Run) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds per step, mean over ranks, of kernels and of transfers by operator, all layers together."""
    operators, collectives = defaultdict[str, float](float), defaultdict[str, float](float)
    classes = run.documents["classes"]
    num_ranks, last_step = sum(entry["ranks"] for entry in classes), 0
    for entry in classes:
        spans = run.recording.spans(entry["class"])
        last_step = max(last_step, int(spans["step"].max(initial=0)))
        share = entry["ranks"] / num_ranks * 1e-9
        names, streams = spans.names["operator"], spans.names["stream"]
        pairs = spans["stream"].astype(np.int64) * len(names) + spans["operator"]
        numbers, which = np.unique(pairs, return_inverse=True)
        seconds = np.bincount(which.reshape(-1), weights=spans["end"] - spans["start"]) * share
        for number, taken in zip(numbers.tolist(), seconds.tolist(), strict=True):
            stream, operator = streams[number // len(names)], generalised_name(names[number % len(names)])
            if stream == COMPUTE:
                operators[operator] += taken
            elif not stream.startswith("recv_"):  # its send takes the same time
                collectives[f"{operator} ({stream.removesuffix(' (step)')})"] += taken
    return _per_step(operators, last_step + 1), _per_step(collectives, last_step + 1)


def _per_step(seconds: Mapping[str, float], num_steps: int) -> dict[str, float]:
    """The largest first; equal ones by name."""
    ordered = sorted(seconds.items(), key=_largest_first)
    return {name: taken / num_steps for name, taken in ordered}


def _largest_first(entry: tuple[str, Any]) -> tuple[Any, str]:
    return -entry[1], entry[0]
