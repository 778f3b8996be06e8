"""The input pipeline: what it takes, what it contends for, and that it changes no value."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.collectives import Operation, collective_time
from simcluster.errors import SimclusterError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.verification.single_device_comparison import verify
from tests.support.covering import quick_at
from tests.support.folding import assert_folded_is_unfolded
from tests.support.implementations import assert_all_agree
from tests.support.input_scenarios import fed, written

GB = 1e9
PIPELINED = {"pipeline": 2, "data": 2, "tensor": 2}


def bare():
    return Scenario.of({key: value for key, value in written().items() if key != "data"})


def summary(which, **more):
    return simulate(which, **more).documents["summary"]


def test_a_step_that_waits_for_decoding_takes_what_decoding_takes():
    found = summary(fed(decode="20 ms", workers=4, micro_batches=5))
    assert found["step_time_s"] == pytest.approx(5 * 0.020 / 4, rel=0.01)
    assert found["input_wait_s"] > 0.8 * found["step_time_s"]


def test_nothing_waits_where_the_host_is_fast_enough():
    found, free = summary(fed(decode="1 us")), summary(bare())
    assert found["step_time_s"] == pytest.approx(free["step_time_s"], rel=1e-5)
    assert found["input_wait_s"] == 0


def test_devices_of_a_socket_share_its_cores():
    """DGX-1V: 20 cores for the four devices of a socket."""
    few, many = (summary(fed(host="dgx-1v", decode="20 ms", workers=count)) for count in (5, 64))
    assert few["step_time_s"] == pytest.approx(many["step_time_s"], rel=1e-6)
    assert few["step_time_s"] == pytest.approx(4 * 0.020 / 5, rel=0.02)


def test_devices_of_a_host_share_its_disks():
    """50 GB/s for eight devices, 22 GB/s of them to the other socket's four."""
    found = summary(fed(source="disks", sample="1 GB", micro_batches=3))
    near, far = 3 * 4 * GB / (28 * GB), 3 * 4 * GB / (22 * GB)
    assert found["step_time_s"] == pytest.approx(far, rel=0.01)
    assert near < found["step_time_s"]


def test_hosts_share_storage():
    storage = {"storage": {"read": "10 GB/s", "write": "5 GB/s", "host": "8 GB/s", "latency": "1 ms"}}
    one, two = (
        summary(
            fed(
                {"data": 8 * hosts},
                hosts=hosts,
                source="storage",
                sample="100 MB",
                cluster=storage,
            )
        )["step_time_s"]
        for hosts in (1, 2)
    )
    assert one == pytest.approx(4 * 8 * 0.1 / 8, rel=0.05)
    assert two == pytest.approx(4 * 16 * 0.1 / 10, rel=0.05)


def test_one_step_is_the_mean_of_many():
    """A run begins with as much prepared as a long one has at the beginning of each step."""
    disks = {"source": "disks", "sample": "1 GB"}
    for more in (
        {"decode": "20 ms"},
        disks,
        {"decode": "1 s", "micro_batches": 1, **disks},
    ):
        one, many = (summary(fed(**more, steps=steps))["step_time_s"] for steps in (1, 10))
        assert one == pytest.approx(many, rel=0.08), more


@pytest.mark.thorough
@settings(max_examples=10)
@given(
    mesh=st.sampled_from([{"data": 8}, PIPELINED, {"data": 4, "tensor": 2}]),
    host=st.sampled_from(["dgx-h100", "atlas-800t-a2", "dgx-1v"]),
    micro_batches=st.integers(1, 4),
    steps=st.integers(1, 2),
    prefetch=st.integers(1, 5),
    decode=st.sampled_from(["0 us", "30 us", "1 ms"]),
    strategy=st.sampled_from([None, "full_batch"]),
    changes=st.sampled_from(
        [
            [],
            [{"device": 3, "compute": 0.5}],
            [{"link": "host.0.memory.0.out", "bandwidth": 0.001}],
            [{"link": "host.0.work.*", "bandwidth": 0.5, "from": "1 ms"}],
        ]
    ),
)
def test_folded_is_unfolded_and_swept_is_by_events(mesh, host, changes, **data):
    which = fed(mesh, host=host, cluster={"changes": changes}, **data)
    assert_folded_is_unfolded(which)
    assert_all_agree(build_scenario(which, unfold=True))


