"""The figures of a run: step time and where it goes, what memory holds, what the network carries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster import units
from simcluster.analysis import (
    CATEGORIES,
    IDLE,
    PIPELINE_WAIT,
    RULE,
    Flops,
    Vocabulary,
    alive,
    cut,
    cut_of,
    forward_flops,
    matrix_flops,
    verdict_of,
)
from simcluster.analysis import account as engine_account
from simcluster.analysis import peaks as engine_peaks
from simcluster.collectives import Operation
from simcluster.engine import Swept, Timing
from simcluster.program import (
    HOST,
    INPUT,
    OFFLOAD,
    Action,
    Calls,
    Category,
    Code,
    HostCalls,
    Instruction,
    stream_axes,
)
from simcluster.simulation.compose import Built
from simcluster.simulation.dispatched import dispatched
from simcluster.simulation.host_memory import HostMemory
from simcluster.trace import Table
from simcluster.work import Kernel

Floats = NDArray[Any]

_CUT = ("compute_s", "slowed_s", "host_s", "pipeline_wait_s", "offload_wait_s", "input_wait_s", "idle_s")


def summarise(
    built: Built,
    timing: Timing,
    gaps: Table,
    hosts: Sequence[HostMemory],
    memory: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The result document, SI units, numbers as numbers; ``memory`` are the peaks with their verdicts.

    Times are per step; figures without suffix are means over ranks, ``_max`` the largest of any class.
    ``host_memory_bytes``, only where anything is offloaded, has what hosts hold for their devices.
    ``slowed_s`` is what kernels took longer because communication ran beside them.
    ``mfu`` and ``hfu`` are shares of the peak in the format that matrix units multiply (fp8 where layers do,
    though attention and head then still run in a slower one): the convention that never flatters. A changed
    device counts with the peak of its file. ``groups``, only in a mixed cluster, has for each group of hosts
    the means over its ranks; ``dispatch``, only where pieces are graphs, how many operators the host
    dispatches by themselves and in graphs.
    """
    scenario, plan = built.scenario, built.plan
    steps = scenario.spec.run.steps
    step = timing.end * 1e-9 / steps
    ranks = plan.mesh.num_ranks
    task = scenario.spec.task
    tokens = task.global_batch * task.seq_len
    model = _model_flops(built)
    capacity = sum(
        step * group.num_devices * group.host.device.peak[plan.matmul] for group in built.cluster.groups
    )
    cut = _Cut.of(built, timing, gaps)
    beside = [each.peak() for each in hosts]
    done = _executed_flops(built) * (1 / steps)
    wait, compute = cut.mean(cut.parts["pipeline_wait_s"]), cut.mean(cut.parts["compute_s"])
    return {
        "step_time_s": step,
        "tokens_per_s": tokens / step,
        "tokens_per_s_per_device": tokens / step / ranks,
        "samples_per_s": task.global_batch / step,
        "model_flops_per_s_per_device": model.counted / step / ranks,
        "mfu": model.counted / capacity,
        "hfu": done.counted / capacity,
        "mfu_full_attention": model.square / capacity,
        "hfu_full_attention": done.square / capacity,
        "bubble_fraction": wait / step,
        "bubble_over_compute": wait / compute if compute else 0.0,
        **{name: cut.mean(cut.parts[name]) for name in _CUT},
        **{f"{name}_max": float(cut.parts[name].max()) for name in _CUT},
        "exposed_communication_s": {axis: cut.mean(values) for axis, values in cut.exposed.items()},
        "exposed_communication_s_max": {axis: float(values.max()) for axis, values in cut.exposed.items()},
        "communication_bytes": _traffic(built),
        **({"groups": _groups(built, cut)} if built.cluster.mixed else {}),
        "peak_memory_bytes": memory,
        "peak_memory_bytes_max": max(each["total"] for each in memory),
        **({"host_memory_bytes": beside} if beside else {}),
        **verdict_of(memory, beside),
        "verdict_rule": RULE,
        "num_ranks": ranks,
        "num_classes": len(built.classes),
        "num_events": timing.num_events,
        "num_flows": timing.num_flows,
        "num_solves": timing.num_solves,
        **_calls(built, cut.sizes),
        **({"dispatch": dispatched(built)} if built.plan.pieces else {}),
        "assumptions": assumptions(built),
    }


def _model_flops(built: Built) -> Flops:
    """The matrix FLOPs of a step that the model needs, whatever a plan computes besides."""
    plan, training = built.plan, built.scenario.spec.training
    if training is None:
        return forward_flops(plan.logical) * plan.num_micro_batches
    graph = built.scenario.model.counted.graph(1, training.seq_len, plan.compute, 1)
    return forward_flops(graph) * (3 * training.global_batch)


