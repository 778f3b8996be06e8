"""Ranks where a launcher's file puts them: the order decides the traffic, not the values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simcluster.cluster import AllocatedHost, Allocation, ClusterSpec, allocation_formats
from simcluster.document import validate_data
from simcluster.engine import Workload, run
from simcluster.errors import PlanError, ScenarioError, SimulationError
from simcluster.program import HostCalls, partition_ranks
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, launcher_file, simulate, verify
from simcluster.simulation.recording import record_run
from simcluster.values import Replay, SeededData
from tests.support.folding import assert_folded_is_unfolded

DATA = {
    "simcluster": 1,
    "name": "placed",
    "model": {"layers": 4, "hidden": 256, "heads": 8, "ffn": 512, "vocab": 512},
    "training": {"global_batch": 8, "micro_batch": 1, "seq_len": 64, "precision": "fp16"},
    "parallel": {"mesh": {"pipeline": 2, "data": 2, "tensor": 4}},
}


def scenario(folder, cluster, **more):
    return Scenario.of(DATA | {"cluster": cluster} | more, folder)


def table(folder, hosts, name="hccl.json", use="atlas-800"):
    """A rank table of (server, devices) with ranks in this order."""
    made, rank = [], 0
    for server, devices in hosts:
        ranks = tuple(range(rank, rank + len(devices)))
        made.append(AllocatedHost(server, ranks, tuple(devices)))
        rank += len(devices)
    site = validate_data({"use": use, "hosts": len(hosts)}, ClusterSpec).site
    (folder / name).write_text(allocation_formats()["rank_table"]().write(Allocation(tuple(made)), site, ""))
    return {"use": use, "rank_table": name}


def summary(which, **options):
    return simulate(which, **options).documents["summary"]


IN_ORDER = range(8)
ACROSS = (0, 4, 1, 5, 2, 6, 3, 7)
"""Ranks of a server that go back and forth between its groups of four."""


def test_in_order_it_is_the_cluster_itself(tmp_path):
    plain = summary(scenario(tmp_path, {"use": "atlas-800", "hosts": 2}))
    same = summary(scenario(tmp_path, table(tmp_path, [("a", IN_ORDER), ("b", IN_ORDER)])))
    for both in (plain, same):
        both.pop("wall_s")
    assert same == plain


def test_a_badly_ordered_rank_table_is_slower(tmp_path):
    """The tensor group of four is one of the server's groups of four, or lies across both, over PCIe."""
    good = scenario(tmp_path, table(tmp_path, [("a", IN_ORDER), ("b", IN_ORDER)], "good.json"))
    bad = scenario(tmp_path, table(tmp_path, [("a", ACROSS), ("b", ACROSS)], "bad.json"))
    before, after = summary(good), summary(bad)
    assert after["step_time_s"] > 1.05 * before["step_time_s"]
    assert after["exposed_communication_s"]["tensor"] > 1.2 * before["exposed_communication_s"]["tensor"]


def test_hosts_in_another_order_are_further_apart(tmp_path):
    """Two hosts to a leaf, whose trunks are narrow: data groups over hosts of one leaf, or of two."""
    network = {
        "kind": "leaf_spine",
        "hosts_per_leaf": {"value": 2, "source": "made up", "provenance": "scenario"},
        "oversubscription": {"value": 8.0, "source": "made up", "provenance": "scenario"},
    }
    mesh = {"parallel": {"mesh": {"pipeline": 2, "data": 4, "tensor": 4}}}

    def step(servers):
        cluster = table(tmp_path, [(server, IN_ORDER) for server in servers])
        return summary(scenario(tmp_path, cluster | {"network": network}, **mesh))["step_time_s"]

    near = step(["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"])
    assert step(["10.0.0.2", "10.0.0.1", "10.0.0.4", "10.0.0.3"]) == near
    assert step(["10.0.0.1", "10.0.0.3", "10.0.0.2", "10.0.0.4"]) > near


def test_a_hostfile_mapped_by_node_is_slower(tmp_path):
    (tmp_path / "hosts").write_text("a slots=8\nb slots=8\n")
    cluster = {"use": "dgx-h100", "hostfile": "hosts"}
    by_slot = summary(scenario(tmp_path, cluster))["step_time_s"]
    by_node = summary(scenario(tmp_path, cluster | {"map_by": "node"}))["step_time_s"]
    assert by_slot == summary(scenario(tmp_path, {"use": "dgx-h100", "hosts": 2}))["step_time_s"]
    assert by_node > by_slot


