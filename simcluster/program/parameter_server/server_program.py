"""The Program of a plan with parameter servers: what workers, servers and the scheduler run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simcluster.plan import Plan, ServedParameter, ServerPlan
from simcluster.program.isa import (
    COMPUTE,
    BlockExecution,
    Executions,
    InstructionBlock,
    Program,
    StageProgram,
)
from simcluster.program.parameter_server.server_part import MASTER, ServerBuilder
from simcluster.program.parameter_server.streams import GATE, PULL, PUSH
from simcluster.program.parameter_server.worker_codes import WorkerBuilder

__all__ = ["GATE", "PULL", "PUSH", "add_servers"]


def add_servers(program: Program, plan: Plan) -> Program:
    """The Program in which workers push and pull, and ranks beside the mesh are their servers."""
    servers = plan.servers
    if servers is None:
        return program
    codes = list(program.codes)
    (part,) = program.parts
    worker = _worker(part, servers, codes)
    parts = [worker]
    for server in range(servers.num_servers):
        parts.append(ServerBuilder(servers, server, codes).build())
    scheduler = StageProgram(Executions.of([]), ())
    # Workers that are gone do what the scheduler does: nothing.
    workers = tuple(len(parts) if rank in servers.lost else 0 for rank in range(servers.num_workers))
    assigned = workers + tuple(range(1, len(parts) + 1))
    return replace(
        program,
        codes=tuple(codes),
        parts=(*parts, scheduler),
        assigned=assigned,
        apart=not servers.is_synchronous,
    )


def _worker(part: StageProgram, servers: ServerPlan, codes: list[InstructionBlock]) -> StageProgram:
    """What workers run: pulls of tables, what they compute, pushes, pulls, and the clock."""
    made = WorkerBuilder(servers, codes)
    executions = list(part.executions)
    begin = made.begin()
    if begin:
        executions = _held_up(executions, codes, begin)
    executions = [*begin, *executions, *made.pushes(), *made.pulls()]
    names = {**part.names, **made.names(part)}
    held = {}
    for table in (table for table in servers.parameters if table.by_rows):
        held[part.buffer(table.instance, table.parameter)] = _held_rows(table)
        tensors = {f"{table.name}.{state}" for state in (*table.states, MASTER)}
        states = (buffer.name for buffer in part.residents if buffer.tensor in tensors)
        held |= dict.fromkeys(states, table.cached)
    residents = tuple(
        replace(buffer, num_bytes=held[buffer.name] * buffer.num_bytes // buffer.whole.shape[0])
        if buffer.name in held
        else buffer
        for buffer in part.residents
    )
    return replace(part, columns=Executions.of(executions), names=names, residents=residents)


def _held_rows(table: ServedParameter) -> int:
    """Rows of a table that a worker has room for: those of its cache, or those that it looks up in a step."""
    return table.cached or sum(shard.named for shard in table.shards)


def _held_up(
    executions: Sequence[BlockExecution], codes: Sequence[InstructionBlock], begin: Sequence[BlockExecution]
) -> list[BlockExecution]:
    """The executions, moved back behind those of the begin; the first kernels wait for its gates."""
    moved = len(begin)
    streams = tuple(dict.fromkeys(stream for run in begin for stream in codes[run.code].streams))
    held = False
    made: list[BlockExecution] = []
    for execution in executions:
        after = tuple((place + moved, ago) for place, ago in execution.after)
        execution = replace(execution, after=after)
        if not held and COMPUTE in codes[execution.code].streams:
            execution = replace(execution, after_streams=(*execution.after_streams, *streams))
            held = True
        made.append(execution)
    return made
