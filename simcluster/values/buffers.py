"""The arrays of every rank in a replay, by memory and name; they can be read only while they exist."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimulationError
from simcluster.layout import Layout
from simcluster.model import Array, MemoryPlace
from simcluster.program import FORWARD, PersistentBuffer, Program, Scope, Slot
from simcluster.values.events import BufferWrite, Event, Key
from simcluster.values.exchange import local_part
from simcluster.values.source import SeededData
from simcluster.values.traffic import InputBytes

RankArrays = Mapping[Key, Array]
"""What a rank holds: by memory and name the array."""

RankState = Mapping[int, RankArrays]
"""What ranks hold between steps: by rank and key the array."""


@dataclass
class Buffers:
    """The buffers of all ranks; bytes that are read of the batch are recorded in ``inputs``.

    The steps of the trace are numbered from ``first_step``.

    A buffer is there from its first write until all who drop it have. Reading one that is not there yet, was
    released or lies somewhere else, on the host say, is a SimulationError that names the instruction.
    """

    program: Program
    source: SeededData
    inputs: InputBytes
    first_step: int = 0
    initial: RankState | None = None
    _held: dict[int, dict[Key, Array]] = field(default_factory=dict)
    _left: dict[int, dict[Key, int]] = field(default_factory=lambda: defaultdict(dict))
    _fresh: dict[tuple[int, Key], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rank in range(self.program.mesh.num_ranks):
            self._held[rank] = dict(self.initial[rank] if self.initial else self._residents(rank))

    @property
    def state(self) -> RankState:
        """The buffers of every rank that are there from before a step to after it."""
        return {
            rank: {key: held[key] for key in self._resident_keys(rank) if key in held}
            for rank, held in self._held.items()
        }

    def _resident_keys(self, rank: int) -> Iterator[Key]:
        for resident in self.program.parts[self.program.part_of(rank)].residents:
            yield (resident.place, resident.name, 0, 0)

    def read(self, event: Event, index: int, place: MemoryPlace = MemoryPlace.DEVICE) -> Array:
        """The array of a slot, as read by an instruction with its operands in the memory ``place``.

        Of what the instruction makes itself, it reads what it has made so far.
        """
        slot = event.code.slots[index]
        if slot.place is not place:
            raise SimulationError(
                f"{event.label} reads {slot.name} on the {place}, but it is on the {slot.place}"
            )
        key, held = event.keys[index], self._held[event.rank]
        if key in event.made:
            return self._with(event, key, event.made[key])
        array = held.get(key)
        if array is None and slot.feed and event.code.phase == FORWARD:
            array = held[key] = self._fed(event, slot)
        if array is None:
            was = "was released" if key in self._left[event.rank] else "is not there yet"
            raise SimulationError(f"{event.label} reads {slot.name}, which {was}")
        return array

    def make(
        self, event: Event, index: int, array: Array, *, adds: bool, place: MemoryPlace = MemoryPlace.DEVICE
    ) -> None:
        """Notes what an instruction will store in a slot, or add to it, when it ends."""
        slot = event.code.slots[index]
        if slot.place is not place:
            raise SimulationError(
                f"{event.label} makes {slot.name} on the {place}, but it is on the {slot.place}"
            )
        if array.shape != slot.type.shape:
            raise SimulationError(
                f"{event.label} makes {slot.name} of shape {array.shape}, not {slot.type.shape}"
            )
        key = event.keys[index]
        before = event.made.get(key)
        if adds and before is not None:
            array, adds = before.array + array, before.adds
        event.made[key] = BufferWrite(index, array, adds)

    def write(self, event: Event) -> Iterator[tuple[int, Array]]:
        """Stores the results of an instruction that ends; yields the slots and their arrays."""
        held = self._held[event.rank]
        for key, made in event.made.items():
            array = held[key] = self._with(event, key, made) if made.adds else made.array
            if made.adds:
                self._fresh[event.rank, key] = event.step
            yield made.slot, array
        event.made.clear()

    def _with(self, event: Event, key: Key, made: BufferWrite) -> Array:
        """What a buffer holds when something is put into it or added to it now."""
        slot, before = event.code.slots[made.slot], self._held[event.rank].get(key)
        if not made.adds:
            return made.array
        if slot.scope is Scope.MICRO_BATCH:
            return made.array if before is None else before + made.array
        if self._fresh.get((event.rank, key)) != event.step:
            # The first term of a step replaces what the step before left.
            return made.array
        if before is None:
            raise SimulationError(f"{event.label} adds to {slot.name}, which was released")
        return before + made.array

    def saved(self, rank: int) -> Iterator[tuple[str, PersistentBuffer, Array]]:
        """What a rank holds of what a checkpoint has: by tensor the buffer and its array.

        Weights are gathered from their shards before they are saved, if they have not been yet.
        """
        stage = self.program.parts[self.program.part_of(rank)]
        for name, resident in stage.saved.items():
            if name in stage.views:
                yield name, resident, self._gathered(rank, resident, stage.views[name])
            else:
                yield name, resident, self._held[rank][resident.place, resident.name, 0, 0]

    def _gathered(self, rank: int, weight: PersistentBuffer, view: PersistentBuffer) -> Array:
        """A weight as a rank has it, from the shards of it that the ranks of its group have."""
        mesh, axes = self.program.mesh, view.layout.flat
        groups = mesh.groups(axes)
        (group,) = groups[(groups == rank).any(axis=1)]
        runs = [self._held[int(member)][view.place, view.name, 0, 0] for member in group]
        shape = weight.layout.local_shape(weight.whole.shape, mesh)
        return np.concatenate(runs)[: math.prod(shape)].reshape(shape)

    def resident(self, rank: int, name: str, place: MemoryPlace) -> Array:
        """What a rank holds in a buffer that is there from before a step to after it."""
        return self._held[rank][place, name, 0, 0]

    def put(self, rank: int, name: str, place: MemoryPlace, array: Array) -> None:
        """Replaces what a rank holds in such a buffer."""
        self._held[rank][place, name, 0, 0] = array

    def drop(self, event: Event) -> None:
        """Releases what an instruction is the last one to use."""
        held, left = self._held[event.rank], self._left[event.rank]
        for index in event.instruction.last_uses:
            key = event.keys[index]
            left[key] = (left[key] if key in left else self._droppers(event, index)) - 1
            if not left[key]:
                held.pop(key, None)

    def _residents(self, rank: int) -> Iterator[tuple[Key, Array]]:
        stage = self.program.parts[self.program.part_of(rank)]
        for resident in stage.residents:
            restored = self._restored(rank, resident)
            if restored is not None:
                yield (resident.place, resident.name, 0, 0), np.array(restored)
                continue
            if resident.origin and resident.rows_of is not None:
                first, of = resident.rows_of
                every = replace(resident.whole, shape=(of, *resident.whole.shape[1:]))
                whole = self.source.parameter(resident.origin, every)[first:][: resident.whole.shape[0]]
            elif resident.origin:
                whole = self.source.parameter(resident.origin, resident.whole)
            else:
                whole = np.zeros(resident.whole.shape, dtype=self.source.dtype)
            part = local_part(whole, resident.layout.reduced, self.program.mesh, rank)
            yield (resident.place, resident.name, 0, 0), part

    def _restored(self, rank: int, resident: PersistentBuffer) -> Array | None:
        """What a rank goes on with in a buffer; a view is a part of the weight that it is a view of."""
        whole = self.source.restored_part(rank, resident.tensor)
        if whole is None or resident.num_bytes:
            return whole
        own = Layout(((),) * whole.ndim, flat=resident.layout.flat)
        return local_part(whole, own, self.program.mesh, rank)

    def _fed(self, event: Event, slot: Slot) -> Array:
        kind = slot.whole if slot.part is None else slot.part.whole(slot.whole)
        step = event.step + self.first_step
        whole = self.source.feed(slot.name, kind, step, event.execution.micro_batch, slot.below)
        if slot.part is not None:
            whole = slot.part.of(whole)
        own = local_part(whole, slot.layout, self.program.mesh, event.rank)
        when = (event.rank, event.step, event.execution.micro_batch)
        if slot.place is MemoryPlace.DEVICE:
            size = slot.type.dtype.num_bytes(own.size)
            self.inputs.read.setdefault(when, {})[slot.name, slot.part] = size
        return own

    def _droppers(self, event: Event, index: int) -> int:
        """How many instructions drop a buffer."""
        slot = event.code.slots[index]
        if slot.scope is Scope.LOCAL:
            return len(event.code.dropped[index])
        part = self.program.part_of(event.rank)
        name = event.keys[index][1]
        if slot.scope is Scope.KEPT:
            return self.program.shares[part][name, event.execution.weights_of_micro_batch]
        return self.program.references[part][name]