def test_some_devices_of_each_host_in_any_order(tmp_path):
    """Folded equals unfolded, and figures are those of the devices that are used."""
    cluster = table(
        tmp_path,
        [("c", (7, 0, 3, 5, 1)), ("a", (4, 2, 6)), ("b", (0, 1, 2, 3, 4, 5, 6, 7))],
        use="atlas-800t-a2",
    )
    which = scenario(tmp_path, cluster)
    assert_folded_is_unfolded(which)
    run = simulate(which)
    assert run.documents["summary"]["num_ranks"] == 16
    assert run.documents["topology"]["hosts"] == 3
    assert run.documents["topology"]["devices"] == 16


def values(which):
    """Losses and weights of every rank, replayed in the order of the timing."""
    built = build_scenario(which)
    plan, program, cluster = built.plan, built.program, built.cluster
    classes = partition_ranks(program, cluster, unfold=True)
    timing = run(
        Workload(
            program,
            cluster,
            classes,
            steps=2,
            dispatch=plan.execution.dispatch,
            algorithms=plan.execution.algorithms,
            host=HostCalls.of(plan),
        )
    )
    parts = [program.part_of(rank) for rank in classes.representatives]
    replay = Replay(
        program, record_run(program, parts, timing.classes).table(), SeededData(0, np.dtype("float64"))
    )
    replay.run()
    return timing.end, {
        (step, rank): loss.part
        for step, losses in replay.recorded.losses.items()
        for rank, loss in losses.items()
    }


def test_one_host_of_eight_and_two_of_four_give_the_same_values(tmp_path):
    """MindSpore prints the same losses for 1 x 8 and 2 x 4 (dynamic_cluster.md): bit for bit, here too."""
    mesh = {
        "parallel": {"mesh": {"data": 4, "tensor": 2}},
        "model": {"layers": 1, "hidden": 32, "heads": 4, "ffn": 64, "vocab": 64},
    }
    one = scenario(tmp_path, table(tmp_path, [("a", IN_ORDER)], "one.json", "atlas-800t-a2"), **mesh)
    hosts = [("a", range(4)), ("b", range(4))]
    two = scenario(tmp_path, table(tmp_path, hosts, "two.json", "atlas-800t-a2"), **mesh)
    apart = [("b", (6, 0, 3, 1)), ("a", (5, 2, 7, 4))]
    shuffled = scenario(tmp_path, table(tmp_path, apart, "apart.json", "atlas-800t-a2"), **mesh)
    (near, expected), (far, same), (_, again) = values(one), values(two), values(shuffled)
    assert far != near  # they are timed on different links
    assert set(expected) == set(same) == set(again)
    assert len({step for step, _ in expected}) == 2
    for key, loss in expected.items():
        assert np.array_equal(loss, same[key])
        assert np.array_equal(loss, again[key])


def test_it_verifies(tmp_path):
    hosts = [("b", (7, 0, 3, 5)), ("a", (4, 2, 6, 1)), ("c", IN_ORDER)]
    assert verify(scenario(tmp_path, table(tmp_path, hosts, use="atlas-800t-a2")))


def launched(folder, cluster, method, **more):
    return scenario(folder, cluster, job={"steps": 10, "launch": {"method": method} | more})


@pytest.mark.parametrize(
    ("use", "method", "key"),
    [
        ("atlas-800", "rank_table", "rank_table"),
        ("cloudmatrix-384", "rank_table", "rank_table"),
        ("dgx-h100", "mpirun", "hostfile"),
        ("dgx-h100", "ms_operator", "msjob"),
    ],
)
def test_what_a_scenario_writes_is_its_cluster(tmp_path, use, method, key):
    hosts = {"atlas-800": 2, "cloudmatrix-384": 1, "dgx-h100": 2}[use]
    which = launched(tmp_path, {"use": use, "hosts": hosts}, method)
    built = build_scenario(which)
    (tmp_path / "file").write_text(launcher_file(built))
    again = build_scenario(launched(tmp_path, {"use": use, key: "file"}, method))
    ranks = np.arange(16)
    assert np.array_equal(built.cluster.devices_of(ranks), again.cluster.devices_of(ranks))
    assert summary(which)["step_time_s"] == summary(again.scenario)["step_time_s"]


def test_hosts_of_others_between_its_own_cannot_be_said(tmp_path):
    which = launched(tmp_path, {"use": "atlas-800", "hosts": 4, "own_hosts": "1, 3"}, "rank_table")
    with pytest.raises(PlanError, match="hosts of others stand between"):
        launcher_file(build_scenario(which))


def test_the_start_is_in_the_run(tmp_path):
    run = simulate(launched(tmp_path, {"use": "atlas-800", "hosts": 2}, "msrun"))
    start = run.documents["job"]["start_up"]
    assert start["method"] == "msrun"
    assert start["total_s"] == pytest.approx(sum(phase["seconds"] for phase in start["phases"]))
    ends = [phase["start_s"] + phase["seconds"] for phase in start["phases"]]
    assert [phase["start_s"] for phase in start["phases"]][1:] == pytest.approx(ends[:-1])
    assert not start["worker_recovery"]["survivors"]
    json.dumps(run.documents["job"])


