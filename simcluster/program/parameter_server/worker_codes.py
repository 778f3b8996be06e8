"""What workers do with servers: they push the gradient of every key, and pull its weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simcluster.layout import Layout
from simcluster.plan import ServedParameter, ServerPlan, ServerShard
from simcluster.program.isa import (
    COMPUTE,
    OWN,
    BlockExecution,
    Call,
    Category,
    Gate,
    GateWait,
    Instruction,
    InstructionBlock,
    InstructionKind,
    Scope,
    Slot,
    StageProgram,
    StreamId,
)
from simcluster.program.parameter_server.buffer_names import gradient_buffer, weights_buffer
from simcluster.program.parameter_server.gate_names import STEP_OVER, pulled, pushed, updated
from simcluster.program.parameter_server.server_call import ServerCall
from simcluster.program.parameter_server.streams import gate_stream, pull_stream, push_stream

INSTANCE = "servers"
"""What executions with servers are of, on workers."""

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
        """What a worker waits for before it computes: those that are too far behind."""
        if self.servers.update != "stale_synchronous":
            return []
        wait = GateWait(STEP_OVER, self.servers.num_workers, self.servers.staleness + 1)
        gate = gate_instruction(gate_stream("slower workers"), wait)
        return [self._once(InstructionBlock("wait for slower workers", PHASE, (gate,), ()))]

    def pushes(self) -> Iterator[BlockExecution]:
        """Pushes of all keys, in the order in which gradients are made."""
        for parameter in self.servers.parameters:
            for shard in parameter.shards:
                yield self._once(self._push(parameter, shard))

    def pulls(self) -> Iterator[BlockExecution]:
        """Pulls of all keys, server by server, when the backward is over; then the step is."""
        for server in range(self.servers.num_servers):
            held = list(self.servers.shards_of(server))
            if held:
                yield self._once(self._pull(server, held), after_streams=(COMPUTE,))
        if self.servers.update == "stale_synchronous":
            streams = tuple(pull_stream(server) for server in range(self.servers.num_servers))
            clock = gate_instruction(gate_stream("the clock"), None, (STEP_OVER,))
            yield self._once(InstructionBlock("step over", PHASE, (clock,), ()), after_streams=streams)

    def names(self, part: StageProgram) -> dict[tuple[str, str], str]:
        """(instance, slot) -> the buffer of the part that it is."""
        names = {}
        for parameter in self.servers.parameters:
            names[INSTANCE, parameter.name] = part.buffer(parameter.instance, parameter.parameter)
            names[INSTANCE, gradient_slot(parameter)] = part.buffer(parameter.instance, parameter.gradient)
        return names

    def _once(self, code: InstructionBlock, after_streams: tuple[str, ...] = ()) -> BlockExecution:
        self.codes.append(code)
        return BlockExecution(len(self.codes) - 1, INSTANCE, -1, "", after_streams=after_streams)

    def _push(self, parameter: ServedParameter, shard: ServerShard) -> InstructionBlock:
        """The push of a key to a server, once that may come."""
        gates: tuple[Instruction, ...] = ()
        if self.servers.is_synchronous:
            wait = GateWait(pulled(parameter.name, shard.server), self.servers.num_workers, 1)
            gates = (gate_instruction(gate_stream(f"server {shard.server}"), wait),)
        local = parameter.gradient_value.type
        slot = Slot(
            gradient_slot(parameter),
            Scope.STEP,
            local,
            Category.GRADIENTS,
            local.num_bytes,
            parameter.gradient_value.type,
            Layout.replicated(len(local.shape)),
        )
        call = ServerCall(
            gradient_buffer(parameter, shard, self.own),
            weights_buffer(parameter, shard),
            shard.first,
            shard.rows,
            not parameter.is_table,
        )
        push = Instruction(
            f"push {parameter.name}",
            InstructionKind.PUSH,
            push_stream(shard.server),
            (Call(f"push {parameter.name}", call, (0,), ()),),
            after=tuple(range(len(gates))),
            operation="send_receive",
            group=(f"push to server {shard.server}",),
            num_bytes=parameter.shard_type(shard, local.dtype).num_bytes,
            server=self.servers.rank_of(shard.server),
            opens=(pushed(parameter.name, shard.server, self.own),),
        )
        return InstructionBlock(f"push {parameter.name}", PHASE, (*gates, push), (slot,))

    def _pull(self, server: int, keys: list[tuple[ServedParameter, ServerShard]]) -> InstructionBlock:
        """The pull of all keys of a server, once it has updated them."""
        gate = gate_instruction(gate_stream(f"server {server}"), GateWait(updated(server, self.own), 1))
        slots, instructions = [], [gate]
        for parameter, shard in keys:
            local = parameter.value.type
            slots.append(
                Slot(
                    parameter.name,
                    Scope.STEP,
                    local,
                    Category.PARAMETERS,
                    local.num_bytes,
                    parameter.value.type,
                    Layout.replicated(len(local.shape)),
                )
            )
            held = weights_buffer(parameter, shard)
            # Rows of one table come from several servers: who reads it waits for all of them.
            adds = frozenset({0} if shard is not parameter.shards[0] else ())
            call = ServerCall(held, held, shard.first, shard.rows, not parameter.is_table)
            instructions.append(
                Instruction(
                    f"pull {parameter.name}",
                    InstructionKind.PULL,
                    pull_stream(server),
                    (Call(f"pull {parameter.name}", call, (), (len(slots) - 1,), adds=adds),),
                    after=(0,),
                    operation="send_receive",
                    group=(f"pull from server {server}",),
                    num_bytes=parameter.shard_type(shard).num_bytes,
                    server=self.servers.rank_of(server),
                    opens=(pulled(parameter.name, server),) if self.servers.is_synchronous else (),
                )
            )
        return InstructionBlock(f"pull from server {server}", PHASE, tuple(instructions), tuple(slots))


def gradient_slot(parameter: ServedParameter) -> str:
    """What the gradient of a key is called in codes of workers."""
    return f"{parameter.name}.grad"


def gate_instruction(stream: StreamId, wait: GateWait | None, opens: tuple[Gate, ...] = ()) -> Instruction:
    """Waiting at a gate, or passing one for others."""
    name = f"wait for {wait.gate.name}" if wait else f"pass {opens[0].name}"
    return Instruction(name, InstructionKind.GATE, stream, (), gate=wait, opens=opens)
