"""What instructions cost: to one class, or to several classes of a stage beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import (
    SCALE,
    Cluster,
    Device,
    DeviceArray,
    DispatchTime,
    ResourceShare,
    nanoseconds,
)
from simcluster.engine.choices import Choices
from simcluster.engine.fabric import NEVER, Fabric, Transfer
from simcluster.engine.launch_queue import launch_stalls
from simcluster.engine.pace import PARTS
from simcluster.engine.timed import CodeEntries, Priced, TimedCode
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

Ints = NDArray[np.int64]


class UnequalDurations(Exception):
    """No sweep can time it: those who meet are not busy equally long, or some never end."""


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
        """Nanoseconds of the host for each of a code's kernels; of a graph, for the first of its kernels."""
        alone = self.dispatch.of(device)
        return [
            nanoseconds(instruction.dispatch_cost * alone)
            for instruction in code.instructions
            if runs_kernels(instruction)
        ]

    def of_code(self, index: int, code: InstructionBlock) -> list[Priced]:
        """Nanoseconds of a code's instructions for one class, how many are launches and dispatch, and in how
        many memory holds them up.
        """
        device = self.cluster.device(self.classes.representatives[index])
        kernels = {
            row: device.price(instruction.works, 0.0)
            for row, instruction in enumerate(code.instructions)
            if runs_kernels(instruction)
        }
        totals = [price.total_ns for price in kernels.values()]
        waits = dict(zip(kernels, launch_stalls(totals, self.launches(code, device)), strict=True))
        prices: list[Priced] = []
        for row, instruction in enumerate(code.instructions):
            if row in kernels:
                price, waited = kernels[row], int(waits[row])
                prices.append((price.total_ns + waited, price.host_ns + waited, price.memory_ns))
            elif instruction.action is InstructionKind.COMPUTE:
                prices.append((1, 0, 0))
            else:
                alone, called = self.moved(index, code, instruction)
                prices.append((alone + called, called, 0))
        return prices

    def timed(self, index: int, used: Sequence[int]) -> dict[int, TimedCode]:
        """Codes, priced for a class."""
        return {code: self.with_prices(code, self.of_code(index, self.program.codes[code])) for code in used}

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
        return device, *(self._way(index, instruction) for instruction in moves)

    def _way(self, index: int, instruction: Instruction) -> object:
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


@dataclass(frozen=True)
class Carried:
    """A collective or transfer over links, of several classes: ``which`` [classes] of the ``transfers``."""

    transfers: Sequence[Transfer]
    which: Ints


@dataclass(frozen=True)
class Shares:
    """What each of several classes gives to communication, in millionths: arrays [classes]."""

    units: Ints
    memory: Ints

    def of(self, which: int) -> ResourceShare:
        """What one of them gives."""
        return ResourceShare(int(self.units[which]), int(self.memory[which]))


@dataclass(frozen=True)
class PricedCode:
    """Nanoseconds of every instruction of a code in several classes: [instructions, classes].

    What goes over links takes what it would if nothing else did; ``carried`` has it by instruction. Of one
    execution, ``host`` [classes] is what the kernels spend on launches and dispatch, ``busy`` [classes] what
    they take in all. Where kernels give way to communication, ``parts`` has those of every kernel
    [instructions, ``PARTS``, classes], and ``takes`` by instruction what a collective or transfer takes of
    each device; else both are empty.
    """

    duration: Ints
    busy: Ints
    host: Ints
    carried: Mapping[int, Carried]
    parts: Ints
    takes: Mapping[int, Shares]


_Examples = dict[tuple[tuple[str, ...], str], tuple[list[int], Ints]]
"""(Axes, stream) -> one class of each that differs, and which of them every class is like."""