def test_a_job_that_does_not_start_fails(tmp_path):
    which = launched(tmp_path, {"use": "atlas-800", "hosts": 2}, "dynamic", started=15)
    with pytest.raises(SimulationError, match="15 of 16 workers are there after 1800 s"):
        simulate(which)


@pytest.mark.parametrize(
    ("cluster", "job", "path", "message"),
    [
        ({"use": "dgx-h100", "hosts": 2}, {"method": "rank_table"}, "job.launch.method", "supports Ascend"),
        ({"use": "cpu-server", "hosts": 8}, {"method": "mpirun"}, "job.launch.method", "Ascend and GPU"),
        (
            {"use": "dgx-h100", "hosts": 2},
            {"method": "msrun", "late": [{"host": 2, "by": "1 s"}]},
            "job.launch.late.0.host",
            "there is no host 2",
        ),
    ],
)
def test_launchers_that_do_not_go_with_the_cluster(tmp_path, cluster, job, path, message):
    with pytest.raises(ScenarioError, match=message) as caught:
        scenario(tmp_path, cluster, job={"steps": 1, "launch": job})
    assert caught.value.problems[0].path == path


def test_changes_name_devices_by_where_they_are(tmp_path):
    cluster = table(tmp_path, [("b", ACROSS), ("a", IN_ORDER)])
    slow = scenario(tmp_path, cluster | {"changes": [{"device": 12, "compute": 0.5}]}).cluster
    # Device 4 of host b, which is the second: its rank is 1.
    assert {rank: speed.compute for rank, speed in slow.speeds.items()} == {1: 0.5}


def test_the_shipped_table_is_where_the_scenario_says():
    shipped = Scenario.load(Path("scenarios/pangu-alpha-13b-64-ascend-910.yaml"))
    assert shipped.cluster.num_devices == 64
    assert shipped.spec.cluster.allocation.notes == ()


def msjob(folder, scheduler, servers, workers):
    """A sample of ms-operator, with so many pods of each role."""
    roles = {"Scheduler": scheduler, "PS": servers, "Worker": workers}
    container = {"name": "mindspore", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    written = {
        "apiVersion": "mindspore.gitee.com/v1",
        "kind": "MSJob",
        "metadata": {"name": "sample"},
        "spec": {
            "msReplicaSpecs": {
                role: {"replicas": count, "template": {"spec": {"containers": [container]}}}
                for role, count in roles.items()
                if count
            }
        },
    }
    (folder / "job.yaml").write_text(json.dumps(written))
    return {"use": "dgx-h100", "msjob": "job.yaml"}


@pytest.mark.parametrize("shape", [(0, 0, 1), (1, 0, 4)])
def test_samples_of_ms_operator(tmp_path, shape):
    """Standalone, and data parallel."""
    workers = shape[-1]
    mesh = {"parallel": {"mesh": {"data": workers}}}
    job = {"steps": 10, "launch": {"method": "ms_operator"}}
    which = scenario(tmp_path, msjob(tmp_path, *shape), job=job, **mesh)
    run = simulate(which)
    assert run.documents["summary"]["num_ranks"] == workers
    assert run.documents["job"]["start_up"]["workers"] == workers


@pytest.mark.parametrize("shape", [(1, 2, 1), (1, 2, 4)])
def test_samples_of_ms_operator_with_parameter_servers(tmp_path, shape):
    """With one Worker, and with four: Workers on the devices, PS and Scheduler on processors."""
    scheduler, servers, workers = shape
    groups = [
        {"host": {"use": "dgx-h100", "devices": workers}, "hosts": 1},
        {"host": {"use": "cpu-server", "devices": 1}, "hosts": servers + scheduler},
    ]
    cluster = {"groups": groups, "msjob": msjob(tmp_path, *shape)["msjob"]}
    parallel = {"mesh": {"data": workers}, "parameter_server": {"servers": servers}}
    job = {"steps": 10, "launch": {"method": "ms_operator"}}
    run = simulate(scenario(tmp_path, cluster, job=job, parallel=parallel))
    assert run.documents["summary"]["num_ranks"] == sum(shape)
    start = run.documents["job"]["start_up"]
    assert (start["workers"], start["parameter_servers"]) == (workers, servers)


@pytest.mark.parametrize("shape", [(1, 2, 1), (1, 2, 4)])
def test_parameter_servers_of_an_msjob_are_those_of_the_plan(tmp_path, shape):
    with pytest.raises(ScenarioError, match="the MSJob has 2 PS, but the plan has 0 parameter servers"):
        scenario(tmp_path, msjob(tmp_path, *shape), parallel={"mesh": {"data": sum(shape)}})
