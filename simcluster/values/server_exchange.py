"""Pushes, pulls and updates of parameter servers on arrays.

A push is read when it starts and there when it ends; so is a pull. An update happens as a whole when it ends: of
two that run at once the one that ends later works on what the other has made.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from simcluster.errors import SimulationError
from simcluster.model import Array, MemoryPlace, Region
from simcluster.program import InstructionKind, ServerCall, ServerUpdateCall
from simcluster.values.buffers import Buffers
from simcluster.values.events import Event


@dataclass(frozen=True, slots=True)
class AppliedUpdate:
    """An update of a parameter on a server, in the order in which they happened.

    ``staleness`` is how many updates of it had happened since its gradient's worker last pulled it; of an update
    with the gradients of all workers, the most of these.
    """

    rank: int
    parameter: str
    step: int
    workers: tuple[int, ...]
    staleness: int


@dataclass
class ServerExchange:
    """What servers hold, and what workers have of it."""

    buffers: Buffers
    seed: int
    updates: list[AppliedUpdate] = field(default_factory=list)
    """All updates so far."""
    _carried: dict[int, Array] = field(default_factory=dict)
    _versions: defaultdict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    _pulled: dict[tuple[int, int, str], int] = field(default_factory=dict)
    _pushed: defaultdict[tuple[int, str], list[tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def start(self, event: Event) -> None:
        """Reads what a push or a pull carries."""
        instruction = event.instruction
        (call,) = instruction.calls
        carries = call.operator
        assert isinstance(carries, ServerCall)
        if instruction.action is InstructionKind.PUSH:
            array = self.buffers.read(event, call.inputs[0])
            part = array if carries.whole else array[carries.first : carries.first + carries.rows]
            kind = event.code.slots[call.inputs[0]].type.dtype
        else:
            part = self.buffers.held(instruction.server, carries.buffer, MemoryPlace.HOST)
            kind = event.code.slots[call.outputs[0]].type.dtype
            version = self._versions[instruction.server, carries.buffer]
            self._pulled[event.rank, instruction.server, carries.buffer] = version
        if kind.num_bytes(part.size) != instruction.num_bytes:
            raise SimulationError(
                f"{event.label} counts {instruction.num_bytes:,} bytes, but {kind.num_bytes(part.size):,} go"
            )
        self._carried[id(event)] = part.copy()

    def end(self, event: Event) -> None:
        """Puts what a push or a pull carries where it goes."""
        instruction = event.instruction
        (call,) = instruction.calls
        carries = call.operator
        assert isinstance(carries, ServerCall)
        array = self._carried.pop(id(event))
        if instruction.action is InstructionKind.PUSH:
            name = carries.buffer.format(event.rank)
            held = self.buffers.held(instruction.server, name, MemoryPlace.HOST)
            waiting = self._pushed[instruction.server, name]
            # The first gradient behind an update takes the place of those that it has used.
            self.buffers.put(instruction.server, name, MemoryPlace.HOST, held + array if waiting else array)
            pulled = self._pulled.get((event.rank, instruction.server, carries.weights), 0)
            waiting.append((event.rank, event.step, pulled))
            return
        own = event.keys[call.outputs[0]][1]
        if carries.whole:
            self.buffers.put(event.rank, own, MemoryPlace.DEVICE, array)
            return
        held = self.buffers.held(event.rank, own, MemoryPlace.DEVICE).copy()
        held[carries.first : carries.first + carries.rows] = array
        self.buffers.put(event.rank, own, MemoryPlace.DEVICE, held)

    def update(self, event: Event, call: ServerUpdateCall) -> tuple[Array, Array]:
        """Updates a parameter; its gradient and new weights."""
        rank, place = event.rank, MemoryPlace.HOST
        arrays = [self.buffers.held(rank, name, place) for name in call.inputs]
        done = self._versions[rank, call.weights]
        region = Region({}, done + 1, self.seed, call.parameter, -1, {}, {})
        made = call.rule.evaluate(arrays, region)
        for name, array in zip(call.outputs, made, strict=True):
            self.buffers.put(rank, name, place, array)
        self._versions[rank, call.weights] = done + 1
        pushed = self._pushed.pop((rank, call.inputs[1]), [])
        if not pushed:
            raise SimulationError(f"{event.label} updates {call.parameter}, of which no gradient is there")
        staleness = max(done - pulled for _, _, pulled in pushed)
        workers = tuple(worker for worker, _, _ in pushed)
        self.updates.append(AppliedUpdate(rank, call.parameter, pushed[0][1], workers, staleness))
        return arrays[1], np.asarray(made[0])
