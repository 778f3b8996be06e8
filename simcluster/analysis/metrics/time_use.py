"""Where the time of a step goes, by operator, by kernel and by collective."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from simcluster.analysis.timeline import Place, exposed_times
from simcluster.cluster import Device
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import GroupTiming, Timing
from simcluster.number_arrays import Floats, Ints
from simcluster.program import InstructionKind, PlacedProgram, charged_to, runs_kernels
from simcluster.work import Kernel, Work

_BOUNDS = ("arithmetic", "memory", "launch")
"""What kernels are bound by."""

_MATRIX = (Kernel.GEMM, Kernel.CONV, Kernel.ATTENTION)
"""Kernels that run on the matrix units where the device has some."""


def time_use_document(placed: PlacedProgram, timing: Timing, steps: int) -> dict[str, Any]:
    """``operators``, ``kernels`` and ``collectives`` with what they take, the longest first.

    Seconds are per rank and step, means over ranks; kernels count as if nothing slowed them. ``of_peak`` is
    the share of the peak FLOP/s that arithmetic reaches while kernels run, ``of_bandwidth`` that of the
    memory's bandwidth. ``exposed_s`` of collectives sum to what the summary says of their axis.
    """
    use = _TimeUse(placed, timing, 1e-9 / placed.num_ranks / steps, timing.end * 1e-9 / steps)
    for group in timing.groups:
        use.add_group(group)
    return {**use.kernels(), "collectives": use.collectives()}


def _sums(width: int) -> Any:
    """A field of sums, each of so many integers."""
    return field(default_factory=lambda: defaultdict(lambda: np.zeros(width, dtype=np.int64)))


@dataclass
class _TimeUse:
    """Sums are of integers, and what is made of them in the order of the Program: how classes are grouped
    does not change a bit.
    """

    placed: PlacedProgram
    timing: Timing
    scale: float
    """Seconds per rank and step that a nanosecond of all ranks and steps is."""
    step: float
    """Seconds of a step."""
    spent: dict[tuple[Place, Device], Ints] = _sums(4)
    """By instruction and device as its file has it: what kernels take by what bounds them, and how many."""
    moved: dict[Place, Ints] = _sums(2)
    """By instruction: how long it is under way, and how often."""

    def add_group(self, group: GroupTiming) -> None:
        """What the classes of a group do."""
        indices = group.group.indices
        sizes = np.array(self.placed.classes.sizes, dtype=np.int64)[np.array(indices)]
        first = self.placed.classes.representatives[indices[0]]
        self._add_kernels(group, sizes, self.placed.cluster.fleet([first]).device)
        under_way = np.zeros(group.group.part.num_entries, dtype=np.int64)
        for number, entries, _ in group.group.part.communication():
            times = group.streams[number]
            of_meeting = np.zeros(times.ends.shape[1], dtype=np.int64)
            np.add.at(of_meeting, times.meeting, sizes)
            under_way[entries] = (times.ends - times.starts) @ of_meeting
        for place, spent, count in group.group.part.sums_by_place(under_way):
            self.moved[place] += spent, count * int(sizes.sum())

    def _add_kernels(self, group: GroupTiming, sizes: Ints, device: Device) -> None:
        for code, executions in group.group.part.by_code().items():
            block = self.placed.program.codes[code]
            parts = group.group.codes[code].parts(np.arange(len(block.instructions)))
            ranks = sizes if parts.shape[2] > 1 else sizes.sum(keepdims=True)
            spent = (parts * ranks).sum(axis=2) * len(executions)
            count = int(sizes.sum()) * len(executions)
            for place, instruction in enumerate(block.instructions):
                if instruction.action is InstructionKind.COMPUTE and runs_kernels(instruction):
                    self.spent[(code, place), device] += np.append(spent[place], count)

    def kernels(self) -> dict[str, list[dict[str, Any]]]:
        """What ``operators`` take, with the kernel that they spend most in, and ``kernels``."""
        operators: defaultdict[tuple[str, str], Floats] = defaultdict(lambda: np.zeros(6))
        kernels: defaultdict[str, Floats] = defaultdict(lambda: np.zeros(6))
        made_of: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
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
            operators[key][-1] += count
            for work, weight in zip(instruction.works, weights, strict=True):
                share = weight / sum(weights)
                spent = [
                    *(share * part for part in parts),
                    *(ideal * count for ideal in _ideal(work, device)),
                ]
                operators[key][:-1] += spent
                kernels[str(work.kernel)] += [*spent, count]
                made_of[key][str(work.kernel)] += weight  # type: ignore[assignment]
        named: Iterator[dict[str, Any]] = (
            {"block": block, "name": name, "kernel": max(own, key=lambda kernel: own[kernel])}
            | self._told(operators[block, name])
            for (block, name), own in made_of.items()
        )
        by_kernel = ({"kernel": kernel} | self._told(row) for kernel, row in kernels.items())
        return {"operators": _sorted(named), "kernels": _sorted(by_kernel)}

    def _told(self, row: Floats) -> dict[str, Any]:
        """What kernels take, of a row in nanoseconds: arithmetic, memory and launches, what their FLOPs would
        take at the device's peak and their bytes at the full bandwidth of its memory, and how many they are.
        """
        *spent, peak, bandwidth, times = row.tolist()
        seconds, busy = sum(spent) * self.scale, spent[0] + spent[1]
        return {
            "seconds": seconds,
            "share": seconds / self.step if self.step else 0.0,
            "bound": _BOUNDS[spent.index(max(spent))],
            **{f"{bound}_s": own * self.scale for bound, own in zip(_BOUNDS, spent, strict=True)},
            "of_peak": peak / busy if busy else 0.0,
            "of_bandwidth": bandwidth / busy if busy else 0.0,
            "times": times * self.scale * 1e9,
        }

    def collectives(self) -> list[dict[str, Any]]:
        """What collectives, transfers and copies take, by block and name; bytes are those of one of them."""
        placed, scale = self.placed, self.scale
        exposed = exposed_times(placed, self.timing)
        named: dict[tuple[str, str], tuple[dict[str, Any], Ints]] = {}
        for place in sorted(self.moved):
            block = placed.program.codes[place[0]]
            instruction = block.instructions[place[1]]
            told = {
                "block": block.name,
                "name": instruction.name,
                "axis": "+".join(charged_to(instruction.stream, placed.program.stage_axis)),
                "operation": instruction.operation or str(instruction.action),
                "bytes": instruction.num_bytes,
            }
            _, sums = named.setdefault((block.name, instruction.name), (told, np.zeros(3, dtype=np.int64)))
            sums += [*self.moved[place], exposed.get(place, 0)]
        return _sorted(
            told
            | {
                "seconds": under_way * scale,
                "exposed_s": waited * scale,
                "share": waited * scale / self.step if self.step else 0.0,
                "times": times * scale * 1e9,
            }
            for told, sums in named.values()
            for under_way, times, waited in [sums.tolist()]
        )


def _ideal(work: Work, device: Device) -> tuple[float, float]:
    """Nanoseconds that the FLOPs of a kernel take at the device's peak, and its bytes at full bandwidth."""
    rates: Mapping[Any, float] = device.peak if work.kernel in _MATRIX else device.vector
    peak = work.flops / rates[work.dtype] if work.dtype in rates else 0.0
    return peak * 1e9, work.bytes_moved / device.memory_bandwidth * 1e9


def _sorted(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries by what they cost: what is exposed of collectives, the time of kernels; equal ones in the order
    of the Program.
    """
    return sorted(entries, key=lambda entry: (-entry.get("exposed_s", 0.0), -entry["seconds"]))
