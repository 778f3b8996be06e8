"""Plans on clusters of several kinds of hosts: who is priced how, who waits, and what stays right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.cluster import Cluster, DeviceSpeed, HostGroup
from simcluster.engine import Workload, run
from simcluster.errors import PlanError
from simcluster.plan.diagnostics.load_balance_hints import apportion
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.plan.spec.schedule_spec import schedule_kinds
from simcluster.program import partition_ranks
from simcluster.report.content.run_header import header_rows
from simcluster.report.content.statements import waiting_text
from simcluster.report.terminal.summary_screen import summary_text
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.work import DType
from tests.support.covering import quick_at
from tests.support.folding import assert_folded_is_unfolded
from tests.support.pipelines import burning_program, quiet_cluster
from tests.support.scenarios import TINY, shrunk

MODEL = {"layers": 4, "hidden": 256, "heads": 8, "ffn": 512, "vocab": 512}
H100, ASCEND, CPU = "dgx-h100", "atlas-800t-a2", "cpu-server"


def mixed(groups, mesh, *, training=None, model=None, changes=(), **parallel) -> Scenario:
    """``groups`` are (host, hosts); the batch is four micro-batches for every data rank."""
    ways = mesh.get("data", 1) * mesh.get("island", 1)
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "mixed",
            "cluster": {
                "groups": [{"use": use, "hosts": hosts} for use, hosts in groups],
                "changes": list(changes),
            },
            "model": model or MODEL,
            "training": {"global_batch": 4 * ways, "micro_batch": 1, "seq_len": 128, **(training or {})},
            "parallel": {"mesh": mesh, **parallel},
        }
    )


SCHEDULES = ["1f1b", "interleaved", "interleaved_mindspore", "seqpipe", "seqvpp"]


@pytest.mark.parametrize("kind", SCHEDULES)
def test_stages_on_slower_hosts_are_stages_with_longer_kernels_in_every_schedule(kind):
    """Half the rate and twice the work are the same pipeline, to the nanosecond, in chunks and slices too."""
    schedule = schedule_kinds()[kind]()
    table, chain = schedule.timetable(4, 8), schedule.chain(4)
    host = quiet_cluster(1).host
    slow = replace(host, device=host.device.at(DeviceSpeed(0.5)))
    groups = tuple(HostGroup(slow if kind else host, 1, kind=kind) for kind in (0, 1, 1, 0))
    times = [60 + 20 * virtual for virtual in range(len(chain))]
    stretched = [each * (2 if chain.places[at][0] in (1, 2) else 1) for at, each in enumerate(times)]
    program, other = (
        burning_program(each, each, table, chain=chain, slices=schedule.num_slices)
        for each in (times, stretched)
    )
    mixed_end = run(Workload(program, Cluster(groups), partition_ranks(program, Cluster(groups)))).end
    assert mixed_end == run(Workload(other, quiet_cluster(4), partition_ranks(other, quiet_cluster(4)))).end


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("schedule", "stages"),
    [
        ({"kind": "interleaved"}, [[1, 2], [1, 2]]),
        ({"kind": "interleaved_mindspore", "chunks": 3}, [[1, 2], [1, 1], [2, 1]]),
        ({"kind": "zb_v", "p2p": "overlapped"}, [[1, 2], [1, 2]]),
        ({"kind": "seqvpp", "slices": 2}, [[1, 2], [2, 1]]),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_uneven_chunks_on_two_kinds_of_hosts_compute_what_one_device_computes(schedule, stages):
    layers = sum(map(sum, stages))
    which = mixed(
        [(ASCEND, 1), (H100, 1)],
        {"pipeline": 2, "data": 2, "tensor": 4},
        model=MODEL | {"layers": layers},
        training={"global_batch": 16},
        schedule={**schedule, "stages": stages},
    )
    plan = build_scenario(which).plan
    assert plan.pipeline.chunks == tuple(map(tuple, stages))
    summary = simulate(which).documents["summary"]
    assert len(summary["groups"]) == 2
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.thorough
def test_unequal_micro_batches_go_through_interleaved_chunks():
    """The faster island trains more micro-batches; both kinds of stages have two chunks.

    The quick run has the values of unequal shares in ``test_batch_shares``.
    """
    which = mixed(
        [(ASCEND, 1), (H100, 1)],
        {"island": 2, "pipeline": 2, "tensor": 4},
        training={"global_batch": 8, "batch_shares": {"island": [1, 3]}},
        roles={"batch": ["island"]},
        schedule={"kind": "interleaved"},
    )
    plan = build_scenario(which).plan
    assert plan.pipeline.batches.by_coordinate == (2, 6)
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


def test_a_group_of_slower_hosts_is_a_stage_with_longer_kernels():
    """Half the rate and twice the work are the same pipeline, to the nanosecond."""
    table, times = OneFOneB().timetable(3, 5), [100, 80, 90]
    host = quiet_cluster(1).host
    slow = replace(host, device=host.device.at(DeviceSpeed(0.5)))
    groups = tuple(HostGroup(slow if kind else host, 1, kind=kind) for kind in (0, 1, 0))
    stretched = [each * (2 if at == 1 else 1) for at, each in enumerate(times)]
    ends = [
        run(Workload(program, cluster, partition_ranks(program, cluster))).end
        for program, cluster in (
            (burning_program(times, times, table), Cluster(groups)),
            (burning_program(stretched, stretched, table), quiet_cluster(3)),
        )
    ]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("groups", "mesh", "more"),
    quick_at(
        [
            ([(H100, 1), (ASCEND, 1)], {"pipeline": 2, "data": 8}, {"optimizer_sharding": {"zero": 1}}),
            ([(H100, 1), (ASCEND, 1)], {"data": 4, "tensor": 4}, {"recipe": "megatron_sp"}),
            (
                [(CPU, 4), (H100, 1), (CPU, 4), (ASCEND, 1)],
                {"island": 2, "pipeline": 2, "data": 8},
                {
                    "roles": {"batch": ["island", "data"]},
                    "schedule": {"stages": [1, 3]},
                    "training": {"batch_shares": {"island": [3, 1]}, "global_batch": 64},
                },
            ),
            (
                [(H100, 1), (CPU, 2), (ASCEND, 1)],
                {"data": 5, "tensor": 4},
                {"changes": [{"device": 9, "compute": 0.5}]},
            ),
        ],
        2,
    ),
)
def test_folded_is_unfolded(groups, mesh, more):
    assert_folded_is_unfolded(mixed(groups, mesh, **more))


@pytest.mark.parametrize(
    ("groups", "mesh", "more"),
    quick_at(
        [
            ([(H100, 1), (ASCEND, 1)], {"pipeline": 2, "data": 2, "tensor": 4}, {"recipe": "megatron_sp"}),
            (
                [(CPU, 1), (H100, 1), (CPU, 1), (ASCEND, 1)],
                {"data": 2, "pipeline": 5, "tensor": 2},
                {"training": {"batch_shares": {"data": [3, 1]}}, "model": {**TINY, "layers": 6}},
            ),
            (
                [(H100, 8), (ASCEND, 4), (CPU, 16)],
                {"pipeline": 4, "data": 4, "tensor": 8},
                {"recipe": "megatron"},
            ),
        ],
        0,
    ),
)
def test_values_are_those_of_one_device(groups, mesh, more):
    found = verify(mixed(groups, mesh, **more))
    assert found.agrees, found.first_difference or found.fault


def test_the_small_form_keeps_every_group():
    groups = [(H100, 8), (ASCEND, 4), (CPU, 16)]
    which = mixed(groups, {"pipeline": 4, "data": 4, "tensor": 8}, recipe="megatron")
    small_form = shrunk(which)
    small = small_form.cluster
    assert [group.host.device.name for group in small.groups] == ["h100-sxm", "ascend-910b-313t", "xeon-8480"]
    assert [(group.num_hosts, group.host.num_devices) for group in small.groups] == [(4, 8), (2, 8), (8, 2)]
    assert ("hosts x devices", "8 x 8 + 4 x 8 + 16 x 2", "4 x 8 + 2 x 8 + 8 x 2") in small_form.changes


def test_equal_groups_are_one_cluster():
    """Two groups of a kind take the time of one group with all their hosts."""
    mesh = {"pipeline": 2, "data": 4, "tensor": 4}
    groups = simulate(mixed([(H100, 1), (H100, 3)], mesh)).documents["summary"]
    plain = simulate(mixed([(H100, 4)], mesh)).documents["summary"]
    for name in ("step_time_s", "mfu", "compute_s", "exposed_communication_s"):
        assert groups[name] == pytest.approx(plain[name], rel=1e-12)
    assert "groups" not in plain and len(groups["groups"]) == 2


def test_the_summary_says_what_each_group_does_and_who_waits():
    model = {**MODEL, "hidden": 2048, "ffn": 8192}
    found = simulate(mixed([(H100, 1), (ASCEND, 1)], {"data": 16}, training={"seq_len": 2048}, model=model))
    documents = found.documents
    summary = documents["summary"]
    fast, slow = summary["groups"]
    assert (fast["ranks"], slow["first_rank"], slow["device"]) == (8, 8, "ascend-910b-313t")
    for each in (fast, slow):
        parts = ("compute_s", "slowed_s", "host_s", "exposed_communication_s", "wait_s")
        assert sum(each[name] for name in parts) == pytest.approx(summary["step_time_s"], abs=2e-9)
    assert summary["compute_s"] == pytest.approx((fast["compute_s"] + slow["compute_s"]) / 2)
    assert fast["wait_s"] + fast["exposed_communication_s"] > slow["wait_s"] + slow["exposed_communication_s"]
    assert waiting_text(summary).startswith("dgx-h100 (group 0) waits for ")
    assert waiting_text(summary).endswith("atlas-800t-a2 (group 1) has the most to compute")
    assert "Groups of hosts" in summary_text(found, width=100)
    assert "1 x dgx-h100 = 8 x h100-sxm" in dict(header_rows(documents))["cluster"]
    names = [each["name"] for each in summary["assumptions"]]
    assert names.count("collectives between kinds of hosts") == 1


def test_what_joins_two_groups_can_be_slow():
    """A trunk is a link like others; as wide as all cards it is never the narrowest, a hundredth of it is."""
    mesh, groups = {"pipeline": 2, "data": 8}, [(H100, 1), (ASCEND, 1)]
    change = {"link": "group.0.trunk.*", "bandwidth": 0.01}
    wide = simulate(mixed(groups, mesh, changes=[change | {"bandwidth": 1.0}])).documents["summary"]
    thin = simulate(mixed(groups, mesh, changes=[change])).documents["summary"]
    plain = simulate(mixed(groups, mesh)).documents["summary"]
    assert wide["step_time_s"] == plain["step_time_s"]
    moved = 4 * 128 * 256 * 2  # a micro-batch of activations in bf16, four times from each of 8 ranks
    trunk = 8 * build_scenario(mixed(groups, mesh)).cluster.groups[0].host.network.link.rate
    assert thin["step_time_s"] - plain["step_time_s"] > 8 * moved / (trunk * 0.01) / 4
    with pytest.raises(PlanError, match="no way around"):
        _ = mixed(groups, mesh, changes=[change | {"bandwidth": 0}]).cluster


def test_mfu_is_the_share_of_all_peaks_together():
    which = mixed([(H100, 1), (ASCEND, 1)], {"data": 16})
    summary = simulate(which).documents["summary"]
    peaks = [group.host.device.peak[DType.BF16] for group in which.cluster.groups]
    useful = summary["model_flops_per_s_per_device"] * 16
    assert summary["mfu"] == pytest.approx(useful / (8 * peaks[0] + 8 * peaks[1]), rel=1e-12)


def test_every_group_is_held_to_the_memory_of_its_own_devices():
    summary = simulate(mixed([(H100, 1), (CPU, 4)], {"data": 16})).documents["summary"]
    capacities = {each["device"]: each["capacity"] for each in summary["peak_memory_bytes"]}
    assert capacities["xeon-8480"] > 10 * capacities["h100-sxm"]


def test_the_arithmetic_of_ranks_names_every_group():
    with pytest.raises(PlanError) as caught:
        build_scenario(mixed([(H100, 2), (CPU, 3)], {"data": 16}))
    (problem,) = caught.value.problems
    assert problem.message == "data 16 = 16, but the cluster has 22 devices"
    hint = "2 hosts x 8 devices + 3 hosts x 2 devices = 22; --set parallel.mesh.data=22 matches"
    assert problem.hint.startswith(hint)


def test_a_format_that_one_group_lacks():
    with pytest.raises(PlanError) as caught:
        build_scenario(mixed([(H100, 1), (ASCEND, 1)], {"data": 16}, training={"precision": "fp8"}))
    (problem,) = caught.value.problems
    assert problem.message == "ascend-910b-313t has no matrix rate in fp8"


def test_nothing_is_balanced_but_something_is_proposed():
    plan = build_scenario(mixed([(H100, 1), (ASCEND, 1)], {"pipeline": 2, "data": 8})).plan
    assert plan.pipeline.layers_of_stages == (2, 2)
    assert any("it would be schedule: {stages: [3, 1]}" in note for note in plan.notes)
    plan = build_scenario(mixed([(H100, 1), (ASCEND, 1)], {"data": 2, "tensor": 8})).plan
    assert plan.pipeline.batches.axis == ""
    assert any("it would be batch_shares: {data: [3, 1]}" in note for note in plan.notes)
    given = {"training": {"batch_shares": {"data": [3, 1]}, "global_batch": 16}}
    plan = build_scenario(mixed([(H100, 1), (ASCEND, 1)], {"data": 2, "tensor": 8}, **given)).plan
    assert not any("batch_shares" in note for note in plan.notes)


@given(st.lists(st.floats(0.01, 1e3), min_size=1, max_size=8), st.integers(0, 60))
def test_proportional_parts_are_whole_and_add_up(rates, more):
    total = len(rates) + more
    found = apportion(rates, total)
    assert sum(found) == total and min(found) >= 1
    order = np.argsort(rates, kind="stable")
    assert (np.diff(np.array(found)[order]) >= -1).all()
