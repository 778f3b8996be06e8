"""Parameter servers over days: others go on when workers or servers fail, where all-reduce stops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.errors import PlanError
from simcluster.job import ClusterState
from simcluster.job.timeline import SlowDevice
from simcluster.plan import serve_parameters
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.simulation.compose import plan_scenario
from simcluster.simulation.jobs.step_times import StepTimes
from simcluster.simulation.verification.single_device_comparison import compare_values
from tests.support.servers import BY_ROWS, WIDE_DEEP, server_scenario

CHECKPOINT = {"every": "10 min", "save": "5 s", "load": "20 s"}
WORKER, SERVER, SCHEDULER = 1, 2, 4
"""Hosts: four workers each on the first two, two servers and their scheduler on one each."""


def job(*hosts, policy="elastic", steps=5_000_000, membership=(), **more):
    events = [
        {"at": f"{20 + 30 * place} min", "host": host, "cause": "broken"} for place, host in enumerate(hosts)
    ]
    recovery = {"policy": policy, "heartbeat": "40 s", "checkpoint": CHECKPOINT, **more}
    made = {"steps": steps, "failures": {"events": events}, "recovery": recovery}
    return {**made, "membership": list(membership)}


def document(*hosts, update="synchronous", policy="elastic", servers=None, **more):
    own = {"update": update, **(servers or {})}
    which = server_scenario(8, 2, job=job(*hosts, policy=policy, **more), run={"steps": 2}, **own)
    return simulate(which).documents["job"]


def lost(told):
    return {phase: seconds for phase, seconds in told["time_s"].items() if seconds}


@pytest.mark.parametrize("update", ["synchronous", pytest.param("asynchronous", marks=pytest.mark.thorough)])
def test_workers_that_fail_are_left_out_until_they_are_back(update):
    told = document(WORKER, update=update)
    times = lost(told)
    assert not {"replay", "cut", "stop", "replace"} & set(times)
    assert (times.get("detect", 0) == pytest.approx(40)) == (update == "synchronous")
    assert sum(entry["count"] for entry in told["recoveries"]) == 1


def test_a_server_is_waited_for_and_nothing_is_replayed():
    times = lost(document(SERVER))
    assert times["detect"] == pytest.approx(40)
    assert times["replace"] == pytest.approx(300)
    assert "replay" not in times


def test_without_the_scheduler_the_job_restarts():
    assert "replay" in lost(document(SCHEDULER))


def test_all_reduce_stops_where_workers_of_servers_go_on():
    elastic, stopped = (document(WORKER, SERVER, WORKER, policy=policy) for policy in ("elastic", "restart"))
    assert elastic["goodput"] > stopped["goodput"] + 0.1
    data = server_scenario(8, 2, job=job(0)).spec.model_dump(mode="json", exclude_unset=True)
    del data["parallel"]["parameter_server"]
    data["cluster"] = {"groups": data["cluster"]["groups"][:1]}
    with pytest.raises(PlanError, match="all ranks meet in collectives, which stop when one is lost"):
        simulate(Scenario.of(data))


def test_a_step_without_some_workers_trains_on_fewer_samples():
    times = StepTimes(build_scenario(server_scenario(8, 2)))
    whole, left = times(ClusterState()), times(ClusterState((), 4, (4, 5, 6, 7)))
    assert (whole.samples, left.samples) == (16, 8)
    # Half the gradients and weights go through the cards of the servers.
    assert left.step_ns < whole.step_ns


def test_a_server_that_is_slow_for_a_time_slows_the_steps_of_that_time():
    times = StepTimes(build_scenario(server_scenario(8, 2)))
    slow = times(ClusterState((SlowDevice(8, 0.002),)))
    assert slow.step_ns > 1.2 * times(ClusterState()).step_ns
    assert times(ClusterState((SlowDevice(10, 0.002),))) == times(ClusterState()), "the scheduler's"


def test_servers_and_workers_come_and_go_while_the_others_train():
    """Six workers and a server at the begin, then all, then without a server that fails."""
    membership = [
        {"at": "0 s", "leave": {"workers": [6, 7], "servers": [1]}},
        {"at": "10 min", "join": {"workers": [6, 7], "servers": [1]}},
    ]
    told = document(SERVER + 1, membership=membership, lost_server="take_over")
    assert [(entry["what"], entry["workers"], entry["servers"]) for entry in told["members"]] == [
        ("leave", 6, 1),
        ("join", 8, 2),
        ("lost", 8, 1),
        ("back", 8, 2),
    ]
    joined, back = told["members"][1], told["members"][3]
    assert joined["moved_bytes"] == back["moved_bytes"] > 0
    assert told["time_s"]["move keys"] == pytest.approx(joined["moved_s"] + back["moved_s"], abs=1e-8)
    assert not {"replace", "replay", "stop"} & set(told["time_s"])
    assert told["step_times"][0][3] == 12


@pytest.mark.parametrize(
    ("servers", "more", "message"),
    [
        ({"parameters": ["layers.*"]}, {}, r"workers add the gradient of '.*', which is on no server, up"),
        ({"vocab_cache_size": 4000}, {}, "the gradients of cached rows of"),
        ({}, {"policy": "restart", "membership": [{"at": "1 s", "leave": {"workers": [1]}}]}, "stops all"),
    ],
)
def test_what_stops_with_one_is_refused(servers, more, message):
    own = {"training": {"optimizer": BY_ROWS}, "model": WIDE_DEEP} if "vocab_cache_size" in servers else {}
    which = server_scenario(8, 2, job=job(WORKER, **more), run={"steps": 2}, **own, **servers)
    with pytest.raises(PlanError, match=message):
        simulate(which)


@pytest.mark.parametrize("absent", [frozenset({0}), frozenset({1})])
def test_keys_of_an_absent_server_are_updated_by_the_others(absent):
    which = server_scenario(4, 3, model=WIDE_DEEP, training={"optimizer": BY_ROWS})
    plan = plan_scenario(which)
    spec = which.spec.parallel.parameter_server
    left = serve_parameters(plan.graph, spec, plan.optimizer, plan.mesh, absent)
    assert {shard.server for parameter in left.parameters for shard in parameter.shards} == {0, 1, 2} - absent
    comparisons, fault = compare_values(replace(plan, servers=left), which.cluster, "float64", 0)
    assert not fault and comparisons and all(comparison.agrees for comparison in comparisons)