@dataclass(frozen=True)
class SharedPrices:
    """The prices of several classes of one stage; equal, one by one, to those of ``Prices.of_code``."""

    prices: Prices
    indices: Sequence[int]
    fleet: DeviceArray
    _alike: _Examples = field(default_factory=dict)
    _places: _Examples = field(default_factory=dict)

    @classmethod
    def of(cls, prices: Prices, indices: Sequence[int]) -> SharedPrices:
        """The prices of some classes, whose order is that of all columns."""
        ranks = [prices.classes.representatives[index] for index in indices]
        return cls(prices, indices, prices.cluster.fleet(ranks))

    def of_code(self, code: InstructionBlock) -> PricedCode:
        """The prices of a code's instructions."""
        duration = np.empty((len(code.instructions), len(self.indices)), dtype=np.int64)
        busy, host = (np.zeros(len(self.indices), dtype=np.int64) for _ in range(2))
        carried: dict[int, Carried] = {}
        takes: dict[int, Shares] = {}
        giving = self.fleet.device.communication is not None
        parts = np.zeros((len(code.instructions) * giving, PARTS, len(self.indices)), dtype=np.int64)
        kernels = {
            row: self.fleet.price(instruction.works, 0.0)
            for row, instruction in enumerate(code.instructions)
            if runs_kernels(instruction)
        }
        totals = [price.total_ns for price in kernels.values()]
        launches = self.prices.launches(code, self.fleet.device)
        waits = dict(zip(kernels, launch_stalls(totals, launches), strict=True))
        for row, instruction in enumerate(code.instructions):
            if instruction.action is not InstructionKind.COMPUTE:
                duration[row], carrying = self._moved(code, instruction)
                if carrying is not None:
                    carried[row] = carrying
                shares = self._taken(instruction) if giving else None
                if shares is not None:
                    takes[row] = shares
                continue
            if row in kernels:
                price, waited = kernels[row], waits[row]
                duration[row] = price.total_ns + waited
                host += price.host_ns + waited
                if giving:
                    parts[row] = price.busy_ns - price.memory_ns, price.memory_ns, price.host_ns + waited
            else:
                duration[row] = 1
                if giving:
                    parts[row, 0] = 1
            busy += duration[row]
        return PricedCode(duration, busy, host, carried, parts, takes)

    def _taken(self, instruction: Instruction) -> Shares | None:
        """What it takes of every device: equal, one by one, to ``Choices.taken``."""
        examples, which = (
            self._examples(instruction)
            if instruction.action is InstructionKind.COPY
            else self._placed(instruction)
        )
        known = [self.prices.choices.occupied(index, instruction) for index in examples]
        held = [share for share in known if share is not None]
        if not held:
            return None
        assert len(held) == len(known)
        units, traffic = (np.array(column)[which] for column in zip(*held, strict=True))
        share = np.minimum(1.0, traffic / self.fleet.memory_bandwidth)
        return Shares(units, np.rint(share * SCALE).astype(np.int64))

    def _placed(self, instruction: Instruction) -> tuple[list[int], Ints]:
        """One class of each place from which it is done, and which of them classes are like."""
        return self._by(
            self._places, instruction, partial(self.prices.choices.where, instruction=instruction)
        )

    def _moved(self, code: InstructionBlock, instruction: Instruction) -> tuple[Ints, Carried | None]:
        """Nanoseconds [classes] of a collective or transfer, and what it puts on links."""
        prices = self.prices
        examples, which = self._examples(instruction)
        transfers = [prices.transfer(index, code, instruction) for index in examples]
        if prices.fabric is None or all(transfer is None for transfer in transfers):
            return np.array([sum(prices.moved(index, code, instruction)) for index in examples])[which], None
        loading = [transfer for transfer in transfers if transfer is not None]
        assert len(loading) == len(transfers)
        alone = np.array([prices.fabric.links.alone(transfer) for transfer in loading])
        if alone.max() >= NEVER:
            raise UnequalDurations
        return alone[which], Carried(loading, which)

    def _examples(self, instruction: Instruction) -> tuple[list[int], Ints]:
        """One class of each group or pair that may do it differently, and which of them classes are like."""
        classes = self.prices.classes
        peers = classes.next_stage if peer_is_next_stage(instruction.stream) else classes.prev_stage

        def meeting(index: int) -> object:
            if instruction.group:
                return classes.groups[index, instruction.group].id
            return index if self.prices.fabric else peers[index][1]

        return self._by(self._alike, instruction, meeting)

    def _by(
        self, known: _Examples, instruction: Instruction, what: Callable[[int], object]
    ) -> tuple[list[int], Ints]:
        """One class of each of which ``what`` differs, and which of them classes are like."""
        key = (instruction.group, "" if instruction.group else instruction.stream)
        if key not in known:
            numbers: dict[object, int] = {}
            which = [numbers.setdefault(what(index), len(numbers)) for index in self.indices]
            firsts = np.unique(which, return_index=True)[1].tolist()
            known[key] = [self.indices[place] for place in firsts], np.array(which, dtype=np.int64)
        return known[key]
