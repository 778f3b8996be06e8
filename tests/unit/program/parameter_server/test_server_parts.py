"""Codes of workers and servers, written for a plan of one dense key and one table."""

from __future__ import annotations

from simcluster.layout import Layout
from simcluster.model import Momentum, Role, TensorType, Value
from simcluster.plan import ServedParameter, ServerPlan, ServerShard, ServerUpdate
from simcluster.program.isa import InstructionKind
from simcluster.program.parameter_server.server_part import ServerBuilder
from simcluster.program.parameter_server.worker_codes import WorkerBuilder
from simcluster.work import DType


def key(name, shape, shards, *, is_table=False):
    kind = TensorType(shape, DType.FP32)
    value = Value(kind, Role.PARAMETER, Layout.replicated(len(shape)))
    return ServedParameter(
        name=name,
        instance="layer",
        parameter=name,
        value=value,
        gradient=f"{name}.grad",
        gradient_value=value,
        gradient_local=kind,
        ids="",
        ids_local=None,
        is_table=is_table,
        lookups=0,
        update=Momentum(),
        states={"momentum": DType.FP32},
        master=None,
        shards=shards,
    )


DENSE = key("dense", (4, 6), (ServerShard(1, 0, 4, 4),))
TABLE = key("table", (5, 2), (ServerShard(0, 0, 3, 5), ServerShard(1, 3, 2, 5)), is_table=True)


def plan(update=ServerUpdate.SYNCHRONOUS, staleness=0):
    return ServerPlan(3, 2, update, staleness, (DENSE, TABLE))


def instructions(codes, action):
    return [one for code in codes for one in code.instructions if one.action is action]


def test_workers_push_every_key_to_its_server_and_pull_it_back():
    codes = []
    worker = WorkerBuilder(plan(), codes)
    assert not worker.begin()
    pushes, pulls = list(worker.pushes()), list(worker.pulls())
    assert (len(pushes), len(pulls)) == (3, 2)
    sent = instructions(codes, InstructionKind.PUSH)
    assert [(one.name, one.server, one.num_bytes) for one in sent] == [
        ("push dense", 4, 96),
        ("push table", 3, 24),
        ("push table", 4, 16),
    ]
    assert sum(one.num_bytes for one in instructions(codes, InstructionKind.PULL)) == 96 + 40


def test_a_push_waits_for_all_pulls_of_the_step_before():
    codes = []
    list(WorkerBuilder(plan(), codes).pushes())
    waits = [one.gate for one in instructions(codes, InstructionKind.GATE)]
    assert {(wait.count, wait.steps_ago) for wait in waits} == {(3, 1)}


def test_a_server_updates_when_all_workers_have_pushed_all_of_its_keys():
    codes = []
    part = ServerBuilder(plan(), 1, codes).build()
    (code,) = codes
    gates = [one.gate for one in code.instructions if one.action is InstructionKind.GATE]
    assert [(wait.gate.name, wait.count) for wait in gates] == [
        ("dense pushed to server 1", 3),
        ("table pushed to server 1", 3),
    ]
    updates = [place for place, one in enumerate(code.instructions) if one.name.startswith("update")]
    sums = [place for place, one in enumerate(code.instructions) if one.name.startswith("add up")]
    assert min(updates) > max(sums)
    assert [gate.name for gate in code.instructions[-1].opens] == ["updates of server 1"]
    assert {buffer.name for buffer in part.residents} >= {"dense", "dense.momentum", "table[3:5]"}


def test_asynchronous_servers_update_for_every_worker_by_itself():
    codes = []
    part = ServerBuilder(plan(ServerUpdate.ASYNCHRONOUS), 0, codes).build()
    assert len(codes) == len(part.executions) == 3
    assert [code.instructions[-1].opens[0].rank for code in codes] == [0, 1, 2]
    assert {one.gate.count for code in codes for one in code.instructions if one.gate} == {1}


def test_the_clock_of_stale_synchronous_workers():
    codes = []
    worker = WorkerBuilder(plan(ServerUpdate.STALE_SYNCHRONOUS, 2), codes)
    (begin,) = worker.begin()
    (gate,) = codes[begin.code].instructions
    assert (gate.gate.count, gate.gate.steps_ago) == (3, 3)
    *_, clock = worker.pulls()
    assert codes[clock.code].instructions[0].opens[0] == gate.gate.gate
