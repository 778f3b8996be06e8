"""The figures of a run: step time and where it goes, what memory holds, what the network carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from simcluster.analysis.memory_usage import RULE, overall_verdict
from simcluster.analysis.timeline import PARTS, WAITS, StepBreakdown, break_down
from simcluster.engine import Timing
from simcluster.model import Flops
from simcluster.number_arrays import Floats, Ints
from simcluster.plan import Task
from simcluster.program import HostCalls, PlacedProgram, call_counts, sent_bytes
from simcluster.work import DType


def summarise_run(
    placed: PlacedProgram,
    timing: Timing,
    *,
    task: Task,
    steps: int,
    needed: Flops,
    matmul: DType,
    host: HostCalls,
    memory: Sequence[Mapping[str, Any]],
    hosts: Sequence[Mapping[str, Any]],
    dispatch: Mapping[str, float] | None,
    assumed: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """The result document of a run of so many ``steps``: SI units, numbers as numbers.

    ``needed`` are the FLOPs of a step of the model, ``matmul`` the format that matrix units multiply,
    ``memory`` and ``hosts`` the peaks with their verdicts, ``assumed`` what the run leans on without a
    measurement. Times are per step; figures without suffix are means over ranks, ``_max`` the largest of any
    class. ``host_memory_bytes``, only where anything is offloaded, has what hosts hold for their devices.
    ``slowed_s`` is what kernels took longer because communication ran beside them.
    ``mfu`` and ``hfu`` are shares of the peak in the format that matrix units multiply (fp8 where layers do,
    though attention and head then still run in a slower one): the convention that never flatters. A changed
    device counts with the peak of its file. ``groups``, only in a mixed cluster, has for each group of hosts
    the means over its ranks; ``dispatch``, only where pieces are graphs, how many operators the host
    dispatches by themselves and in graphs.
    """
    step = timing.end * 1e-9 / steps
    ranks, cluster = placed.num_ranks, placed.cluster
    tokens = task.global_batch * task.seq_len
    # Parameter servers and their scheduler train nothing.
    devices = placed.program.mesh.num_on_axes
    own = np.bincount(cluster.group_of(np.arange(devices)), minlength=len(cluster.groups)).tolist()
    capacity = sum(
        step * count * group.host.device.peak[matmul]
        for count, group in zip(own, cluster.groups, strict=True)
        if count
    )
    cut = _step(placed, timing, steps)
    mean, most = cut.of(_mean_over(placed.classes.sizes)), cut.of(lambda seconds: float(seconds.max()))
    done = placed.flops(steps) * (1 / steps)
    wait, compute = mean.parts["pipeline_wait_s"], mean.parts["compute_s"]
    return {
        "step_time_s": step,
        "tokens_per_s": tokens / step,
        "tokens_per_s_per_device": tokens / step / devices,
        "samples_per_s": task.global_batch / step,
        "model_flops_per_s_per_device": needed.counted / step / devices,
        "mfu": needed.counted / capacity,
        "hfu": done.counted / capacity,
        **_full_attention(needed, done, capacity),
        "bubble_fraction": wait / step,
        "bubble_over_compute": wait / compute if compute else 0.0,
        **mean.parts,
        **{f"{name}_max": seconds for name, seconds in most.parts.items()},
        "exposed_communication_s": mean.exposed,
        "exposed_communication_s_max": most.exposed,
        "communication_bytes": sent_bytes(placed, steps),
        **({"groups": _groups(placed, cut)} if cluster.mixed else {}),
        "peak_memory_bytes": memory,
        "peak_memory_bytes_max": max(entry["total"] for entry in memory),
        **({"host_memory_bytes": hosts} if hosts else {}),
        **overall_verdict(memory, hosts),
        "verdict_rule": RULE,
        "num_ranks": ranks,
        "num_classes": len(placed.classes),
        "num_events": timing.num_events,
        "num_flows": timing.num_flows,
        "num_solves": timing.num_solves,
        **call_counts(placed, host),
        **({"dispatch": dispatch} if dispatch else {}),
        "assumptions": assumed,
    }


ATTENTION_METRICS = ("mfu_full_attention", "hfu_full_attention")
"""Those that only models with attention have: ``mfu`` and ``hfu``, all of causal attention counted."""


def _full_attention(needed: Flops, done: Flops, capacity: float) -> dict[str, float]:
    if not needed.attention and not done.attention:
        return {}
    return dict(zip(ATTENTION_METRICS, (needed.square / capacity, done.square / capacity), strict=True))


METRICS = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "samples_per_s",
    "model_flops_per_s_per_device",
    "mfu",
    "hfu",
    *ATTENTION_METRICS,
    "bubble_fraction",
    "bubble_over_compute",
    *PARTS,
    *(f"{name}_max" for name in PARTS),
    "peak_memory_bytes_max",
    "allocated_memory_bytes_max",
    "reserved_memory_bytes_max",
    "num_ranks",
    "num_classes",
    "num_events",
    "num_flows",
    "num_solves",
)
"""The figures that are one number: what ``expect`` and ``check`` may bound."""

SHARED_METRICS = ("slowdown",)
"""Those that only a scenario with tenants has: ``expect`` may bound them."""


def wait_times(placed: PlacedProgram, timing: Timing, steps: int) -> dict[str, float]:
    """What kernels waited for, in seconds per step, means over ranks: communication by axis, the pipeline;
    and what they took longer because communication ran beside them.
    """
    mean = _step(placed, timing, steps).of(_mean_over(placed.classes.sizes))
    every = {
        **mean.exposed,
        "kernels beside communication": mean.parts["slowed_s"],
        "pipeline wait": mean.parts["pipeline_wait_s"],
        "offload wait": mean.parts["offload_wait_s"],
        "input wait": mean.parts["input_wait_s"],
        "idle": mean.parts["idle_s"],
    }
    return {name: lost for name, lost in sorted(every.items()) if lost}


def _step(placed: PlacedProgram, timing: Timing, steps: int) -> StepBreakdown:
    """The breakdown of a step, in seconds."""
    return break_down(placed.program, timing, placed.num_stages).of(lambda ns: ns * (1e-9 / steps))


def _mean_over(sizes: Sequence[int] | Ints) -> Callable[[Floats], float]:
    """What gives the mean over ranks of a figure by class, of which there are so many ranks each."""
    return lambda values: float(np.average(values, weights=sizes))


def _groups(placed: PlacedProgram, cut: StepBreakdown) -> list[dict[str, Any]]:
    """Per group of hosts: what its ranks do with the step, in the mean; the one that waits longest waits for
    the others.
    """
    classes = placed.classes
    every = np.arange(placed.num_ranks)
    member = placed.cluster.group_of(every)
    groups = []
    for number, group in enumerate(placed.cluster.groups):
        ranks = every[member == number]
        mean = cut.of(_mean_over(np.bincount(classes.of_rank[ranks], minlength=len(classes))))
        groups.append(
            {
                "group": number,
                "host": group.host.name,
                "device": group.host.device.name,
                "ranks": group.num_devices,
                "first_rank": int(ranks[0]),
                **{name: mean.parts[name] for name in ("compute_s", "slowed_s", "host_s")},
                "exposed_communication_s": sum(mean.exposed.values()),
                "wait_s": sum(mean.parts[name] for name in WAITS),
            }
        )
    return groups