@pytest.mark.parametrize(
    "strategy",
    quick_at(
        [
            "data_parallel",
            "full_batch",
            [["data", "tensor"], ["data", None]],
            [[["data", "tensor"], 1], [1, 1]],
        ],
        2,
    ),
)
def test_values_do_not_care(strategy):
    assert verify(fed(PIPELINED, micro_batch=2, strategy=strategy, decode="1 ms")).agrees


def test_a_device_is_given_its_part_or_everything():
    parts = {
        strategy: simulate(fed(PIPELINED, micro_batch=2, strategy=strategy))
        for strategy in (None, "data_parallel", "full_batch")
    }
    copied = {}
    for strategy, run in parts.items():
        mine = run.spans.where(run.spans["class"] == 0)
        copied[strategy] = set(mine["bytes"][mine.text("operator") == "input.copy"].tolist())
    tokens = 8 * 8  # of one sample
    assert copied == {None: {2 * tokens}, "data_parallel": {tokens}, "full_batch": {4 * tokens}}


def test_the_next_micro_batch_lies_on_the_device():
    more = summary(fed())["peak_memory_bytes_max"] - summary(bare())["peak_memory_bytes_max"]
    assert more == 2 * 8 * 8  # tokens and targets


def test_a_cut_has_no_remainder():
    found = summary(fed(PIPELINED, decode="1 ms"))
    names = ("compute_s", "slowed_s", "host_s", "pipeline_wait_s", "input_wait_s", "idle_s", "offload_wait_s")
    whole = sum(found[name] for name in names) + sum(found["exposed_communication_s"].values())
    assert whole == pytest.approx(found["step_time_s"], rel=1e-12)


@pytest.mark.parametrize(
    ("host", "mesh", "data", "told"),
    [
        ("dgx-b300", {"data": 8}, {"decode": "1 ms"}, "does not say how many cores it has"),
        ("atlas-800t-a2", {"data": 8}, {"source": "disks"}, "does not say how fast its disks are"),
        ("dgx-h100", {"data": 8}, {"source": "storage"}, "the cluster has no storage"),
        ("dgx-h100", {"data": 8}, {"strategy": [["data", 1]]}, "1 inputs are listed, but the model has 2"),
        ("dgx-h100", {"data": 8}, {"strategy": [[3, 1], [1, 1]]}, "3 x 1 = 3 parts for the 8 ranks"),
        ("dgx-h100", {"data": 8}, {"strategy": [[2, "data"], [1, 1]]}, "axes and numbers are mixed"),
        ("dgx-h100", {"data": 8}, {"strategy": [["dat", 1], [1, 1]]}, "no axis 'dat' splits inputs"),
        ("dgx-h100", {"data": 8}, {"strategy": [["data"], [1, 1]]}, "tokens has 2 dims, not 1"),
        ("dgx-h100", {"data": 8}, {"strategy": [["data", "data"], [1, 1]]}, "splits two dims of tokens"),
        ("dgx-h100", PIPELINED, {"strategy": "data_parallel"}, "does not divide over data 2 x tensor 2"),
    ],
)
def test_what_cannot_be(host, mesh, data, told):
    with pytest.raises(SimclusterError) as raised:
        build_scenario(fed(mesh, host=host, **data))
    assert told in str(raised.value)
    assert "data" in str(raised.value)


def test_an_epoch_is_told():
    which = fed(rows=1001, micro_batches=2)
    assert simulate(which).documents["plan"]["inputs"]["epoch"] == {
        "rows": 1001,
        "num_shards": 8,
        "rows_per_shard": 126,
        "repeated": 7,
        "steps": 63,
    }


