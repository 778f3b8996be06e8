"""What workers do with servers: they push the gradient of every key, and pull its weights."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout
from simcluster.model import TensorType
from simcluster.plan import ServedParameter, ServerPlan, ServerShard
from simcluster.program.isa import (
    COMPUTE,
    OWN,
    BlockExecution,
    Call,
    Category,
    GateWait,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Scope,
    ServerCall,
    Slot,
    StageProgram,
    StepGate,
    StreamId,
)
from simcluster.program.parameter_server.buffer_names import gradient_buffer, ids_buffer, weights_buffer
from simcluster.program.parameter_server.gate_names import STEP_OVER, pulled, pushed, updated
from simcluster.program.parameter_server.streams import gate_stream, pull_stream, push_stream
from simcluster.work import Kernel, Work

INSTANCE = "servers"
"""What executions with servers are of, on workers."""

ID_BYTES = 8
"""Of the id of a row."""

PHASE = "servers"
"""The phase of their codes."""


@dataclass
class WorkerBuilder:
    """Writes the codes of the workers of a plan behind those that are there."""

    servers: ServerPlan
    codes: list[InstructionBlock]

    @property
    def own(self) -> int | None:
        """Whose the gates are: one for all workers, or each its own."""
        return None if self.servers.is_synchronous else OWN

    def begin(self) -> list[BlockExecution]:
        """What a worker does before it computes: it waits for those that are too far behind, and pulls the
        rows that it looks up, or misses in its cache.
        """
        runs = []
        if self.servers.update == "stale_synchronous":
            wait = GateWait(STEP_OVER, self.servers.num_active, self.servers.staleness + 1)
            gate = gate_instruction(gate_stream("slower workers"), wait)
            runs.append(self._once(InstructionBlock("wait for slower workers", PHASE, (gate,), ())))
        for server, keys in self._by_server(by_rows=True):
            runs.append(self._once(self._pull(server, keys, steps_ago=1)))
        return runs

    def pushes(self) -> Iterator[BlockExecution]:
        """Pushes of all keys, in the order in which gradients are made, and of rows that leave the cache."""
        for parameter in (*self.servers.pushed, *self.servers.cached):
            for shard in parameter.shards:
                after = (COMPUTE,) if parameter.cached else ()
                yield self._once(self._push(parameter, shard), after_streams=after)

    def pulls(self) -> Iterator[BlockExecution]:
        """Pulls of all keys that are whole, server by server, when the backward is over; then the step is."""
        for server, keys in self._by_server(by_rows=False):
            yield self._once(self._pull(server, keys), after_streams=(COMPUTE,))
        if self.servers.update == "stale_synchronous":
            streams = tuple(pull_stream(server) for server in self.servers.present)
            clock = gate_instruction(gate_stream("the clock"), None, (STEP_OVER,))
            yield self._once(InstructionBlock("step over", PHASE, (clock,), ()), after_streams=streams)

    def _by_server(self, *, by_rows: bool) -> Iterator[tuple[int, list[tuple[ServedParameter, ServerShard]]]]:
        """The keys that every server has, if any: those that go by rows, or the others."""
        for server in range(self.servers.num_servers):
            keys = [key for key in self.servers.shards_of(server) if key[0].by_rows is by_rows]
            if keys:
                yield server, keys

    def names(self, part: StageProgram) -> dict[tuple[str, str], str]:
        """(instance, slot) -> the buffer of the part that it is."""
        names = {}
        for parameter in self.servers.parameters:
            names[INSTANCE, parameter.name] = part.buffer(parameter.instance, parameter.parameter)
            names[INSTANCE, gradient_slot(parameter)] = part.buffer(parameter.instance, parameter.gradient)
            if parameter.ids:
                names[INSTANCE, ids_slot(parameter)] = part.buffer(parameter.instance, parameter.ids)
        return names

    def _once(self, code: InstructionBlock, after_streams: tuple[str, ...] = ()) -> BlockExecution:
        self.codes.append(code)
        return BlockExecution(len(self.codes) - 1, INSTANCE, -1, "", after_streams=after_streams)

    def _push(self, parameter: ServedParameter, shard: ServerShard) -> InstructionBlock:
        """The push of a key to a server, once that may come; rows of equal ids are summed up before."""
        instructions: list[Instruction] = []
        if self.servers.is_synchronous and not parameter.by_rows:
            wait = GateWait(pulled(parameter.name, shard.server), self.servers.num_active, 1)
            instructions.append(gate_instruction(gate_stream(f"server {shard.server}"), wait))
        slots = [] if parameter.cached else self._gradient_slots(parameter)
        if parameter.by_rows and not parameter.cached and shard is parameter.shards[0]:
            instructions.append(sum_up_rows(parameter, self.servers.num_workers))
        call = ServerCall(
            gradient_buffer(parameter, shard, self.own),
            weights_buffer(parameter, shard),
            shard.first,
            shard.rows,
            not parameter.is_table,
            ids_buffer(parameter, shard, self.own) if parameter.ids else "",
        )
        calls = () if parameter.cached else (Call("push", call, tuple(range(len(slots))), ()),)
        instructions.append(
            Instruction(
                f"push {parameter.name}",
                InstructionKind.PUSH,
                push_stream(shard.server),
                calls,
                after=tuple(range(len(instructions))),
                operation="send_receive",
                group=(f"push to server {shard.server}",),
                num_bytes=self._pushed_bytes(parameter, shard),
                server=self.servers.rank_of(shard.server),
                opens=(pushed(parameter.name, shard.server, self.own),),
            )
        )
        return InstructionBlock(f"push {parameter.name}", PHASE, tuple(instructions), tuple(slots))

    def _gradient_slots(self, parameter: ServedParameter) -> list[Slot]:
        """The gradient of a key, and the ids of its rows."""
        slots = [_slot(gradient_slot(parameter), parameter.gradient_local, Category.GRADIENTS)]
        if parameter.ids_local is not None:
            slots.append(_slot(ids_slot(parameter), parameter.ids_local, Category.GRADIENTS))
        return slots

    def _pushed_bytes(self, parameter: ServedParameter, shard: ServerShard) -> int:
        """Bytes of a push; of rows these and their ids. Each worker has a part of those that leave caches."""
        if parameter.cached:
            return -(-cached_row_bytes(parameter) * shard.named // self.servers.num_active)
        dtype = parameter.gradient_value.type.dtype
        if parameter.by_rows:
            return shard.named * (dtype.num_bytes(parameter.row_elements) + ID_BYTES)
        return parameter.shard_type(shard, dtype).num_bytes

    def _pull(
        self, server: int, keys: list[tuple[ServedParameter, ServerShard]], steps_ago: int = 0
    ) -> InstructionBlock:
        """The pull of keys of a server, once it has updated them."""
        wait = GateWait(updated(server, self.own), 1, steps_ago)
        slots, instructions = [], [gate_instruction(gate_stream(f"server {server}"), wait)]
        for parameter, shard in keys:
            slots.append(_slot(parameter.name, parameter.value.type, Category.PARAMETERS))
            held = weights_buffer(parameter, shard)
            # Rows of one table come from several servers: who reads it waits for all of them.
            adds = frozenset({0} if shard is not parameter.shards[0] else ())
            call = ServerCall(held, held, shard.first, shard.rows, not parameter.is_table, parameter.ids)
            size = parameter.shard_type(shard).num_bytes
            if parameter.by_rows:
                size = shard.named * (parameter.value.type.dtype.num_bytes(parameter.row_elements) + ID_BYTES)
            if parameter.cached:
                size = shard.named * cached_row_bytes(parameter)
            gates = (pulled(parameter.name, server),) if self.servers.is_synchronous else ()
            # What is cached is there already, for values.
            calls = (Call("pull", None if parameter.cached else call, (), (len(slots) - 1,), adds=adds),)
            instructions.append(
                Instruction(
                    f"pull {parameter.name}",
                    InstructionKind.PULL,
                    pull_stream(server),
                    calls,
                    after=(0,),
                    operation="send_receive",
                    group=(f"pull from server {server}",),
                    num_bytes=size,
                    server=self.servers.rank_of(server),
                    opens=gates,
                )
            )
        return InstructionBlock(f"pull from server {server}", PHASE, tuple(instructions), tuple(slots))


def gradient_slot(parameter: ServedParameter) -> str:
    """What the gradient of a key is called in codes of workers."""
    return f"{parameter.name}.grad"


def ids_slot(parameter: ServedParameter) -> str:
    """What the ids of the rows of its gradient are called there."""
    return f"{gradient_slot(parameter)}.ids"


def cached_row_bytes(parameter: ServedParameter) -> int:
    """Bytes of a row of a table that goes into a cache: its weights, their master copy and states, its id."""
    formats = [parameter.value.type.dtype, *parameter.states.values()]
    if parameter.master is not None:
        formats.append(parameter.master)
    return sum(dtype.num_bytes(parameter.row_elements) for dtype in formats) + ID_BYTES


def sum_up_rows(parameter: ServedParameter, num_workers: int) -> Instruction:
    """The kernel of a worker that sums up rows of equal ids: it reads all, and writes what is left."""
    dtype, count = parameter.gradient_value.type.dtype, parameter.lookups // num_workers
    row = dtype.num_bytes(parameter.row_elements) + ID_BYTES
    left = sum(shard.named for shard in parameter.shards)
    flops = count * parameter.row_elements
    work = Work(Kernel.GATHER_SCATTER, dtype, flops, count * row, left * row, (("rows", count),))
    return Instruction(
        f"sum up rows of {parameter.name}", InstructionKind.COMPUTE, COMPUTE, (), works=(work,)
    )


def _slot(name: str, kind: TensorType, category: Category) -> Slot:
    """A buffer of a worker that lasts."""
    layout = Layout.replicated(len(kind.shape))
    return Slot(name, Scope.STEP, kind, category, kind.num_bytes, kind, layout)


def gate_instruction(
    stream: StreamId, wait: GateWait | None, opens: tuple[StepGate, ...] = ()
) -> Instruction:
    """Waiting at a gate, or passing one for others."""
    name = f"wait for {wait.gate.name}" if wait else f"pass {opens[0].name}"
    return Instruction(name, InstructionKind.GATE, stream, (), gate=wait, opens=opens)
