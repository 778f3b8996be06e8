"""What instructions cost to a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from simcluster.cluster import Cluster, Device, DispatchTime, nanoseconds
from simcluster.engine.communication import Choices, Fabric, Transfer
from simcluster.engine.linking import CodeEntries, Priced, TimedCode
from simcluster.engine.pricing.launch_queue import QueuedLaunch, launch_stalls
from simcluster.program import (
    CollectiveCalls,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Program,
    RankClasses,
    peer_is_next_stage,
    runs_kernels,
)
from simcluster.work import Work


@dataclass(frozen=True)
class Prices:
    """The prices of a Program's instructions; ``dispatch`` is the host time per operator, for which kernels
    wait as far as the host is not ahead of them.

    ``calls`` is what the host spends on collectives. What goes over links of the ``fabric`` takes what these
    leave it, which is no price; ``transfer`` says what it puts on them.
    """

    program: Program
    choices: Choices
    calls: CollectiveCalls
    dispatch: DispatchTime
    fabric: Fabric | None
    _entries: dict[int, CodeEntries] = field(default_factory=dict, init=False, repr=False)
    _paid: dict[int, tuple[bool, tuple[Instruction, ...]]] = field(
        default_factory=dict, init=False, repr=False
    )
    """By code whether it has kernels, and an instruction for each way in which it moves something."""

    @property
    def classes(self) -> RankClasses:
        """Those who pay."""
        return self.choices.classes

    @property
    def cluster(self) -> Cluster:
        """Where they are."""
        return self.choices.cluster

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

    def of_code(self, index: int, code: InstructionBlock) -> list[Priced]:
        """Nanoseconds of a code's instructions for one class, how many are launches and dispatch, and in how
        many memory holds them up.
        """
        device = self.cluster.device(self.classes.representatives[index])
        moved = partial(self.moved, index, code)
        return price_instructions(code, device.price, self.launches(code, device), moved)

    def with_prices(self, code: int, prices: Sequence[Priced]) -> TimedCode:
        """A code with these prices of its instructions."""
        if code not in self._entries:
            self._entries[code] = CodeEntries.of(self.program.codes[code])
        return self._entries[code].timed(prices)

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
        device = self.cluster.device(self.classes.representatives[index]) if has_kernels else None
        return device, *(self.way(index, instruction) for instruction in moves)

    def way(self, index: int, instruction: Instruction) -> object:
        """From where to where a class moves what a collective, transfer or copy moves."""
        if instruction.action is InstructionKind.COPY:
            return self.classes.representatives[index]
        if not instruction.group:
            return self.choices.peer(index, instruction)[1]
        group = self.classes.groups[index, instruction.group]
        return (group.placement, group.number) if instruction.parts else group.placement

    def moved(self, index: int, code: InstructionBlock, instruction: Instruction) -> tuple[int, int]:
        """Nanoseconds of a collective or transfer alone on the cluster as it was built, and how much longer
        the host takes to call for it.
        """
        alone = max(1, self.choices.of(index, instruction).duration_ns)
        if instruction.action is not InstructionKind.COLLECTIVE:
            return alone, 0
        return alone, max(0, nanoseconds(self.calls.seconds(code, instruction)) - alone)

    def transfer(self, index: int, code: InstructionBlock, instruction: Instruction) -> Transfer | None:
        """What an instruction puts on the fabric, not before the host has called for it; None: nothing."""
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
