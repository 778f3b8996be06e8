"""What instructions cost to a class, and to all classes that run a part beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from simcluster.cluster import Device, DeviceArray, nanoseconds
from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import Choices, Transfer
from simcluster.engine.linking import PARTS, LinkedPart
from simcluster.engine.pricing.launch_queue import QueuedLaunch, launch_stalls
from simcluster.engine.pricing.workload import Workload
from simcluster.number_arrays import Ints
from simcluster.program import (
    CollectiveCalls,
    CollectiveRequests,
    Instruction,
    InstructionBlock,
    InstructionKind,
    peer_is_next_stage,
    runs_kernels,
)
from simcluster.work import Work


@dataclass(frozen=True, eq=False)
class PricedCode:
    """Nanoseconds [instructions, classes] of every instruction of a code; how many of them are launches and
    dispatch, and in how many memory holds it up. In one column if they are the same for all classes.
    """

    duration: Ints
    host: Ints
    memory: Ints

    def parts(self, kernels: Ints) -> Ints:
        """Nanoseconds [kernels, ``PARTS``, classes] of some kernels: those bound by the units, those bound by
        memory, those of launches and dispatch.
        """
        host, memory = self.host[kernels], self.memory[kernels]
        return np.stack([self.duration[kernels] - host - memory, memory, host], axis=1)


@dataclass(frozen=True)
class PricedGroup:
    """The classes ``indices``, which run a part on devices of one kind; the columns of all arrays.

    ``codes`` is what its codes cost them; ``many`` says that each may have its own prices.
    """

    part: LinkedPart
    indices: Sequence[int]
    codes: Mapping[int, PricedCode]
    many: bool

    def durations(self, code: int, instruction: int) -> Ints:
        """Nanoseconds [classes] of an instruction."""
        return np.broadcast_to(self.codes[code].duration[instruction], len(self.indices))

    def kernels(self) -> tuple[Ints, Ints]:
        """The different nanoseconds [prices, kernels, ``PARTS``] of the kernels of the part's segments, and
        which of them each class has.
        """
        parts = [self.codes[code].parts(own) for code, own in self.part.segments.kernels]
        columns = max((kernels.shape[2] for kernels in parts), default=1)
        every = np.concatenate([np.zeros((0, PARTS, columns), dtype=np.int64), *parts])
        return every.transpose(2, 0, 1), np.arange(len(self.indices)) % columns

    @cached_property
    def segment_times(self) -> Ints:
        """Nanoseconds [segments, classes] of the part's segments that nothing slows."""
        different, which = self.kernels()
        return self.part.segments.durations(different)[which].T.copy()


