"""Parameter servers in whole simulations: gates as MindSpore's, bottlenecks, staleness, values, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.analysis import instruction_times
from simcluster.errors import PlanError, ScenarioError
from simcluster.report.content import stage_titles
from simcluster.report.terminal.summary_screen import summary_text
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.compose import run_alone
from tests.support.servers import BY_ROWS, WIDE_DEEP, server_scenario

SLOW = [{"device": 0, "compute": 0.001, "memory_bandwidth": 0.001}]


def summary(*arguments, **keywords):
    return simulate(server_scenario(*arguments, **keywords)).documents["summary"]


@pytest.mark.parametrize("training", [{}, {"optimizer": "adam", "precision": "bf16"}])
@pytest.mark.parametrize(
    ("workers", "servers"), [(1, 1), (4, 3), pytest.param(8, 2, marks=pytest.mark.thorough)]
)
def test_synchronous_updates_are_those_of_one_device(workers, servers, training):
    assert verify(server_scenario(workers, servers, training=training))


@pytest.mark.parametrize("servers", [{}, {"parameters": ["layers.*"]}, {"vocab_cache_size": 4000}])
def test_tables_by_rows_are_those_of_one_device(servers):
    assert verify(server_scenario(4, 3, model=WIDE_DEEP, training={"optimizer": BY_ROWS}, **servers))


@pytest.mark.parametrize(
    "update", [{"update": "asynchronous"}, {"update": "stale_synchronous", "staleness": 1}]
)
@pytest.mark.parametrize("own", [{}, {"model": WIDE_DEEP, "training": {"optimizer": BY_ROWS}}])
def test_other_updates_are_those_of_one_device_in_the_same_order(update, own):
    done = verify(server_scenario(4, 2, **own, **update))
    assert done, done
    assert {comparison.step for comparison in done.comparisons} == {0, 1}
    assert {comparison.what for comparison in done.comparisons} == {"loss", "gradient", "update"}


def test_one_worker_that_updates_asynchronously_trains_as_if_it_were_synchronous():
    """Nobody else is there to make its gradients stale."""
    done = summary(1, 2, update="asynchronous", run={"steps": 3})
    assert done["parameter_server"]["staleness"] == {"mean": 0.0, "max": 0, "counts": [6]}


def test_servers_are_the_bottleneck_where_all_workers_meet():
    """A server's card carries the gradients and the weights of all workers: a bound from below."""
    done = summary(8, 1)
    (server,) = done["parameter_server"]["servers_busy"]
    assert (
        server["pushed_bytes"]
        == server["pulled_bytes"]
        == 8 * 4 * done["parameter_server"]["parameters_on_servers"]
    )
    card = 0.93 * 100e9 / 8
    assert done["step_time_s"] > (server["pushed_bytes"] + server["pulled_bytes"]) / card


def test_more_servers_share_the_load():
    one, four = (summary(8, count)["step_time_s"] for count in (1, 4))
    assert four < 0.7 * one


def test_synchronous_workers_wait_for_the_slowest_and_others_do_not():
    sync, free = (
        summary(4, 2, run={"steps": 6}, changes=SLOW, **update)["parameter_server"]
        for update in ({}, {"update": "asynchronous"})
    )
    assert sync["step_s_min"] == pytest.approx(sync["step_s_max"], rel=0.05)
    assert free["step_s_min"] < 0.5 * free["step_s_max"]
    assert free["samples_per_s"] > 1.5 * sync["samples_per_s"]
    assert free["staleness"]["max"] > 0
    assert sync["staleness"]["max"] == 0


@pytest.mark.parametrize("bound", [0, pytest.param(1, marks=pytest.mark.thorough), 3])
def test_no_worker_is_more_steps_ahead_than_the_bound(bound):
    steps = 8
    which = server_scenario(
        4, 1, run={"steps": steps}, changes=SLOW, update="stale_synchronous", staleness=bound
    )
    built = build_scenario(which)
    timing = run_alone(built)
    overs, begins = [], []
    for index, rank in enumerate(built.classes.representatives):
        if rank < 4:
            times = instruction_times(timing.classes[index])
            names = {built.program.codes[code].name: code for code in times}
            overs.append(times[names["step over"]].ends[:, 0])
            begins.append(times[names["wait for slower workers"]].ends[:, 0])
    overs, begins = np.array(overs), np.array(begins)
    for step in range(bound + 1, steps):
        # Whoever begins a step finds that everybody is over the one so many before.
        assert begins[:, step].min() >= overs[:, step - bound - 1].max()
    # The bound binds: a fast worker does get that far ahead.
    fastest = begins[:, bound + 1 :].min(axis=0)
    assert (fastest < overs[:, bound + 1 :].max(axis=0)).all()


def test_rows_that_are_looked_up_more_than_once_are_sent_once():
    training = {"optimizer": BY_ROWS}
    few, many = (
        summary(4, 2, model=WIDE_DEEP, training=training, ids=ids)["communication_bytes"]["push"][
            "send_receive"
        ]
        for ids in ("zipf:3.0", "uniform")
    )
    assert few < many


def test_a_cache_on_the_device_spares_pulls():
    pulled = [
        summary(
            4, 2, model=WIDE_DEEP, training={"optimizer": BY_ROWS}, vocab_cache_size=rows, ids="zipf:1.1"
        )["communication_bytes"]["pull"]["send_receive"]
        for rows in (100, 1000, 4000)
    ]
    assert pulled[0] > pulled[1] > pulled[2]


