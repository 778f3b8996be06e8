"""The replay: every instruction of every rank on arrays, at the times that the trace says.

An instruction reads when it starts and writes when it ends, so what starts in between does not see it. What
is read has to be there (see ``buffers``), so a schedule that breaks a dependency fails here. So does an
instruction that says it moves other than it does: the bytes that are timed are those of the arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from simcluster.cluster import HostPath
from simcluster.collectives import Operation, UnequalParts
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimulationError
from simcluster.layout import ROUTED, Mesh, Movement
from simcluster.model import (
    Array,
    Greedy,
    MemoryPlace,
    Operator,
    OptimizerOperator,
    Region,
    Relocation,
)
from simcluster.program import (
    WITH_SERVER,
    Call,
    InstructionKind,
    PersistentBuffer,
    Program,
    ServerUpdateCall,
    host_path_of,
    runs_on_host,
)
from simcluster.trace import Table
from simcluster.values.buffers import Buffers, RankState
from simcluster.values.events import (
    ALONE,
    Event,
    EventMoment,
    event_moments,
    meeting_events,
    numbers_of_groups,
    replay_events,
)
from simcluster.values.exchange import exchange_arrays, route_arrays, slice_array
from simcluster.values.recorded_values import RecordedValues
from simcluster.values.server_exchange import AppliedUpdate, ServerExchange
from simcluster.values.source import SeededData
from simcluster.values.traffic import InputBytes, check_collective, crossing_elements

SEQ = "seq"
"""What operators call the dim of tokens."""


@dataclass
class Replay:
    """Runs a Program on arrays; after ``run`` ``recorded`` holds what the ranks had."""

    program: Program
    """What is run."""
    spans: Table
    """When everything ran, of an unfolded run: a class is a rank."""
    source: SeededData
    """Initial weights and batches."""
    first_step: int = 0
    """The number of the first step of the trace, where a run goes on from what was saved."""
    initial: RankState | None = None
    """What ranks hold at the begin; None: weights of the source, and optimizer states of zero."""
    until: int | None = None
    """When everything stops, in nanoseconds; None: at the end."""
    _extents: dict[tuple[int, int], Mapping[str, int]] = field(default_factory=dict)
    _regions: dict[tuple[int, int, int, int], tuple[Mapping[str, int], ...]] = field(default_factory=dict)
    _inputs: InputBytes = field(default_factory=InputBytes)

    def run(self) -> None:
        """Replays the whole trace.

        SimulationError where an instruction reads what is not there, or moves other than it says.
        """
        self.mesh: Mesh = self.program.mesh
        self._buffers = Buffers(self.program, self.source, self._inputs, self.first_step, self.initial)
        self._servers = ServerExchange(self._buffers, self.source.seed)
        self.recorded = RecordedValues(self.program, self._buffers)
        happened = list(replay_events(self.program, self.spans))
        met = meeting_events(self.program, happened)
        arrived: defaultdict[int, int] = defaultdict(int)
        for index, moment in event_moments(happened):
            if self.until is not None and _time_of(happened[index], moment) > self.until:
                return
            if moment == EventMoment.END:
                self._finish(happened[index])
                continue
            members = met.get(index, (index,))
            arrived[members[0]] += 1
            if arrived[members[0]] == len(members):
                together = [happened[member] for member in members]
                self._perform(together)
                for event in together if moment == EventMoment.WHOLE else ():
                    self._finish(event)
        self._inputs.check()
        self.recorded.finish()

    @property
    def state(self) -> RankState:
        """What every rank holds of the buffers that are there between steps, by rank and key."""
        return self._buffers.state

    def saved(self) -> Iterator[tuple[int, str, PersistentBuffer, Array]]:
        """What ranks hold behind the last step of what a checkpoint has: (rank, tensor, buffer, array)."""
        for rank in range(self.mesh.num_ranks):
            for name, buffer, array in self._buffers.saved(rank):
                yield rank, name, buffer, array

    # -- instructions -----------------------------------------------------------------------------------

    def _perform(self, members: Sequence[Event]) -> None:
        """What an instruction makes of what is there when it starts, for all who take part in it."""
        first = members[0]
        if first.instruction.action not in ALONE:
            self._meet(members)
            return
        if first.instruction.action in WITH_SERVER:
            self._servers.start(first)
            return
        if first.instruction.operation == HostPath.TO_DEVICE and not first.instruction.calls:
            self._inputs.copied[first.rank] = first.instruction.num_bytes
        self._compute(first)

    def _finish(self, event: Event) -> None:
        """Writes what an instruction has made, and releases what it is the last one to use."""
        if event.instruction.action in WITH_SERVER:
            self._servers.end(event)
        for call in event.instruction.calls:
            if isinstance(call.operator, ServerUpdateCall):
                self.recorded.record_served(event, call.operator, *self._servers.update(event, call.operator))
        for index, array in self._buffers.write(event):
            self.recorded.record_written(event, index, array)
        self._buffers.drop(event)

    def _compute(self, event: Event) -> None:
        for call in event.instruction.calls:
            if isinstance(call.operator, ServerUpdateCall):
                continue
            if isinstance(call.operator, Relocation):
                self._relocate(event, call, call.operator)
                continue
            place = MemoryPlace.HOST if runs_on_host(event.instruction) else MemoryPlace.DEVICE
            arrays = [self._buffers.read(event, index, place) for index in call.inputs]
            for position, axes in call.masked:
                if self.mesh.index(event.rank, axes):
                    arrays[position] = np.zeros_like(arrays[position])
            if isinstance(call.operator, Movement):
                made: tuple[Array, ...] = (slice_array(call.operator, arrays[0], self.mesh, event.rank),)
            else:
                assert isinstance(call.operator, Operator)
                region = self._region(event, call.operator, call)
                evaluate = call.operator.evaluate
                if region.kept != region.sizes:
                    # Padding may hold anything, such as the logarithm of a zero, as long as nobody reads it.
                    evaluate = np.errstate(all="ignore")(evaluate)
                made = evaluate(arrays, region)
            for position, (index, array) in enumerate(zip(call.outputs, made, strict=True)):
                self._buffers.make(event, index, array, adds=position in call.adds, place=place)
            if isinstance(call.operator, OptimizerOperator):
                self.recorded.record_update(event, call, call.operator, place)
            if isinstance(call.operator, Greedy):
                self.recorded.record_token(event, call)

    def _relocate(self, event: Event, call: Call, relocation: Relocation) -> None:
        """A value that goes from one place to another as it is, with the bytes and the way that are timed."""
        instruction, moved = event.instruction, 0
        way = host_path_of(relocation)
        if instruction.operation != way:
            raise SimulationError(f"{event.label} is timed as {instruction.operation}, but goes {way}")
        for position, (source, target) in enumerate(zip(call.inputs, call.outputs, strict=True)):
            array = self._buffers.read(event, source, relocation.source)
            moved += event.code.slots[source].type.dtype.num_bytes(array.size)
            adds = position in call.adds
            self._buffers.make(event, target, array, adds=adds, place=relocation.target)
        if moved != instruction.num_bytes:
            raise SimulationError(
                f"{event.label} counts {instruction.num_bytes:,} bytes, but {moved:,} are copied"
            )

    def _region(self, event: Event, operator: Operator, call: Call) -> Region:
        run = event.execution
        name, part = event.part.slices.get(run.instance, (run.instance, 0))
        # Programs outlive their replay: what is at an address stays there.
        key = (id(event.code), id(call), event.rank, part)
        if key not in self._regions:
            self._regions[key] = self._bounds(event, operator, call, part)
        starts, sizes, kept = self._regions[key]
        step = self.first_step + event.step + 1
        return Region(starts, step, self.source.seed, name, run.micro_batch, sizes, kept)

    def _bounds(
        self, event: Event, operator: Operator, call: Call, part: int
    ) -> tuple[Mapping[str, int], ...]:
        """Where the rank's part of every split dim begins, how long it is, and how much is no padding."""
        if not call.strategy.splits and not part:
            return {}, {}, {}
        key = (id(event.code), id(call))
        if key not in self._extents:
            shapes = [event.code.slots[slot].whole.shape for slot in call.inputs + call.outputs]
            self._extents[key] = operator.dims().extents(shapes)
        extent = self._extents[key]
        runs = {dim: self.mesh.run(event.rank, axes, extent[dim]) for dim, axes in call.strategy.splits}
        sizes = {dim: -(-extent[dim] // self.mesh.product(axes)) for dim, axes in call.strategy.splits}
        starts = {dim: first for dim, (first, _) in runs.items()}
        if part and SEQ in extent:
            starts[SEQ] = starts.get(SEQ, 0) + part * extent[SEQ]
        return starts, sizes, {dim: held for dim, (_, held) in runs.items()}

    def _meet(self, members: Sequence[Event]) -> None:
        """A collective or a transfer, for all who take part at once."""
        first = members[0].instruction
        if first.action is not InstructionKind.COLLECTIVE:
            self._transfer(members)
        else:
            axes = first.group
            ordered = sorted(members, key=lambda event: self.mesh.index(event.rank, axes))
            if len(ordered) != self.mesh.product(axes):
                raise SimulationError(f"{members[0].label} misses members of its group")
            _check_alike(ordered)
            moved = sum(self._exchange(ordered, number) for number in range(len(first.calls)))
            for event in {id(event.instruction): event for event in reversed(ordered)}.values():
                instruction = event.instruction
                operation, parts = Operation(instruction.operation), self._parts(event)
                check_collective(event.label, operation, instruction.num_bytes, len(ordered), moved, parts)

    def _exchange(self, members: Sequence[Event], number: int) -> int:
        """Performs a collective's exchange of one tensor; the bytes that cross between ranks."""
        calls = [event.instruction.calls[number] for event in members]
        movement = calls[0].operator
        assert isinstance(movement, Movement)
        first = members[0].instruction
        if (first.operation, first.group) != (movement.kind, movement.axes):
            timed = f"{first.operation} over {'+'.join(first.group)}"
            raise SimulationError(f"{members[0].label} is timed as {timed}, but does {movement}")
        given = [
            [self._buffers.read(event, index) for index in call.inputs]
            for event, call in zip(members, calls, strict=True)
        ]
        if movement.kind in ROUTED:
            made, moved = route_arrays(movement, given), self._along(movement, members, given, number)
        else:
            kind = members[0].code.slots[(*calls[0].outputs, *calls[0].inputs)[0]].type
            # Of a broadcast, the root alone may give something, and keep it.
            arrays = [array for (array,) in given] if all(given) else [given[0][0]] * len(given)
            axes = [self.mesh.size(axis) for axis in movement.axes]
            results = exchange_arrays(movement, arrays, kind.shape, axes)
            made = [[array] for array in results]
            moved = kind.dtype.num_bytes(crossing_elements(movement, arrays, results))
        for event, call, results in zip(members, calls, made, strict=True):
            # Who gives something may get nothing.
            for position, (index, array) in enumerate(zip(call.outputs, results, strict=bool(call.outputs))):
                self._buffers.make(event, index, array, adds=position in call.adds)
        return moved

    def _along(
        self, movement: Movement, members: Sequence[Event], given: Sequence[Sequence[Array]], number: int
    ) -> int:
        """The bytes of arrays that go along routes to others."""
        moved = 0
        for route in movement.routes:
            if route.sender != route.receiver:
                sender = members[route.sender]
                slot = sender.code.slots[sender.instruction.calls[number].inputs[route.given]]
                moved += slot.type.dtype.num_bytes(given[route.sender][route.given].size)
        return moved

    def _parts(self, event: Event) -> UnequalParts | None:
        """Those of the group of an event, if its instruction has any."""
        instruction = event.instruction
        if instruction.parts is None:
            return None
        return instruction.parts.of_number(numbers_of_groups(self.mesh, instruction.group)[event.rank])

    def _transfer(self, members: Sequence[Event]) -> None:
        if len(members) != 2:
            raise SimulationError(f"{members[0].label} has no counterpart")
        sender, receiver = sorted(
            members, key=lambda event: event.instruction.action is InstructionKind.RECEIVE
        )
        index = sender.instruction.calls[0].inputs[0]
        array = self._buffers.read(sender, index)
        moved = sender.code.slots[index].type.dtype.num_bytes(array.size)
        for event in (sender, receiver):
            check_collective(event.label, Operation.SEND_RECEIVE, event.instruction.num_bytes, 2, moved)
        self._buffers.make(receiver, receiver.instruction.calls[0].outputs[0], array, adds=False)

    @property
    def updates(self) -> Sequence[AppliedUpdate]:
        """The updates of parameter servers, in their order."""
        return self._servers.updates


def _time_of(event: Event, moment: int) -> int:
    return event.end if moment == EventMoment.END else event.start


def _check_alike(members: Sequence[Event]) -> None:
    """SimulationError if those who meet in a collective are not all in the same one."""
    first = members[0]
    for event in members[1:]:
        same = event.instruction is first.instruction and event.code is first.code
        if not same and _exchanged(event) != _exchanged(first):
            raise SimulationError(
                f"{event.label} meets {first.label}, which moves something else: members of a group "
                "need one order of what they do together"
            )


def _exchanged(event: Event) -> list[tuple[object, ...]]:
    """Of every tensor of a collective how it moves, and what of it every member brings alike."""
    slots = event.code.slots
    return [
        (call.operator, *(slots[slot].type for slot in _moved(call) if call.operator.kind not in ROUTED))
        for call in event.instruction.calls
        if isinstance(call.operator, Movement)
    ]


def _moved(call: Call) -> tuple[int, ...]:
    """The slots of what a member brings; of what it gets where it brings nothing, as in a broadcast."""
    return call.inputs or call.outputs