class Prices:
    """The prices of a workload's instructions. Kernels wait for the host as far as it is not ahead of them.

    What goes over links of a fabric takes what these leave it, which is no price; ``transfer`` says what it
    puts on them.
    """

    def __init__(self, workload: Workload) -> None:
        self.program, self.classes, self.cluster = workload.program, workload.classes, workload.cluster
        self.dispatch, self.fabric = workload.dispatch, workload.fabric
        self.calls = CollectiveCalls.of(self.program, workload.host)
        requests = CollectiveRequests(self.program, workload.algorithms)
        self.devices = [self.cluster.device(rank) for rank in self.classes.representatives]
        self.choices = Choices(self.classes, self.cluster, requests)
        # By code whether it has kernels, and an instruction for each way in which it moves something.
        self._paid: dict[int, tuple[bool, tuple[Instruction, ...]]] = {}

    def of_class(self, index: int, code: InstructionBlock) -> list[tuple[int, int, int]]:
        """Nanoseconds of a code's instructions for one class, how many are launches and dispatch, and in how
        many memory holds them up.
        """
        device = self.devices[index]
        return self._instructions(code, device, device.price, partial(self.moved, index, code))

    def of_classes(self, indices: Sequence[int], devices: DeviceArray, code: InstructionBlock) -> PricedCode:
        """The same for classes with these devices, all of one kind; equal for each to ``of_class``."""

        def moved(instruction: Instruction) -> tuple[Ints, Ints]:
            examples, which = examples_of([self.way(index, instruction) for index in indices])
            prices = [self.moved(indices[place], code, instruction) for place in examples]
            alone, called = np.array(prices, dtype=np.int64)[which].T
            return alone, called

        columns = zip(*self._instructions(code, devices.device, devices.price, moved), strict=True)
        shape = len(indices)
        return PricedCode(*(np.array([np.broadcast_to(row, shape) for row in column]) for column in columns))

    def place(self, index: int, code: int) -> tuple[object, ...]:
        """All that decides what a code costs a class: its device, and from where to where it moves what."""
        if code not in self._paid:
            instructions = self.program.codes[code].instructions
            moving = {
                (move.action, move.group, move.parts is None, peer_is_next_stage(move.stream)): move
                for move in instructions
                if move.action is not InstructionKind.COMPUTE
            }
            self._paid[code] = any(map(runs_kernels, instructions)), tuple(moving.values())
        has_kernels, moves = self._paid[code]
        device = self.devices[index] if has_kernels else None
        return device, *(self.way(index, instruction) for instruction in moves)

    def way(self, index: int, instruction: Instruction) -> object:
        """From where to where a class moves what a collective, transfer or copy moves."""
        if instruction.action is InstructionKind.COPY:
            return self.classes.representatives[index]
        if instruction.action is InstructionKind.GATE:
            return None
        where = self.choices.where(index, instruction)
        return (where, self.classes.groups[index, instruction.group].number) if instruction.parts else where

    def moved(self, index: int, code: InstructionBlock, instruction: Instruction) -> tuple[int, int]:
        """Nanoseconds of a collective or transfer alone on the cluster as it was built, and how much longer
        the host takes to call for it. Waiting at a gate has no price.
        """
        if instruction.action is InstructionKind.GATE:
            return 0, 0
        alone = max(1, self.choices.of(index, instruction).duration_ns)
        if instruction.action is not InstructionKind.COLLECTIVE:
            return alone, 0
        return alone, max(0, nanoseconds(self.calls.seconds(code, instruction)) - alone)

    def transfer(self, index: int, code: InstructionBlock, instruction: Instruction) -> Transfer | None:
        """What an instruction puts on the fabric, not before the host has called for it; None: nothing."""
        if instruction.action is InstructionKind.GATE:
            return None
        transfer = self.fabric.transfer(index, instruction) if self.fabric else None
        if transfer is None or not self.calls.host.seconds:
            return transfer
        _, called = self.moved(index, code, instruction)
        return replace(transfer, latency_ns=transfer.latency_ns + called) if called else transfer

    def _instructions(
        self,
        code: InstructionBlock,
        device: Device,
        price: Callable[[tuple[Work, ...], float], Any],
        moved: Callable[[Instruction], tuple[Any, Any]],
    ) -> list[tuple[Any, Any, Any]]:
        """The prices of ``of_class``, of one device, or arrays over devices of its kind.

        ``price`` is that of kernels, ``moved`` that of collectives and transfers. The host launches kernels,
        of a graph the first of them, and the collectives that it calls for.
        """
        prices: list[tuple[Any, Any, Any]] = []
        stretch: list[QueuedLaunch] = []
        dispatch = self.dispatch.of(device)
        for instruction in code.instructions:
            kernel, launch = runs_kernels(instruction), 0.0
            if kernel:
                own, launch = price(instruction.works, 0.0), instruction.dispatch_cost * dispatch
                prices.append((own.total_ns, own.host_ns, own.memory_ns))
            elif instruction.action is InstructionKind.COMPUTE:
                waited = nanoseconds(instruction.host_time)
                prices.append((max(1, waited), waited, 0))
            else:
                alone, called = moved(instruction)
                prices.append((alone + called, called, 0))
                if instruction.action is InstructionKind.COLLECTIVE:
                    launch = self.calls.seconds(code, instruction)
            order = instruction.stream, instruction.after, kernel, instruction.host_waits
            stretch.append(QueuedLaunch(prices[-1][0], nanoseconds(launch), *order))
        return [
            (total + stall, host + stall, memory)
            for (total, host, memory), stall in zip(prices, launch_stalls(stretch), strict=True)
        ]


def examples_of(keys: Sequence[object]) -> tuple[list[int], Ints]:
    """The first place of every different key, and by place which of these it is like."""
    numbers: dict[object, int] = {}
    which = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return np.unique(which, return_index=True)[1].tolist(), which
