"""What each launcher runs, where it works, and which placements it cannot say."""

from __future__ import annotations

import pytest

from simcluster.cluster import AllocatedHost, Allocation, MapBy
from simcluster.document import Refused, validate_data
from simcluster.errors import PlanError
from simcluster.job import LaunchSetting, LaunchSpec, check_launch, launch_methods, launcher_of


def setting(hosts=2, per_host=4, servers=0, by=MapBy.SLOT, allocation=None, file=None):
    ranks = hosts * per_host
    names = [f"node{at}" for at in range(hosts)]
    allocation = allocation or Allocation.dealt(names, [per_host] * hosts, ranks, by)
    workers = allocation.num_ranks - (servers + 1 if servers else 0)
    return LaunchSetting(allocation, workers, servers, frozenset({"ascend"}), (), 1, 1, file)


def processes(method, where=None, file="FILE", **more):
    spec = validate_data({"method": method} | more, LaunchSpec)
    return launcher_of(spec).processes(spec, where or setting(), file)


def test_dynamic():
    scheduler, worker = processes("dynamic", recovery=True, timeout="60 s")
    assert scheduler.line(0) == (
        "MS_ROLE=MS_SCHED MS_SCHED_HOST=node0 MS_SCHED_PORT=8118 MS_WORKER_NUM=8 MS_TOPO_TIMEOUT=60 "
        "MS_ENABLE_RECOVERY=1 MS_RECOVERY_PATH=recovery python train.py"
    )
    assert worker.hosts == ("node0",) * 4 + ("node1",) * 4
    assert worker.own["MS_NODE_ID"] == tuple("01234567")
    assert worker.line(7).startswith("MS_ROLE=MS_WORKER MS_SCHED_HOST=node0")


def test_dynamic_with_parameter_servers():
    """Ranks of servers are behind those of workers, the scheduler's is the last."""
    scheduler, servers, workers = processes("dynamic", setting(servers=2))
    assert (len(scheduler.hosts), len(servers.hosts), len(workers.hosts)) == (1, 2, 5)
    assert scheduler.hosts == ("node1",)
    assert servers.environment["MS_ROLE"] == "MS_PSERVER"
    assert servers.environment["MS_SERVER_NUM"] == "2"
    assert servers.environment["MS_WORKER_NUM"] == "5"
    assert servers.own["MS_NODE_ID"] == ("ps-0", "ps-1")


def test_variables_that_differ_from_defaults_are_set():
    *_, worker = processes(
        "dynamic", heartbeats=False, node_timeout="60 s", retry={"lower": "1 s", "upper": "2 s"}
    )
    for name, value in {
        "MS_DISABLE_HEARTBEAT": "1",
        "MS_NODE_TIMEOUT": "60",
        "MS_RETRY_INTERVAL_LOWER": "1",
        "MS_RETRY_INTERVAL_UPPER": "2",
    }.items():
        assert worker.environment[name] == value


def test_msrun():
    (host,) = processes("msrun", port=9000, script="my train.py")
    assert host.line(1) == (
        "msrun --worker_num=8 --local_worker_num=4 --master_addr=node0 --master_port=9000 --node_rank=1 "
        "--log_dir=log --join=True --cluster_time_out=600 'my train.py'"
    )


def test_mpirun():
    (launcher,) = processes("mpirun", setting(by=MapBy.NODE), "my hosts")
    assert launcher.line(0) == "mpirun -n 8 --hostfile 'my hosts' --map-by node python train.py"


def test_rank_table():
    (worker,) = processes("rank_table", file="hccl.json", timeout="300 s")
    assert worker.line(5) == (
        "RANK_TABLE_FILE=hccl.json RANK_SIZE=8 HCCL_CONNECT_TIMEOUT=300 RANK_ID=5 DEVICE_ID=1 python train.py"
    )


def test_torchrun():
    (host,) = processes("torchrun")
    assert host.line(0) == (
        "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=node0 --master-port=29500 "
        "train.py"
    )


def test_ms_operator():
    operator, scheduler, worker = processes("ms_operator", file="job.yaml")
    assert operator.line(0) == "kubectl apply -f job.yaml"
    # The scheduler has its pod's own address, others its service.
    assert scheduler.environment["MS_SCHED_HOST"] == "$(POD_IP)"
    assert worker.environment["MS_SCHED_HOST"] == "job-scheduler-0"
    assert worker.environment["MS_SCHED_PORT"] == "2222"
    assert len(worker.hosts) == 8


def test_one_worker_alone_is_told_of_nobody():
    _, worker = processes("ms_operator", setting(1, 1))
    assert worker.line(0) == "python train.py"


UNORDERED = Allocation((AllocatedHost("a", (0, 1), (0, 4)), AllocatedHost("b", (2, 3), (0, 4))))
UNEQUAL = Allocation.dealt(["a", "b"], [2, 1], 3, MapBy.SLOT)


@pytest.mark.parametrize("method", ["msrun", "torchrun", "mpirun", "ms_operator"])
def test_launchers_that_deal_ranks_in_order(method):
    with pytest.raises(PlanError, match="here they are given one by one"):
        processes(method, setting(allocation=UNORDERED))


def test_msrun_reads_rank_tables():
    (host,) = processes("msrun", setting(allocation=UNORDERED, file=("rank_table", "hccl.json")))
    assert "--rank_table_file=hccl.json" in host.command


@pytest.mark.parametrize("method", ["msrun", "torchrun"])
def test_launchers_of_equal_hosts(method):
    for allocation in (UNEQUAL, Allocation.dealt(["a", "b"], [2, 2], 4, MapBy.NODE)):
        with pytest.raises(PlanError, match="equally many ranks"):
            processes(method, setting(allocation=allocation))
    assert processes("mpirun", setting(allocation=UNEQUAL))
    assert processes("rank_table", setting(allocation=UNORDERED))[0].own["DEVICE_ID"] == ("0", "4", "0", "4")


SUPPORTED = {
    "dynamic": {"ascend", "gpu", "cpu"},
    "msrun": {"ascend", "gpu", "cpu"},
    "mpirun": {"ascend", "gpu"},
    "rank_table": {"ascend"},
    "ms_operator": {"ascend", "gpu", "cpu"},
    "torchrun": {"ascend", "gpu", "cpu"},
}
"""MindSpore's matrix, and the launchers that it does not have."""


@pytest.mark.parametrize("kind", ["ascend", "gpu", "cpu"])
@pytest.mark.parametrize("method", SUPPORTED)
def test_the_support_matrix(method, kind):
    assert set(launch_methods()) == set(SUPPORTED)
    spec = LaunchSpec(method=method)
    if kind in SUPPORTED[method]:
        check_launch(spec, {kind}, 1, 0)
        return
    with pytest.raises(Refused, match=f"{method} supports .*not {kind.upper()}") as caught:
        check_launch(spec, {kind}, 1, 0)
    assert caught.value.problems[0].path == "method"


def test_hosts_that_are_not_there_and_servers_that_nobody_starts():
    spec = validate_data({"method": "msrun", "late": [{"host": 2, "by": "1 s"}]}, LaunchSpec)
    with pytest.raises(Refused, match="there is no host 2; the last of 2 is 1"):
        check_launch(spec, {"gpu"}, 2, 0)
    with pytest.raises(Refused, match="msrun starts no parameter servers; dynamic and ms_operator do"):
        check_launch(LaunchSpec(method="msrun"), {"gpu"}, 2, 1)
