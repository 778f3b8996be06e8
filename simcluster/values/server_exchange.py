"""Pushes, pulls and updates of parameter servers on arrays.

A push is read when it starts and there when it ends; so is a pull. An update happens as a whole when it ends:
of two that run at once the one that ends later works on what the other has made.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimulationError
from simcluster.model import Array, MemoryPlace, Region, SparseUpdate, Update
from simcluster.program import Call, InstructionKind, ServerCall, ServerUpdateCall
from simcluster.values.buffers import Buffers
from simcluster.values.events import Event


@dataclass(frozen=True, slots=True)
class AppliedUpdate:
    """An update of a parameter on a server, in the order in which they happened.

    ``staleness`` is how many updates of it had happened since its gradient's worker last pulled it; of an
    update with the gradients of all workers, the most of these.
    """

    rank: int
    parameter: str
    step: int
    workers: tuple[int, ...]
    staleness: int
    first: int = 0
    """Of a table: the first of the rows that the server has."""
    rows: int = 0
    """Of a table: how many it has; 0 of all of a parameter."""


@dataclass
class ServerExchange:
    """What servers hold, and what workers have of it."""

    buffers: Buffers
    seed: int
    updates: list[AppliedUpdate] = field(default_factory=list)
    """All updates so far."""
    _carried: dict[int, tuple[Array, Array | None]] = field(default_factory=dict)
    _versions: defaultdict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    _pulled: dict[tuple[int, int, str], int] = field(default_factory=dict)
    _pushed: defaultdict[tuple[int, str], list[tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def start(self, event: Event) -> None:
        """Reads what a push or a pull carries."""
        instruction = event.instruction
        carried = _carried_by(event)
        if carried is None:
            return
        call, carries = carried
        if instruction.action is InstructionKind.PUSH:
            array = self.buffers.read(event, call.inputs[0])
            if carries.ids:
                self._carry_rows(event, array, self.buffers.read(event, call.inputs[1]), carries)
                return
            part = array if carries.whole else array[carries.first : carries.first + carries.rows]
            kind = event.code.slots[call.inputs[0]].type.dtype
        else:
            part = self.buffers.resident(instruction.server, carries.buffer, MemoryPlace.HOST)
            kind = event.code.slots[call.outputs[0]].type.dtype
            version = self._versions[instruction.server, carries.buffer]
            self._pulled[event.rank, instruction.server, carries.buffer] = version
        if not carries.ids and kind.num_bytes(part.size) != instruction.num_bytes:
            raise SimulationError(
                f"{event.label} counts {instruction.num_bytes:,} bytes, but {kind.num_bytes(part.size):,} go"
            )
        self._carried[id(event)] = part.copy(), None

    def _carry_rows(self, event: Event, rows: Array, ids: Array, carries: ServerCall) -> None:
        """Those rows that a server has, each once: the sum of all with one id."""
        ids, rows = ids.ravel() - carries.first, rows.reshape(ids.size, -1)
        own = (ids >= 0) & (ids < carries.rows)
        named, place = np.unique(ids[own], return_inverse=True)
        sums = np.zeros((len(named), rows.shape[1]), dtype=rows.dtype)
        np.add.at(sums, place, rows[own])
        self._carried[id(event)] = sums, named

    def end(self, event: Event) -> None:
        """Puts what a push or a pull carries where it goes."""
        instruction = event.instruction
        carried = _carried_by(event)
        if carried is None:
            return
        call, carries = carried
        array, ids = self._carried.pop(id(event))
        if instruction.action is InstructionKind.PUSH:
            name = carries.buffer.format(event.rank)
            held = self.buffers.resident(instruction.server, name, MemoryPlace.HOST)
            waiting = self._pushed[instruction.server, name]
            # The first gradient behind an update takes the place of those that it has used.
            if ids is not None:
                named = carries.ids.format(event.rank)
                known = self.buffers.resident(instruction.server, named, MemoryPlace.HOST)
                ids = np.concatenate([known, ids]) if waiting else ids
                self.buffers.put(instruction.server, named, MemoryPlace.HOST, ids)
                array = np.concatenate([held, array]) if waiting else array
            elif waiting:
                array = held + array
            self.buffers.put(instruction.server, name, MemoryPlace.HOST, array)
            pulled = self._pulled.get((event.rank, instruction.server, carries.weights), 0)
            waiting.append((event.rank, event.step, pulled))
            return
        own = event.keys[call.outputs[0]][1]
        if carries.whole:
            self.buffers.put(event.rank, own, MemoryPlace.DEVICE, array)
            return
        held = self.buffers.resident(event.rank, own, MemoryPlace.DEVICE).copy()
        held[carries.first : carries.first + carries.rows] = array
        self.buffers.put(event.rank, own, MemoryPlace.DEVICE, held)

    def update(self, event: Event, call: ServerUpdateCall) -> tuple[Array, Array]:
        """Updates a parameter; its gradient and new weights."""
        rank, place = event.rank, MemoryPlace.HOST
        arrays = [self.buffers.resident(rank, name, place) for name in call.inputs]
        done = self._versions[rank, call.weights]
        region = Region({}, done + 1, self.seed, call.parameter, -1, {}, {})
        rule: Update | SparseUpdate = call.rule
        if call.ids:
            rule = SparseUpdate(call.rule, len(arrays[0]), 1)
            ids = self.buffers.resident(rank, call.ids, place)
            arrays = [arrays[0].reshape(len(arrays[0]), -1), arrays[1], ids.astype(np.int64), *arrays[2:]]
        made = rule.evaluate(arrays, region)
        for name, array in zip(call.outputs, made, strict=True):
            self.buffers.put(rank, name, place, array)
        self._versions[rank, call.weights] = done + 1
        pushed = self._pushed.pop((rank, call.inputs[1]), [])
        if not pushed:
            raise SimulationError(f"{event.label} updates {call.parameter}, of which no gradient is there")
        staleness = max(done - pulled for _, _, pulled in pushed)
        workers = tuple(worker for worker, _, _ in pushed)
        rows = len(arrays[0]) if arrays[0].ndim and call.of > len(arrays[0]) else 0
        self.updates.append(
            AppliedUpdate(rank, call.parameter, pushed[0][1], workers, staleness, call.first, rows)
        )
        gradient = arrays[1]
        if call.ids:
            gradient = np.zeros_like(np.asarray(made[0]))
            np.add.at(gradient, arrays[2], arrays[1])
        return gradient, np.asarray(made[0])


def _carried_by(event: Event) -> tuple[Call, ServerCall] | None:
    """What a push or a pull carries; None if that is there without it, as rows of caches are."""
    for call in event.instruction.calls:
        if isinstance(call.operator, ServerCall):
            return call, call.operator
    return None
