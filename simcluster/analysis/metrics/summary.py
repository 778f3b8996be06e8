"""The figures of a run: step time and where it goes, what memory holds, what the network carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage import RULE, HostMemory, overall_verdict
from simcluster.analysis.placed_program import PlacedProgram
from simcluster.analysis.timeline import IDLE, PIPELINE_WAIT, break_down
from simcluster.collectives import Operation
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Timing
from simcluster.layout import Mesh
from simcluster.model import Flops, matrix_flops
from simcluster.plan import Task
from simcluster.program import (
    HOST,
    INPUT,
    OFFLOAD,
    WITH_SERVER,
    CollectiveCalls,
    HostCalls,
    Instruction,
    InstructionKind,
    charged_to,
)
from simcluster.work import DType

Floats = NDArray[Any]

_CUT = ("compute_s", "slowed_s", "host_s", "pipeline_wait_s", "offload_wait_s", "input_wait_s", "idle_s")


def summarise_run(
    placed: PlacedProgram,
    timing: Timing,
    *,
    task: Task,
    steps: int,
    needed: Flops,
    matmul: DType,
    host: HostCalls,
    hosts: Sequence[HostMemory],
    memory: Sequence[Mapping[str, Any]],
    dispatch: Mapping[str, float] | None,
    assumed: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """The result document of a run of so many ``steps``: SI units, numbers as numbers.

    ``needed`` are the FLOPs of a step of the model, ``matmul`` the format that matrix units multiply,
    ``memory`` the peaks with their verdicts, ``assumed`` what the run leans on without a measurement.
    Times are per step; figures without suffix are means over ranks, ``_max`` the largest of any class.
    ``host_memory_bytes``, only where anything is offloaded, has what hosts hold for their devices.
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
    cut = _Cut.of(placed, timing, steps)
    beside = [host.peak() for host in hosts]
    done = _executed_flops(placed, steps) * (1 / steps)
    wait, compute = cut.mean(cut.parts["pipeline_wait_s"]), cut.mean(cut.parts["compute_s"])
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
        **{name: cut.mean(cut.parts[name]) for name in _CUT},
        **{f"{name}_max": float(cut.parts[name].max()) for name in _CUT},
        "exposed_communication_s": {axis: cut.mean(values) for axis, values in cut.exposed.items()},
        "exposed_communication_s_max": {axis: float(values.max()) for axis, values in cut.exposed.items()},
        "communication_bytes": _traffic(placed, steps),
        **({"groups": _groups(placed, cut)} if cluster.mixed else {}),
        "peak_memory_bytes": memory,
        "peak_memory_bytes_max": max(entry["total"] for entry in memory),
        **({"host_memory_bytes": beside} if beside else {}),
        **overall_verdict(memory, beside),
        "verdict_rule": RULE,
        "num_ranks": ranks,
        "num_classes": len(placed.classes),
        "num_events": timing.num_events,
        "num_flows": timing.num_flows,
        "num_solves": timing.num_solves,
        **_calls(placed, host, cut.sizes),
        **({"dispatch": dispatch} if dispatch else {}),
        "assumptions": assumed,
    }


def _executed_flops(placed: PlacedProgram, steps: int) -> Flops:
    """The matrix FLOPs that all ranks execute in so many steps, recomputation included."""
    total = Flops()
    for code, runs in placed.executions(steps):
        total += matrix_flops(work for instruction in code.instructions for work in instruction.works) * runs
    return total


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
    *_CUT,
    *(f"{name}_max" for name in _CUT),
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
    cut = _Cut.of(placed, timing, steps)
    every = {
        **cut.exposed,
        "kernels beside communication": cut.parts["slowed_s"],
        "pipeline wait": cut.parts["pipeline_wait_s"],
        "offload wait": cut.parts["offload_wait_s"],
        "input wait": cut.parts["input_wait_s"],
        "idle": cut.parts["idle_s"],
    }
    return {name: value for name, lost in sorted(every.items()) if (value := cut.mean(lost))}