METRICS = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "samples_per_s",
    "model_flops_per_s_per_device",
    "mfu",
    "hfu",
    "mfu_full_attention",
    "hfu_full_attention",
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


def waited(built: Built, timing: Timing, gaps: Table) -> dict[str, float]:
    """What kernels waited for, in seconds per step, means over ranks: communication by axis, the pipeline;
    and what they took longer because communication ran beside them.
    """
    cut = _Cut.of(built, timing, gaps)
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
    def of(cls, built: Built, timing: Timing, gaps: Table) -> _Cut:
        steps = built.scenario.spec.run.steps
        sizes = np.array(built.classes.sizes, dtype=np.float64)
        if timing.swept is not None:
            found = cut(timing.swept, built.plan.stage_axis)
        else:
            found = cut_of(built.program, timing.classes, gaps)
        count, busy, host = len(sizes), found.busy.astype(np.float64), found.host.astype(np.float64)
        spent = busy + found.slowed
        lost = {cause: spent.astype(np.float64) for cause, spent in found.lost.items()}
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


def _groups(built: Built, cut: _Cut) -> list[dict[str, Any]]:
    """Per group of hosts: what its ranks do with the step, in the mean; the one that waits longest waits for
    the others.
    """
    every = np.arange(built.plan.mesh.num_ranks)
    member = built.cluster.group_of(every)
    found = []
    for number, group in enumerate(built.cluster.groups):
        ranks = every[member == number]
        sizes = np.bincount(built.classes.of_rank[ranks], minlength=len(built.classes)).astype(np.float64)
        exposed = sum(cut.mean(values, sizes) for values in cut.exposed.values())
        waits = sum(cut.mean(cut.parts[name], sizes) for name in _CUT if name.endswith(("wait_s", "idle_s")))
        found.append(
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
    return found


def _calls(built: Built, sizes: Floats) -> dict[str, float]:
    """Collectives that a rank takes part in per step, and the host's calls for them: means over ranks."""
    calls = Calls.of(built.program, HostCalls.of(built.plan))
    parts = [built.program.part_of(rank) for rank in built.classes.representatives]
    found = np.array([calls.number(part) for part in parts], dtype=np.float64)
    mean = (found * sizes[:, None]).sum(axis=0) / sizes.sum()
    return {"collectives": float(mean[0]), "collective_calls": float(mean[1])}


def _executions(built: Built) -> Iterator[tuple[Code, int]]:
    """Every code with how often it runs, over all parts, ranks and steps."""
    ranks = np.zeros(len(built.program.parts), dtype=np.int64)
    for rank, size in zip(built.classes.representatives, built.classes.sizes, strict=True):
        ranks[built.program.part_of(rank)] += size
    times = built.scenario.spec.run.steps
    for part, size in zip(built.program.parts, ranks.tolist(), strict=True):
        for code, runs in sorted(Counter(execution.code for execution in part.executions).items()):
            yield built.program.codes[code], runs * times * size


def _executed_flops(built: Built) -> Flops:
    """What all ranks computed in the whole run."""
    total = Flops()
    for code, runs in _executions(built):
        total += matrix_flops(work for each in code.instructions for work in each.works) * runs
    return total


def _traffic(built: Built) -> dict[str, dict[str, float]]:
    """Axis -> operation -> bytes that a rank sends per step, mean over ranks."""
    found: dict[str, dict[str, float]] = {}
    total = sum(built.classes.sizes) * built.scenario.spec.run.steps
    for code, runs in _executions(built):
        for each in code.instructions:
            sent = _sent(built, each)
            if sent:
                operations = found.setdefault(stream_axes(each.stream, built.plan.stage_axis), {})
                operations[each.operation] = operations.get(each.operation, 0.0) + sent * runs / total
    return {axis: dict(sorted(found[axis].items())) for axis in sorted(found)}


def _sent(built: Built, each: Instruction) -> float:
    """Bytes a member sends on average, as a ring would: nccl-tests' bus bytes."""
    if each.action is Action.SEND:
        return float(each.num_bytes)
    if each.action is not Action.COLLECTIVE:
        return 0.0
    ranks = built.plan.mesh.product(each.group)
    if each.parts is not None:
        tables = [each.parts.of_number(group) for group in range(len(each.parts.of_group))]
        away = sum((int(table.counts.sum()) - int(np.trace(table.counts))) * table.share for table in tables)
        return each.num_bytes * away / ranks / len(tables)
    return Operation(each.operation).copies(ranks) / ranks * each.num_bytes


def peaks(built: Built, account: Table) -> list[dict[str, Any]]:
    """Per class: the peak, when it was, what it was made of, and by how much it exceeds the device."""
    found = []
    for index in range(len(built.classes)):
        rows = account.where(account["class"] == index)
        level = np.cumsum(rows["bytes"])
        top = int(level.argmax())
        entry = _peak(built, index, int(level[top]), int(rows["time"][top]))
        kinds, sizes = rows["category"][: top + 1], rows["bytes"][: top + 1]
        entry["breakdown"] = _by_category(kinds, sizes)
        if level[top] > entry["capacity"]:
            first = int(np.argmax(level > entry["capacity"]))
            living = alive(
                rows["buffer"][: top + 1], sizes, rows["micro_batch"][: top + 1], rows.names["buffer"]
            )
            entry |= _excess(entry, int(rows["time"][first]), living)
        found.append(entry)
    return found


def swept_peaks(built: Built, swept: Swept) -> list[dict[str, Any]]:
    """The same of a sweep."""
    found: dict[int, dict[str, Any]] = {}
    buffers = Vocabulary()
    for stage, lanes in zip(swept.stages, swept.lanes, strict=True):
        device = built.cluster.device(built.classes.representatives[int(stage.columns[0])])
        rows = engine_account(built.program, stage.number, device, stage.linked, buffers)
        most = engine_peaks(rows, lanes, device.memory)
        names = list(buffers.names)
        for held in most.held:
            sizes = rows.sizes[held.rows]
            breakdown = _by_category(rows.kinds[held.rows], sizes)
            living = None
            for column in held.columns.tolist():
                index = int(stage.columns[column])
                entry = _peak(built, index, int(most.total[column]), int(most.time[column]))
                entry["breakdown"] = dict(breakdown)
                if entry["total"] > entry["capacity"]:
                    batches = rows.micro_batches[held.rows]
                    living = living or alive(rows.buffers[held.rows], sizes, batches, names)
                    entry |= _excess(entry, int(most.exceeded[column]), living)
                found[index] = entry
    return [found[index] for index in range(len(found))]


def _peak(built: Built, index: int, total: int, time: int) -> dict[str, Any]:
    """The peak of a class, in bytes, at a time in nanoseconds."""
    rank = built.classes.representatives[index]
    device = built.cluster.device(rank)
    return {
        "class": index,
        "stage": built.program.stage_of(rank),
        "rank": rank,
        "ranks": built.classes.sizes[index],
        "device": device.name,
        **program_of(built, rank),
        "total": total,
        "capacity": device.memory,
        "time_s": float(time) * 1e-9,
        "breakdown": {},
    }


def program_of(built: Built, rank: int) -> dict[str, str]:
    """Which of several hand-written programs a rank runs; nothing where parts are stages."""
    return {"program": f"program {built.program.part_of(rank)}"} if built.plan.assigned else {}


def _by_category(kinds: NDArray[Any], sizes: NDArray[Any]) -> dict[str, int]:
    found = {name: int(sizes[kinds == number].sum()) for number, name in enumerate(CATEGORIES)}
    # Only inference has caches.
    return {name: size for name, size in found.items() if size or name != Category.KV_CACHE}


def _excess(entry: Mapping[str, Any], first: int, living: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "exceeded_at_s": float(first) * 1e-9,
        "excess": entry["total"] - entry["capacity"],
        "alive": living,
    }


def assumptions(built: Built) -> list[dict[str, str]]:
    """The figures nobody measured or published that the run leans on, and what the model leaves out."""
    found = [{"name": a.name, "value": a.value, "source": a.source} for a in built.cluster.assumptions]
    framework = built.scenario.framework
    found.append({"name": "framework", "value": built.scenario.framework.name, "source": framework.source})
    headroom = framework.storage.headroom
    given = built.scenario.spec.run.headroom
    if given is None and headroom is not None and headroom.provenance == "assumed":
        told = units.size(headroom.value)
        found.append({"name": "headroom", "value": told, "source": headroom.source})
    ranks = built.classes.representatives
    devices = dict.fromkeys(map(built.cluster.device, ranks))
    bare = dict.fromkeys(device.name for device in devices if device.communication is None)
    if bare:
        found.append(
            {
                "name": "kernels",
                "value": "not slowed beside communication",
                "source": f"no figure for what communication takes of {', '.join(bare)}",
            }
        )
    unknown = dict.fromkeys(device.name for device in devices if device.convolution is None)
    if unknown and _convolves(built):
        found.append(
            {
                "name": "convolutions",
                "value": "as fast as the matmuls that they are",
                "source": f"no table of convolutions on {', '.join(unknown)}; libraries compute them as "
                "implicit matmuls (arXiv 1410.0759)",
            }
        )
    return found


def _convolves(built: Built) -> bool:
    """Whether any kernel is a convolution."""
    return any(
        work.kernel is Kernel.CONV
        for code in built.program.codes
        for each in code.instructions
        for work in each.works
    )
