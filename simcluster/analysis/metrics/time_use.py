"""Where the time of a step goes, by operator, by kernel and by collective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simcluster.analysis.placed_program import PlacedProgram
from simcluster.analysis.timeline import exposed_times
from simcluster.cluster import Device
from simcluster.engine import NOTHING, GroupTiming, Timing
from simcluster.program import Instruction, InstructionKind, charged_to, runs_kernels
from simcluster.work import Kernel, Work

_MATRIX = (Kernel.GEMM, Kernel.CONV, Kernel.ATTENTION)
"""Kernels that run on the matrix units where the device has some."""


@dataclass
class KernelTime:
    """What kernels take, in nanoseconds summed over ranks and steps.

    ``peak`` and ``bandwidth`` are what their FLOPs would take at the device's peak, and their bytes at the
    full bandwidth of its memory; ``times`` counts them.
    """

    arithmetic: float = 0.0
    memory: float = 0.0
    launch: float = 0.0
    peak: float = 0.0
    bandwidth: float = 0.0
    times: float = 0.0

    @property
    def busy(self) -> float:
        """Without launches."""
        return self.arithmetic + self.memory

    def add(self, parts: Sequence[float], share: float, peak: float, bandwidth: float, times: float) -> None:
        """Adds a share of what an operator takes, ``parts`` by what they are bound by."""
        arithmetic, memory, launch = parts
        self.arithmetic += share * arithmetic
        self.memory += share * memory
        self.launch += share * launch
        self.peak += peak
        self.bandwidth += bandwidth
        self.times += times

    def document(self, scale: float, step: float) -> dict[str, Any]:
        """Seconds per rank and step, their share of the step, what bounds them, and the shares of peaks."""
        parts = {"arithmetic": self.arithmetic, "memory": self.memory, "launch": self.launch}
        seconds = sum(parts.values()) * scale
        return {
            "seconds": seconds,
            "share": seconds / step if step else 0.0,
            "bound": max(parts, key=lambda name: parts[name]),
            **{f"{name}_s": spent * scale for name, spent in parts.items()},
            "of_peak": self.peak / self.busy if self.busy else 0.0,
            "of_bandwidth": self.bandwidth / self.busy if self.busy else 0.0,
            "times": self.times * scale * 1e9,
        }


@dataclass
class CollectiveTime:
    """What collectives, transfers or copies take, in nanoseconds summed over ranks and steps."""

    axis: str
    operation: str
    num_bytes: int
    under_way: int = 0
    exposed: int = 0
    times: int = 0

    def document(self, scale: float, step: float) -> dict[str, Any]:
        """Seconds per rank and step; bytes are those of one of them."""
        return {
            "axis": self.axis,
            "operation": self.operation,
            "bytes": self.num_bytes,
            "seconds": self.under_way * scale,
            "exposed_s": self.exposed * scale,
            "share": self.exposed * scale / step if step else 0.0,
            "times": self.times * scale * 1e9,
        }


@dataclass
class _TimeUse:
    placed: PlacedProgram
    timing: Timing
    operators: dict[tuple[str, str], KernelTime] = field(default_factory=dict)
    kernels: dict[str, KernelTime] = field(default_factory=dict)
    collectives: dict[tuple[str, str], CollectiveTime] = field(default_factory=dict)
    made_of: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)

    def add_kernels(self) -> None:
        """The kernels of all classes; whole nanoseconds are summed first, whatever groups classes are in.

        As in the summary's MFU, a changed device counts with the peak of its file.
        """
        cluster, classes = self.placed.cluster, self.placed.classes
        totals: dict[tuple[int, int], tuple[Any, int]] = {}
        for group in self.timing.groups:
            indices = np.array(group.group.indices)
            sizes = np.array(classes.sizes)[indices]
            kind = int(cluster.group_of(np.array([classes.representatives[indices[0]]]))[0])
            for code, executions in group.group.part.by_code().items():
                priced, runs = group.group.codes[code], len(executions)
                parts = priced.parts(np.arange(len(self.placed.program.codes[code].instructions)))
                spent = (parts * (sizes if parts.shape[2] > 1 else sizes.sum())).sum(axis=2) * runs
                before, count = totals.get((code, kind), (0, 0))
                totals[code, kind] = before + spent, count + int(sizes.sum()) * runs
        for (code, kind), (spent, count) in totals.items():
            block, device = self.placed.program.codes[code], cluster.groups[kind].host.device
            for instruction, row in zip(block.instructions, spent.tolist(), strict=True):
                if instruction.action is InstructionKind.COMPUTE and runs_kernels(instruction):
                    self._add_operator(block.name, instruction, row, device, count)

    def _add_operator(
        self, block: str, instruction: Instruction, parts: Sequence[float], device: Device, count: int
    ) -> None:
        weights = [max(0.0, device.kernel_time(work) - device.launch) for work in instruction.works]
        whole = sum(weights)
        if not whole:
            weights, whole = [1.0] * len(weights), float(len(weights))
        key = block, instruction.name
        operator, made_of = self.operators.setdefault(key, KernelTime()), self.made_of.setdefault(key, {})
        operator.times += count
        for work, weight in zip(instruction.works, weights, strict=True):
            peak, bandwidth = (spent * count for spent in _ideal(work, device))
            name = str(work.kernel)
            operator.add(parts, weight / whole, peak, bandwidth, 0)
            kernel = self.kernels.setdefault(name, KernelTime())
            kernel.add(parts, weight / whole, peak, bandwidth, count)
            made_of[name] = made_of.get(name, 0.0) + weight

    def add_collectives(self, group: GroupTiming) -> None:
        """The communication of the classes of a group, as long as it is under way."""
        sizes = np.array(self.placed.classes.sizes)[np.array(group.group.indices)]
        part = group.group.part
        for number in range(len(part.streams)):
            if number == part.compute:
                continue
            rows = part.entries(number)
            kinds = part.kinds(number)
            doing = kinds.which != NOTHING
            spent = ((group.ends[rows] - group.starts[rows]) * sizes).sum(axis=1)
            sums = np.bincount(kinds.which[doing], spent[doing], len(kinds.places))
            counts = np.bincount(kinds.which[doing], minlength=len(kinds.places)) * int(sizes.sum())
            for place, under_way, times in zip(kinds.places, sums, counts.tolist(), strict=True):
                collective = self._collective(place)
                collective.under_way += round(under_way)
                collective.times += times

    def _collective(self, place: tuple[int, int]) -> CollectiveTime:
        block = self.placed.program.codes[place[0]]
        instruction = block.instructions[place[1]]
        axis = "+".join(charged_to(instruction.stream, self.placed.program.stage_axis))
        made = CollectiveTime(axis, instruction.operation or str(instruction.action), instruction.num_bytes)
        return self.collectives.setdefault((block.name, instruction.name), made)

    def add_exposed(self) -> None:
        """How long each lets kernels wait."""
        placed = self.placed
        times = exposed_times(placed.program, self.timing, placed.num_stages, placed.classes.sizes)
        for place, exposed in times.items():
            self._collective(place).exposed += exposed


def _ideal(work: Work, device: Device) -> tuple[float, float]:
    """Nanoseconds that the FLOPs of a kernel take at the device's peak, and its bytes at full bandwidth."""
    rates: Mapping[Any, float] = device.peak if work.kernel in _MATRIX else device.vector
    peak = work.flops / rates[work.dtype] if work.dtype in rates else 0.0
    return peak * 1e9, work.bytes_moved / device.memory_bandwidth * 1e9