@dataclass(frozen=True)
class _Cut:
    """The step of every class cut into its parts, in seconds per step; ``sizes`` are ranks per class."""

    sizes: Floats
    parts: Mapping[str, Floats]
    exposed: Mapping[str, Floats]

    @classmethod
    def of(cls, placed: PlacedProgram, timing: Timing, steps: int) -> _Cut:
        sizes = np.array(placed.classes.sizes, dtype=np.float64)
        breakdown = break_down(placed.program, timing, placed.num_stages)
        count, busy, host = len(sizes), breakdown.busy.astype(np.float64), breakdown.host.astype(np.float64)
        spent = busy + breakdown.slowed
        lost = {cause: spent.astype(np.float64) for cause, spent in breakdown.lost.items()}
        scale = 1e-9 / steps
        parts: dict[str, Floats] = {name: np.zeros(count) for name in _CUT}
        parts |= {
            "compute_s": (busy - host) * scale,
            "slowed_s": (spent - busy) * scale,
            "host_s": (host + lost.pop(HOST, np.zeros(count))) * scale,
            "pipeline_wait_s": lost.pop(PIPELINE_WAIT, np.zeros(count)) * scale,
            "offload_wait_s": lost.pop(OFFLOAD, np.zeros(count)) * scale,
            "input_wait_s": lost.pop(INPUT, np.zeros(count)) * scale,
            "idle_s": lost.pop(IDLE, np.zeros(count)) * scale,
        }
        return cls(sizes, parts, {axis: values * scale for axis, values in lost.items()})

    def mean(self, values: Floats, sizes: Floats | None = None) -> float:
        """The mean over ranks of a figure by class; over ``sizes`` of them, if not all are asked for."""
        counted = self.sizes if sizes is None else sizes
        return float((values * counted).sum() / counted.sum())


def _groups(placed: PlacedProgram, cut: _Cut) -> list[dict[str, Any]]:
    """Per group of hosts: what its ranks do with the step, in the mean; the one that waits longest waits for
    the others.
    """
    classes = placed.classes
    every = np.arange(placed.num_ranks)
    member = placed.cluster.group_of(every)
    groups = []
    for number, group in enumerate(placed.cluster.groups):
        ranks = every[member == number]
        sizes = np.bincount(classes.of_rank[ranks], minlength=len(classes)).astype(np.float64)
        exposed = sum(cut.mean(values, sizes) for values in cut.exposed.values())
        waits = sum(cut.mean(cut.parts[name], sizes) for name in _CUT if name.endswith(("wait_s", "idle_s")))
        groups.append(
            {
                "group": number,
                "host": group.host.name,
                "device": group.host.device.name,
                "ranks": group.num_devices,
                "first_rank": int(ranks[0]),
                "compute_s": cut.mean(cut.parts["compute_s"], sizes),
                "slowed_s": cut.mean(cut.parts["slowed_s"], sizes),
                "host_s": cut.mean(cut.parts["host_s"], sizes),
                "exposed_communication_s": exposed,
                "wait_s": waits,
            }
        )
    return groups


def _calls(placed: PlacedProgram, host: HostCalls, sizes: Floats) -> dict[str, float]:
    """Collectives that a rank takes part in per step, and the host's calls for them: means over ranks."""
    calls = CollectiveCalls.of(placed.program, host)
    counts = np.array([calls.number(part) for part in placed.parts], dtype=np.float64)
    mean = (counts * sizes[:, None]).sum(axis=0) / sizes.sum()
    return {"collectives": float(mean[0]), "collective_calls": float(mean[1])}


def _traffic(placed: PlacedProgram, steps: int) -> dict[str, dict[str, float]]:
    """Axis -> operation -> bytes that a rank sends per step, mean over ranks."""
    traffic: dict[str, dict[str, float]] = {}
    program, total = placed.program, placed.num_ranks * steps
    for code, runs in placed.executions(steps):
        for instruction in code.instructions:
            sent = _sent(program.mesh, instruction)
            if sent:
                operations = traffic.setdefault(
                    "+".join(charged_to(instruction.stream, program.stage_axis)), {}
                )
                operations[instruction.operation] = (
                    operations.get(instruction.operation, 0.0) + sent * runs / total
                )
    return {axis: dict(sorted(traffic[axis].items())) for axis in sorted(traffic)}


def _sent(mesh: Mesh, instruction: Instruction) -> float:
    """Bytes a member sends on average, as a ring would: nccl-tests' bus bytes."""
    if instruction.action is InstructionKind.SEND or instruction.action in WITH_SERVER:
        return float(instruction.num_bytes)
    if instruction.action is not InstructionKind.COLLECTIVE:
        return 0.0
    ranks = mesh.product(instruction.group)
    if instruction.parts is not None:
        tables = [instruction.parts.of_number(group) for group in range(len(instruction.parts.of_group))]
        away = sum((int(table.counts.sum()) - int(np.trace(table.counts))) * table.share for table in tables)
        return instruction.num_bytes * away / ranks / len(tables)
    return Operation(instruction.operation).copies(ranks) / ranks * instruction.num_bytes