def test_a_cache_that_a_batch_does_not_fit_into_is_refused():
    with pytest.raises(PlanError, match=r"a batch looks up 32 different rows of .*, but 20 are cached"):
        build_scenario(
            server_scenario(4, 2, model=WIDE_DEEP, training={"optimizer": BY_ROWS}, vocab_cache_size=20)
        )


def test_the_screen_says_what_servers_do():
    run = simulate(server_scenario(4, 2, update="asynchronous", run={"steps": 2}))
    text = summary_text(run)
    assert "4 workers, 2 servers with" in text
    assert "asynchronous updates" in text
    assert "gradients meet weights that others have updated" in text
    roles = ("workers", "server 0", "server 1", "scheduler")
    for name in roles:
        assert f"  {name} " in text
    assert tuple(stage_titles(run.documents).values()) == roles


def changed(**parallel):
    data = server_scenario(4, 2).spec.model_dump(mode="json", exclude_unset=True)
    data["parallel"] |= parallel
    return data


@pytest.mark.parametrize(
    ("parallel", "message"),
    [
        ({"mesh": {"data": 2, "tensor": 2}}, r"axis 'tensor' \(2\) splits the model"),
        ({"mesh": {"data": 1, "pipeline": 4}}, r"axis 'pipeline' \(4\) splits the model"),
        ({"optimizer_sharding": {"zero": 1}}, "nothing of them is sharded over workers"),
        ({"mesh": {"data": 8}}, r"data 8 \+ 2 servers \+ 1 scheduler = 11, but the cluster has 7 devices"),
        ({"host": ["*.update"]}, "'host' beside parameter servers is not supported"),
        (
            {"parameter_server": {"servers": 2, "parameters": ["nothing.*"]}},
            "'nothing.*' matches no parameter",
        ),
        ({"parameter_server": {"servers": 6}}, "data 4 . 6 servers"),
        (
            {"parameter_server": {"servers": 2, "update": "asynchronous", "parameters": ["layers.*"]}},
            "is on no server: workers add up its gradient",
        ),
        (
            {"strategies": [{"match": "layers.*.mlp.up", "split": {"batch": [], "ffn": "data"}}]},
            "'layers.0.mlp.up.*weight' is split over data, but every worker of servers has all of it",
        ),
        (
            {"strategies": [{"match": "layers.*.mlp.up", "split": {"batch": []}}]},
            "workers repeat each other's gradients of 'layers.0.mlp.up.*weight', which servers would add up",
        ),
        (
            {
                "strategies": [{"match": "layers.*.mlp.activation", "split": {"batch": [], "ffn": "data"}}],
                "parameter_server": {"servers": 2, "update": "asynchronous"},
            },
            "workers exchange parts in 'layers.0.*', and so wait for each other",
        ),
    ],
)
def test_what_does_not_go_with_servers_is_refused(parallel, message):
    from simcluster.scenario import Scenario

    with pytest.raises((PlanError, ScenarioError), match=message):
        build_scenario(Scenario.of(changed(**parallel)))


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ({"update": "stale_synchronous"}, "needs the steps between fastest and slowest"),
        ({"staleness": 2}, "synchronous updates have no bound of staleness"),
        ({"update": "sometimes"}, "sometimes"),
        ({"update": "asynchronous", "vocab_cache_size": 10}, "which then wait for each other"),
        ({"ids": "poisson"}, "ids: 'poisson' is no distribution of rows.*zipf:1.05"),
    ],
)
def test_wrong_keys_of_the_section(servers, message):
    with pytest.raises(ScenarioError, match=message):
        server_scenario(4, 2, **servers)


@pytest.mark.parametrize("rows", [{"vocab_cache_size": 4000}, {"ids": "zipf:1.05"}, {"seed": 3}])
def test_what_is_said_of_rows_is_refused_where_tables_travel_whole(rows):
    with pytest.raises(PlanError, match="no table on servers travels by rows"):
        build_scenario(server_scenario(4, 2, model=WIDE_DEEP, **rows))


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"optimizer": "lamb"}, "servers cannot update by lamb"),
        ({"optimizer": {"kind": "adam", "clip": 1.0}}, "no server sees all gradients"),
    ],
)
def test_optimizers_that_servers_do_not_have(training, message):
    with pytest.raises(PlanError, match=message):
        build_scenario(server_scenario(4, 2, training=training))


@pytest.mark.parametrize(
    ("change", "at_least"),
    [
        ({"compute": 0.5}, 1.9),
        pytest.param({"memory_bandwidth": 0.1}, 4.0, marks=pytest.mark.thorough),
    ],
)
def test_a_slow_server_works_longer(change, at_least):
    """Four gradients of every key are added up, then the key is updated: all of it on the slow processor."""
    nominal, slow = (
        summary(4, 2, changes=changes)["parameter_server"]["servers_busy"]
        for changes in ([], [{"device": 4, **change}])
    )
    assert slow[0]["work_s"] > at_least * nominal[0]["work_s"]
    assert slow[1]["work_s"] == nominal[1]["work_s"]


def test_servers_run_on_processors():
    data = changed()
    data["cluster"] = {"use": "dgx-h100", "hosts": 1, "host": None} | {}
    del data["cluster"]["host"]
    data["parallel"] |= {"mesh": {"data": 5}}
    data["training"] |= {"global_batch": 10}
    from simcluster.scenario import Scenario

    with pytest.raises(PlanError, match="rank 5, server 0, would be on a h100-sxm"):
        build_scenario(Scenario.of(data))
