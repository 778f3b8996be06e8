"""The parts of a step and of a device's memory: the same names and tones in every report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from simcluster.draw import BLUE, GREEN, GREY, OLIVE, ORANGE, PINK, PURPLE, RED, TEAL, YELLOW, BarPart, Tone

_COMMUNICATION = (ORANGE, YELLOW, RED, PINK)

_CATEGORIES: Mapping[str, tuple[str, Tone]] = MappingProxyType(
    {
        "parameters": ("parameters", BLUE),
        "gradients": ("gradients", TEAL),
        "optimizer_states": ("optimizer", GREEN),
        "kv_cache": ("KV cache", RED),
        "activations": ("activations", ORANGE),
        "temporary": ("temporary", YELLOW),
        "communication": ("communication", PURPLE),
        "runtime": ("runtime", GREY),
    }
)


STEP_FIGURES = ("mean", "share", "worst rank")
"""The titles of what reports say of each part of a step."""


def step_parts(summary: Mapping[str, Any], axes: Sequence[str] = ()) -> list[tuple[BarPart, float]]:
    """The parts of a step in seconds, mean over ranks, each with the most of any class; they sum to the step.

    Parts that are nothing are left out, compute excepted. ``axes`` have their tones in this order, as in
    other steps beside this one; the others follow by what is exposed.
    """
    exposed, most = summary["exposed_communication_s"], summary["exposed_communication_s_max"]
    parts = [(BarPart("compute", summary["compute_s"], BLUE), summary["compute_s_max"])]
    others = (axis for axis in exposed if axis not in axes)
    order = [*axes, *sorted(others, key=lambda axis: -exposed[axis])]
    for index, axis in enumerate(order):
        if axis not in exposed:
            continue
        tone = _COMMUNICATION[index % len(_COMMUNICATION)]
        parts.append((BarPart(f"{axis} communication", exposed[axis], tone), most[axis]))
    for name, key, tone in (
        ("slowed beside communication", "slowed_s", OLIVE),
        ("pipeline wait", "pipeline_wait_s", PURPLE),
        ("host and dispatch", "host_s", TEAL),
        ("offload wait", "offload_wait_s", GREEN),
        ("input wait", "input_wait_s", GREEN),
        ("idle", "idle_s", GREY),
    ):
        parts.append((BarPart(name, summary[key], tone), summary[f"{key}_max"]))
    return [entry for entry in parts if entry[0].value > 0 or entry[0].name == "compute"]


def memory(breakdown: Mapping[str, int]) -> list[BarPart]:
    """The categories of a device's memory in bytes, in one order everywhere: what lives longest first."""
    order = [name for name in _CATEGORIES if name in breakdown]
    order += [name for name in breakdown if name not in _CATEGORIES]
    return [BarPart(memory_category(name)[0], breakdown[name], memory_category(name)[1]) for name in order]


def memory_category(name: str) -> tuple[str, Tone]:
    """The name and the tone of a category of memory."""
    return _CATEGORIES.get(name, (name, PINK))
