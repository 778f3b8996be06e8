"""Where the time of a step goes, by operator, by kernel and by collective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline import exposed_times
from simcluster.cluster import Device
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import GroupTiming, Timing
from simcluster.program import InstructionKind, PlacedProgram, charged_to, runs_kernels
from simcluster.work import Kernel, Work

Ints = NDArray[np.int64]

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


Place = tuple[int, int]
"""A code, and an instruction of it."""


@dataclass
class _TimeUse:
    """Sums are of integers, and what is made of them in the order of the Program: how classes are grouped
    does not change a bit.
    """

    placed: PlacedProgram
    timing: Timing
    spent: dict[tuple[Place, Device], Ints] = field(default_factory=dict)
    """By instruction and device as its file has it: what kernels take by what bounds them, and how many."""
    moved: dict[Place, Ints] = field(default_factory=dict)
    """By instruction: how long it is under way, and how often."""

    def add_group(self, group: GroupTiming) -> None:
        """What the classes of a group do."""
        indices = group.group.indices
        sizes = np.array(self.placed.classes.sizes, dtype=np.int64)[np.array(indices)]
        first = self.placed.classes.representatives[indices[0]]
        self._add_kernels(group, sizes, self.placed.cluster.fleet([first]).device)
        self._add_communication(group, sizes)

    def _add_kernels(self, group: GroupTiming, sizes: Ints, device: Device) -> None:
        for code, executions in group.group.part.by_code().items():
            block = self.placed.program.codes[code]
            parts = group.group.codes[code].parts(np.arange(len(block.instructions)))
            ranks = sizes if parts.shape[2] > 1 else sizes.sum(keepdims=True)
            spent = (parts * ranks).sum(axis=2) * len(executions)
            count = int(sizes.sum()) * len(executions)
            for place, instruction in enumerate(block.instructions):
                if instruction.action is InstructionKind.COMPUTE and runs_kernels(instruction):
                    known = self.spent.setdefault(((code, place), device), np.zeros(4, dtype=np.int64))
                    known += np.append(spent[place], count)

    def _add_communication(self, group: GroupTiming, sizes: Ints) -> None:
        under_way = ((group.ends - group.starts) * sizes).sum(axis=1)
        for place, spent, count in group.group.part.sums_by_place(under_way):
            known = self.moved.setdefault(place, np.zeros(2, dtype=np.int64))
            known += spent, count * int(sizes.sum())

    def kernels(self) -> tuple[dict[tuple[str, str, str], KernelTime], dict[str, KernelTime]]:
        """What operators take, by block, name and the kernel that they spend most in; and kernels."""
        operators: dict[tuple[str, str], KernelTime] = {}
        made_of: dict[tuple[str, str], dict[str, float]] = {}
        kernels: dict[str, KernelTime] = {}
        for ((code, place), device), row in sorted(
            self.spent.items(), key=lambda entry: (entry[0][0], entry[0][1].name)
        ):
            block = self.placed.program.codes[code]
            instruction = block.instructions[place]
            *parts, count = row.tolist()
            weights = [max(0.0, device.kernel_time(work) - device.launch) for work in instruction.works]
            if not any(weights):
                weights = [1.0] * len(weights)
            key = block.name, instruction.name
            operator, own = operators.setdefault(key, KernelTime()), made_of.setdefault(key, {})
            operator.times += count
            for work, weight in zip(instruction.works, weights, strict=True):
                peak, bandwidth = (spent * count for spent in _ideal(work, device))
                name, share = str(work.kernel), weight / sum(weights)
                operator.add(parts, share, peak, bandwidth, 0)
                kernels.setdefault(name, KernelTime()).add(parts, share, peak, bandwidth, count)
                own[name] = own.get(name, 0.0) + weight
        named = {(*key, max(own, key=lambda name: own[name])): operators[key] for key, own in made_of.items()}
        return named, kernels

    def collectives(self) -> dict[tuple[str, str], CollectiveTime]:
        """What collectives, transfers and copies take, by block and name."""
        placed = self.placed
        exposed = exposed_times(placed.program, self.timing, placed.num_stages, placed.classes.sizes)
        collectives: dict[tuple[str, str], CollectiveTime] = {}
        for code, place in sorted(self.moved):
            block = placed.program.codes[code]
            instruction = block.instructions[place]
            axis = "+".join(charged_to(instruction.stream, placed.program.stage_axis))
            operation = instruction.operation or str(instruction.action)
            made = CollectiveTime(axis, operation, instruction.num_bytes)
            collective = collectives.setdefault((block.name, instruction.name), made)
            under_way, times = self.moved[code, place].tolist()
            collective.under_way += under_way
            collective.times += times
            collective.exposed += exposed.get((code, place), 0)
        return collectives


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
        use.add_group(group)
    operators, kernels = use.kernels()
    scale, step = 1e-9 / placed.num_ranks / steps, timing.end * 1e-9 / steps
    return {
        "operators": _sorted(
            {"block": block, "name": name, "kernel": kernel} | own.document(scale, step)
            for (block, name, kernel), own in operators.items()
        ),
        "kernels": _sorted({"kernel": kernel} | own.document(scale, step) for kernel, own in kernels.items()),
        "collectives": _sorted(
            {"block": block, "name": name} | own.document(scale, step)
            for (block, name), own in use.collectives().items()
        ),
    }


def _sorted(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries by what they cost: what is exposed of collectives, the time of kernels; equal ones in the order
    of the Program.
    """
    return sorted(entries, key=lambda entry: (-entry.get("exposed_s", 0.0), -entry["seconds"]))