@pytest.mark.parametrize(
    ("counted", "named"),
    quick_at(
        [
            ("((2, 1), (2, 1))", [["data", None], ["data", None]]),
            (((8, 1), (8, 1)), [[["data", "tensor"], None], [["data", "tensor"], None]]),
            ("((1, 4), (1, 4))", [[None, "tensor"], [None, "tensor"]]),
            ("((2, 4), (1, 1))", [["data", "tensor"], [None, None]]),
        ],
        3,
    ),
)
def test_inputs_in_numbers_are_inputs_by_axes(counted, named):
    """MindSpore's dataset_strategy counts parts; replicas are the outermost ranks."""
    mesh = {"data": 2, "tensor": 4}
    which = written(mesh, micro_batch=4, strategy=counted)
    if counted == "((2, 1), (2, 1))":
        # Two parts of eight ranks: the innermost two, the replicas being outermost.
        which["parallel"]["mesh"], named = {"tensor": 4, "data": 2}, [["data", None], ["data", None]]
    same = json.loads(json.dumps(which))
    same["data"]["strategy"] = named
    one, other = Scenario.of(which), Scenario.of(same)
    assert build_scenario(one).program.digest() == build_scenario(other).program.digest()
    assert verify(one).agrees


def test_inputs_in_numbers_cut_the_mesh():
    """Two parts are over two neighbours, which cuts an axis of four."""
    which = fed({"data": 2, "tensor": 4}, micro_batch=2, strategy=[[2, 1], [2, 1]])
    assert build_scenario(which).plan.mesh.names == ("data", "tensor.0", "tensor.1")
    assert verify(which).agrees


def test_inputs_may_be_split_further_than_the_batch():
    """The small form of a plan keeps a micro-batch that divides as its inputs do."""
    assert verify(fed({"data": 2, "tensor": 4}, micro_batch=4, strategy="data_parallel")).agrees


@pytest.mark.parametrize(
    ("strategy", "shards"),
    [("data_parallel", 8), ("full_batch", 1), ([["data", None], ["data", None]], 2), (None, 2)],
)
def test_a_dataset_has_as_many_shards_as_its_samples_are_split(strategy, shards):
    """Every rank of a data-parallel dataset reads rows of its own, also those that then share their work."""
    told = {} if strategy is None else {"strategy": strategy}
    which = fed({"data": 2, "tensor": 4}, rows=1000, micro_batches=2, micro_batch=4, **told)
    epoch = simulate(which).documents["plan"]["inputs"]["epoch"]
    assert (epoch["num_shards"], epoch["rows_per_shard"]) == (shards, 1000 // shards)
    assert epoch["steps"] == 1000 // shards // (16 // shards)


def test_a_broadcast_of_parameters_comes_before_the_steps():
    """As long as one broadcast after another; what tensor ranks share out is not sent."""
    which = written({"data": 4, "tensor": 2})
    which["parallel"]["parameter_broadcast"] = True
    told = simulate(Scenario.of(which)).documents["plan"]["parameter_broadcast"]
    built = build_scenario(Scenario.of(which))
    whole = [
        each.num_bytes
        for each in built.program.parts[0].residents
        if str(each.category) == "parameters" and not each.layout.axes
    ]
    assert told["broadcasts"] == len(whole) < len(built.program.parts[0].residents)
    assert told["bytes"] == sum(whole)
    (placement,), _ = built.cluster.placements(np.arange(8)[None])
    alone = [collective_time(Operation.BROADCAST, placement, size, built.cluster).seconds for size in whole]
    assert told["seconds"] == pytest.approx(sum(alone))


def test_processors_read_their_own_memory():
    which = written({"data": 2}, host="cpu-server")
    which["training"]["precision"] = "bf16"
    with pytest.raises(SimclusterError, match="'cpu-server' has no PCIe over which inputs would come"):
        build_scenario(Scenario.of(which))
