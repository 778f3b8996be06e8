"""What instructions cost to a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from simcluster.cluster import Device, DeviceArray, nanoseconds
from simcluster.engine.communication import Choices, Transfer
from simcluster.engine.pricing.launch_queue import QueuedLaunch, launch_stalls
from simcluster.engine.pricing.priced_group import PricedCode
from simcluster.engine.pricing.workload import Workload
from simcluster.number_arrays import Ints
from simcluster.program import (
    WITH_SERVER,
    CollectiveCalls,
    CollectiveRequests,
    Instruction,
    InstructionBlock,
    InstructionKind,
    peer_is_next_stage,
    runs_kernels,
)
from simcluster.work import Work


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
        self.choices = Choices(self.classes, self.cluster, requests)
        # By code whether it has kernels, and an instruction for each way in which it moves something.
        self._paid: dict[int, tuple[bool, tuple[Instruction, ...]]] = {}

    def launches(self, code: InstructionBlock, device: Device) -> list[int]:
        """Nanoseconds of the host for each of a code's instructions: its kernels, of a graph the first of
        them, and the collectives that it calls for.
        """
        alone = self.dispatch.of(device)
        return [
            nanoseconds(
                instruction.dispatch_cost * alone
                if runs_kernels(instruction)
                else self.calls.seconds(code, instruction)
                if instruction.action is InstructionKind.COLLECTIVE
                else 0.0
            )
            for instruction in code.instructions
        ]

    def device(self, index: int) -> Device:
        """The device of a class."""
        return self.cluster.device(self.classes.representatives[index])

    def of_class(self, index: int, code: InstructionBlock) -> list[tuple[int, int, int]]:
        """Nanoseconds of a code's instructions for one class, how many are launches and dispatch, and in how
        many memory holds them up.
        """
        device = self.device(index)
        moved = partial(self.moved, index, code)
        return price_instructions(code, device.price, self.launches(code, device), moved)

    def of_classes(self, indices: Sequence[int], devices: DeviceArray, code: InstructionBlock) -> PricedCode:
        """The same for classes with these devices, all of one kind; equal for each to ``of_class``."""

        def moved(instruction: Instruction) -> tuple[Ints, Ints]:
            examples, which = examples_of([self.way(index, instruction) for index in indices])
            prices = [self.moved(indices[place], code, instruction) for place in examples]
            alone, called = np.array(prices, dtype=np.int64)[which].T
            return alone, called

        launches = self.launches(code, devices.device)
        columns = zip(*price_instructions(code, devices.price, launches, moved), strict=True)
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
        device = self.device(index) if has_kernels else None
        return device, *(self.way(index, instruction) for instruction in moves)

    def way(self, index: int, instruction: Instruction) -> object:
        """From where to where a class moves what a collective, transfer or copy moves."""
        if instruction.action is InstructionKind.COPY:
            return self.classes.representatives[index]
        if instruction.action is InstructionKind.GATE:
            return None
        if instruction.action in WITH_SERVER:
            return self.choices.where(index, instruction)
        if not instruction.group:
            return self.choices.peer(index, instruction)[1]
        group = self.classes.groups[index, instruction.group]
        return (group.placement, group.number) if instruction.parts else group.placement

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


def price_instructions(
    code: InstructionBlock,
    price: Callable[[tuple[Work, ...], float], Any],
    launches: Sequence[int],
    moved: Callable[[Instruction], tuple[Any, Any]],
) -> list[tuple[Any, Any, Any]]:
    """Nanoseconds of a code's instructions, how many are launches and dispatch, and in how many memory holds
    them up: of one device, or arrays over devices.

    ``price`` is that of kernels on the devices, ``launches`` what the host takes for each instruction,
    ``moved`` what ``Prices`` says of collectives and transfers.
    """
    prices: list[tuple[Any, Any, Any]] = []
    stretch: list[QueuedLaunch] = []
    for instruction, launch in zip(code.instructions, launches, strict=True):
        kernel = runs_kernels(instruction)
        if kernel:
            own = price(instruction.works, 0.0)
            prices.append((own.total_ns, own.host_ns, own.memory_ns))
        elif instruction.action is InstructionKind.COMPUTE:
            waited = nanoseconds(instruction.host_time)
            prices.append((max(1, waited), waited, 0))
        else:
            alone, called = moved(instruction)
            prices.append((alone + called, called, 0))
        order = instruction.stream, instruction.after, kernel, instruction.host_waits
        stretch.append(QueuedLaunch(prices[-1][0], launch, *order))
    return [
        (total + stall, host + stall, memory)
        for (total, host, memory), stall in zip(prices, launch_stalls(stretch), strict=True)
    ]


def examples_of(keys: Sequence[object]) -> tuple[list[int], Ints]:
    """The first place of every different key, and by place which of these it is like."""
    numbers: dict[object, int] = {}
    which = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return np.unique(which, return_index=True)[1].tolist(), which
