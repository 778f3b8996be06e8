"""Sweeps on a real Dask scheduler with worker processes, one of which is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from concurrent.futures import BrokenExecutor

import pytest

import simcluster
from simcluster.cli.app import command_line
from simcluster.workers import DaskExecutor, Failure, in_order, run_all
from tests.support.scenario_texts import but

pytestmark = [
    pytest.mark.thorough,
    # What Dask and its event loop leave to the collector is not ours.
    pytest.mark.filterwarnings("ignore"),
]

VARY = {"training.micro_batch": [1, 2], "parallel.mesh.tensor": [1, 2, 3], "run.seed": [1, 2]}


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(but("data: 2", "data: auto"))
    return "small.yaml"


@pytest.fixture
def cluster():
    """A scheduler of its own, with two worker processes of one thread each."""
    from distributed import LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": "CRITICAL"}
    with LocalCluster(n_workers=2, **options) as cluster:
        yield cluster


def workers_of(cluster):
    return [nanny.process.pid for nanny in cluster.workers.values() if nanny.process is not None]


def slow_square(number):
    time.sleep(0.02)
    return number * number


def dies_on_three(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def test_a_worker_that_is_killed_costs_nothing(scenario, cluster, tmp_path):
    """Nothing is lost, nothing is there twice, and the bytes are those of this process."""
    expected = simcluster.sweep(scenario, VARY, jobs=1, out="one.csv").to_csv()
    pid, done = workers_of(cluster)[0], []

    def kill_in_the_middle(number):
        done.append(number)
        if number == 4:
            os.kill(pid, signal.SIGKILL)
            journal = (tmp_path / "dask.csv.journal").read_text().splitlines()[1:]
            assert len({json.loads(line)[0] for line in journal}) == len(journal) == 4

    simcluster.sweep(scenario, VARY, dask=cluster.scheduler_address, out="dask.csv", watch=kill_in_the_middle)
    assert done == list(range(1, 13))
    assert (tmp_path / "dask.csv").read_text() == (tmp_path / "one.csv").read_text() == expected
    assert pid not in workers_of(cluster)


def test_calls_that_kill_every_worker_are_failures(cluster):
    with DaskExecutor.connect(cluster.scheduler_address, 2) as executor:
        assert executor.num_workers == 4
        outcomes = list(in_order(run_all(slow_square, range(12), executor)))
        assert outcomes == [number * number for number in range(12)]
    cluster.scheduler.allowed_failures = 0
    with DaskExecutor.connect(cluster.scheduler_address, 2) as executor:
        ((_, outcome),) = run_all(dies_on_three, [3], executor)
        assert isinstance(outcome, Failure) and outcome.is_worker_lost
        assert list(run_all(dies_on_three, [4], executor)) == [(0, 16)]


def test_a_scheduler_that_goes_away_ends_it(cluster, monkeypatch):
    monkeypatch.setattr("simcluster.workers.dask_executor._ANSWER_SECONDS", 2.0)
    done = []
    with DaskExecutor.connect(cluster.scheduler_address, 2) as executor:
        outcomes = run_all(slow_square, range(40), executor)
        with pytest.raises(BrokenExecutor, match=r"dropped a call|does not answer|takes no more"):
            for index, outcome in outcomes:
                assert outcome == index * index
                done.append(index)
                if len(done) == 5:
                    cluster.close()
    assert 5 <= len(done) < 40


def test_a_local_cluster_of_the_command(scenario, capsys, tmp_path):
    arguments = ["sweep", scenario, "--vary", "training.micro_batch=1,2", "-q", "--out"]
    assert command_line([*arguments, "dask.csv", "--dask", "local", "--jobs", "1"]) == 0
    assert command_line([*arguments, "here.csv", "--jobs", "1"]) == 0
    assert (tmp_path / "dask.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


def test_a_scheduler_that_is_not_there_is_told_within_seconds(scenario, capsys, monkeypatch):
    monkeypatch.setattr("simcluster.workers.dask_executor._ANSWER_SECONDS", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # accepts, and never answers
        free = socket.create_server(("127.0.0.1", 0))
        closed = free.getsockname()[1]
        free.close()
        for address, words in [
            (f"tcp://127.0.0.1:{closed}", "no Dask scheduler answers there within 2 s"),
            (f"tcp://127.0.0.1:{deaf.getsockname()[1]}", "no Dask scheduler answers there within 2 s"),
            ("127.0.0.1", "missing port number"),
            ("http://127.0.0.1:1", "expected an address such as tcp://"),
        ]:
            began = time.monotonic()
            assert command_line(["sweep", scenario, "--vary", "run.seed=1,2", "--dask", address]) == 2
            assert time.monotonic() - began < 6
            assert words in capsys.readouterr().err


def test_a_scheduler_without_workers_is_told(scenario, cluster, capsys, monkeypatch):
    monkeypatch.setattr("simcluster.workers.dask_executor._JOIN_SECONDS", 1.0)
    cluster.scale(0)
    while cluster.scheduler.workers:
        time.sleep(0.05)
    address = cluster.scheduler_address
    assert command_line(["sweep", scenario, "--vary", "run.seed=1,2", "--dask", address]) == 2
    err = capsys.readouterr().err
    assert "the scheduler is there, but no worker has joined it" in err
    assert f"dask worker {address}" in err


def test_workers_of_another_version_are_refused(scenario, cluster, capsys, monkeypatch):
    monkeypatch.setattr("simcluster.workers.dask_executor.__version__", "0.0.0-other")
    address = cluster.scheduler_address
    assert command_line(["sweep", scenario, "--vary", "run.seed=1,2", "--dask", address]) == 2
    err = capsys.readouterr().err
    assert f"has simcluster {simcluster.__version__}; here is 0.0.0-other" in err