def time_use_document(placed: PlacedProgram, timing: Timing, steps: int) -> dict[str, Any]:
    """``operators``, ``kernels`` and ``collectives`` with what they take, the longest first.

    Seconds are per rank and step, means over ranks; kernels count as if nothing slowed them. ``of_peak`` is
    the share of the peak FLOP/s that arithmetic reaches while kernels run, ``of_bandwidth`` that of the
    memory's bandwidth. ``exposed_s`` of collectives sum to what the summary says of their axis.
    """
    use = _TimeUse(placed, timing)
    for group in timing.groups:
        use.add_collectives(group)
    use.add_kernels()
    use.add_exposed()
    scale, step = 1e-9 / placed.num_ranks / steps, timing.end * 1e-9 / steps
    return {
        "operators": _sorted(
            {"block": block, "name": name, "kernel": _largest(use.made_of[block, name])}
            | own.document(scale, step)
            for (block, name), own in use.operators.items()
        ),
        "kernels": _sorted(
            {"kernel": kernel} | own.document(scale, step) for kernel, own in use.kernels.items()
        ),
        "collectives": _sorted(
            {"block": block, "name": name} | own.document(scale, step)
            for (block, name), own in use.collectives.items()
        ),
    }


def _largest(kernels: Mapping[str, float]) -> str:
    """The kernel that an operator spends most of its time in."""
    return max(kernels, key=lambda name: kernels[name]) if kernels else ""


def _sorted(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries by what they cost: what is exposed of collectives, the time of kernels."""
    return sorted(entries, key=lambda entry: (-entry.get("exposed_s", 0.0), -entry["seconds"]))
