"""Offload to hosts and disks: values as on one device, times by closed forms, memory by what left."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from simcluster.analysis import AllocationAccount
from simcluster.cluster import HostPath
from simcluster.collectives import AUTOMATIC, copy_time
from simcluster.errors import SimclusterError
from simcluster.model import MemoryPlace
from simcluster.plan import make_plan
from simcluster.program import InstructionKind, build
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario, run_alone
from simcluster.simulation.verification.single_device_comparison import compare_values, verify
from tests.support.covering import quick, quick_at
from tests.support.folding import assert_folded_is_unfolded
from tests.support.hosts import figure
from tests.support.implementations import assert_all_agree
from tests.support.offload_scenarios import CATEGORIES, EVERYTHING, MODEL, copies, peak, scenario
from tests.support.scenarios import shrunk

# -- values -----------------------------------------------------------------------------------------------

PLANS = {
    "one device": {},
    "data": {"mesh": {"data": 4}},
    "zero 1": {"mesh": {"data": 4}, "optimizer_sharding": {"zero": 1}},
    "zero 2": {"mesh": {"data": 4}, "optimizer_sharding": {"zero": 2}},
    "zero 3": {"mesh": {"data": 4}, "optimizer_sharding": {"zero": 3}},
    "kept": {"mesh": {"data": 4}, "optimizer_sharding": {"fsdp": {"reshard_after_forward": False}}},
    "pipeline": {"mesh": {"pipeline": 2, "tensor": 2}, "micro_batches": 4, "schedule": {"kind": "1f1b"}},
    "split": {"mesh": {"pipeline": 2, "data": 2}, "micro_batches": 4, "schedule": {"kind": "zb_h1"}},
    "overlapped": {
        "mesh": {"pipeline": 2, "data": 2},
        "micro_batches": 4,
        "schedule": {"kind": "dualpipe_v"},
    },
    "recompute": {"mesh": {"data": 2}, "recompute": "all"},
    "selective": {"mesh": {"data": 2}, "recompute": {"operators": ["layers.*.mlp.*"]}},
    "clipped": {"mesh": {"tensor": 2}, "optimizer": {"kind": "adamw", "clip": 1.0}},
    "lamb": {"mesh": {"data": 2}, "optimizer": "lamb", "optimizer_sharding": {"zero": 3}},
}
STAY = {
    "parameters": ("zero 1", "zero 2"),
    "gradients": ("data", "zero 1", "split", "overlapped", "recompute", "selective"),
}
"""Plans in which weights are gathered once per step, or gradients reduced then."""


def _able(name):
    """What can be offloaded in a plan."""
    return [each for each in CATEGORIES if name not in STAY.get(each, ())]


@pytest.mark.parametrize("name", quick(PLANS, "one device", "zero 3"))
def test_offload_changes_no_value(name):
    """Every plan with all that it can offload, on hosts and disks in turns."""
    places = itertools.cycle(("host", "disk") if len(name) % 2 else ("disk", "host"))
    found = verify(scenario(dict(zip(_able(name), places, strict=False)), **PLANS[name]))
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.exhaustive
@pytest.mark.parametrize("to", ["host", "disk"])
@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("name", PLANS)
def test_no_category_changes_values_by_itself(name, category, to):
    if category in _able(name):
        found = verify(scenario({category: to}, **PLANS[name]))
        assert found.agrees, found.fault or found.first_difference


@pytest.mark.parametrize("name", quick(["one device", "zero 3", "pipeline", "clipped"], "zero 3"))
def test_disks_take_gradients_of_many_micro_batches(name):
    plan = PLANS[name]
    found = verify(scenario({"gradients": "disk"}, **plan | {"micro_batches": plan.get("micro_batches", 3)}))
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.parametrize("micro_batches", quick_at([1, 3], 1))
def test_gradients_on_disks_come_back_for_every_term_but_the_first(micro_batches):
    """Of every layer 12 h^2 + 13 h of four bytes, and once for the update."""
    found = scenario({"gradients": {"to": "disk", "match": ["layers.*"]}}, micro_batches=micro_batches)
    run = simulate(found)
    hidden, spans = MODEL["hidden"], run.spans
    size = 4 * MODEL["layers"] * (12 * hidden**2 + 13 * hidden)
    for way in (HostPath.FROM_DEVICE, HostPath.TO_DISKS, HostPath.FROM_DISKS):
        stream = spans.index("stream", f"offload ({way})")
        assert spans["bytes"][spans["stream"] == stream].sum() == micro_batches * size
    stream = spans.index("stream", f"offload ({HostPath.TO_DEVICE})")
    assert spans["bytes"][spans["stream"] == stream].sum() == size
    host, disk = run.documents["summary"]["host_memory_bytes"]
    assert disk["breakdown"]["gradients"] == disk["total"] == size
    assert 0 < host["total"] < size


@pytest.mark.parametrize(("prefetch", "fraction"), quick_at([(0, 0.3), (3, 0.3), (0, 1.0)], 1))
def test_neither_prefetch_nor_fraction_change_values(prefetch, fraction):
    offload = {name: {"to": "host", "prefetch": prefetch, "fraction": fraction} for name in CATEGORIES}
    found = verify(scenario(offload, mesh={"pipeline": 2}, micro_batches=4))
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.parametrize("where", [pytest.param((), marks=pytest.mark.thorough), ("*.update",)])
def test_what_few_updates_read_does_not_wait_for_what_all_of_them_read(where):
    """Gradients of norms are brought ahead of kernels between which others have their turns."""
    offload = {"parameters": "disk", "gradients": {"to": "disk", "match": ["*.norm.*"]}}
    how = {"framework": {"use": "ideal", "optimizer": "one_by_one"}, "precision": "fp32"}
    found = verify(scenario(offload, host_operators=where, **how, **PLANS["zero 3"]))
    assert found.agrees, found.fault or found.first_difference


END = ("norm", "measure", "update")

UPDATED_THERE = {
    "one device": (EVERYTHING, {}),
    "states on disks": (EVERYTHING | {"optimizer_states": "disk"}, {"mesh": {"tensor": 2}}),
    "zero 3": (EVERYTHING, {"mesh": {"data": 2}, "optimizer_sharding": {"zero": 3}}),
    "clipped": (EVERYTHING, {"mesh": {"tensor": 2}, "optimizer": {"kind": "adamw", "clip": 1.0}}),
}


@pytest.mark.parametrize(("offload", "plan"), quick_at(UPDATED_THERE.values(), 0, 3), ids=UPDATED_THERE)
def test_updates_on_the_host_have_at_hand_what_lies_there(offload, plan):
    """Nothing of the end phase crosses PCIe but what the device has to see: norms' gradients."""
    found = scenario(offload, host_operators=["*.update"], **plan)
    verified = verify(found)
    assert verified.agrees, verified.fault or verified.first_difference
    codes = [code for code in build_scenario(found).program.codes if code.phase in END]
    crossed = [each for code in codes for each in code.instructions if each.operation == HostPath.TO_DEVICE]
    assert bool(crossed) is ("optimizer" in plan)


def test_hosts_hold_gradients_from_disks_of_few_updates():
    """Updates on the host take longer than disks do to bring what they read: of three tensors at most."""
    run = simulate(scenario({"gradients": "disk"}, host_operators=["*.update"]))
    host, disk = (each["breakdown"]["gradients"] for each in run.documents["summary"]["host_memory_bytes"])
    largest = 4 * MODEL["vocab"] * MODEL["hidden"]
    assert 0 < host <= 3 * largest < disk


def test_a_clipped_gradient_counts_where_only_a_copy_of_it_is_on_the_device():
    """It is scaled in place, but the place is that of the copy, which nobody else holds."""
    found = scenario({"gradients": "disk"}, host_operators=["*.update"], **PLANS["clipped"])
    clipped = [
        slot
        for code in build_scenario(found).program.codes
        for slot in code.slots
        if slot.name.endswith(".clipped") and slot.place is MemoryPlace.DEVICE
    ]
    assert clipped
    for slot in clipped:
        assert (slot.num_bytes, str(slot.category)) == (slot.type.num_bytes, "gradients")


def test_hosts_update_behind_the_whole_backward_where_the_profile_says_so():
    def first_update(framework):
        found = scenario(
            {"gradients": "host"},
            host_operators=["*.update"],
            framework={"use": framework, "step_overhead": None},
            precision="fp16",
        )
        spans = simulate(found).spans
        streams = list(spans.names["stream"])
        host = spans["stream"] == streams.index("host_work")
        kernels = spans["stream"] == streams.index("compute")
        return int(spans["start"][host].min()) - int(spans["end"][kernels].max())

    assert first_update("deepspeed-zero") >= 0
    assert first_update("ideal") < 0


def test_a_kernel_does_not_read_what_lies_on_the_host():
    """The replay knows where values are: a copy that is left out is found."""
    small = shrunk(scenario({"optimizer_states": "host"}))
    spec = small.scenario.spec
    plan = make_plan(
        small.model, spec.training, spec.parallel, small.scenario.framework, small.cluster, AUTOMATIC, None
    )

    def without_copies(program):
        def bare(each):
            if each.action is not InstructionKind.COPY:
                return each
            return replace(each, calls=tuple(replace(c, outputs=c.inputs) for c in each.calls))

        codes = tuple(
            replace(code, instructions=tuple(map(bare, code.instructions))) for code in program.codes
        )
        return replace(program, codes=codes)

    assert compare_values(plan, small.cluster, "float64", 0)[1] == ""
    _, fault = compare_values(plan, small.cluster, "float64", 0, without_copies(build(plan)))
    assert "is on the host" in fault


# -- time -------------------------------------------------------------------------------------------------


def test_a_copy_takes_latency_and_bytes_over_its_slowest_link():
    found = scenario({"optimizer_states": "host"})
    run, built = simulate(found), build_scenario(found)
    states = 3 * 4 * built.plan.graph.num_parameters
    for way in (HostPath.TO_DEVICE, HostPath.FROM_DEVICE):
        sizes = [
            each.num_bytes
            for execution in built.program.parts[0].executions
            for each in built.program.codes[execution.code].instructions
            if each.operation == way
        ]
        assert sum(sizes) == states
        times = [end - start for start, end in copies(run, way)]
        due = [copy_time(way, 0, size, built.cluster, math.inf).duration_ns for size in sizes]
        # The last come one after another, alone on their links: the other direction has its own.
        assert sorted(times) == sorted(due)


def test_devices_of_a_host_share_its_memory():
    """Eight devices copy as fast as the memory gives, which is slower than each of them alone."""
    one = {"sockets": figure(1), "numa_nodes": figure(1), "numa_of_device": None}
    slow = {"processors": {"memory_bandwidth": figure("16 GB/s"), **one}}

    def flowing(devices):
        """Nanoseconds in which bytes flow: without what copies wait for before."""
        found = scenario({"optimizer_states": "host"}, {"data": devices}, changed=slow)
        latency = copy_time(HostPath.TO_DEVICE, 0, 0, build_scenario(found).cluster, math.inf).latency * 1e9
        return sum(end - start - latency for start, end in copies(simulate(found), HostPath.TO_DEVICE))

    assert flowing(8) == pytest.approx(8 * flowing(1), rel=1e-3)


def test_offload_is_charged_to_the_step_without_remainder():
    found = simulate(scenario(EVERYTHING, {"tensor": 2})).documents["summary"]
    parts = ("compute_s", "slowed_s", "host_s", "pipeline_wait_s", "offload_wait_s", "input_wait_s", "idle_s")
    total = sum(found[name] for name in parts) + sum(found["exposed_communication_s"].values())
    assert total == pytest.approx(found["step_time_s"], abs=1e-12)
    assert found["offload_wait_s"] > 0
    assert "offload" not in found["exposed_communication_s"]


def test_folded_is_unfolded():
    zero = {"optimizer_sharding": {"zero": 3}}
    assert_folded_is_unfolded(scenario(EVERYTHING, {"pipeline": 2, "data": 2}, micro_batches=2, **zero))


def test_it_does_not_matter_how_it_is_timed():
    assert_all_agree(build_scenario(scenario(EVERYTHING, {"tensor": 2}), unfold=True))


# -- memory -----------------------------------------------------------------------------------------------


def test_what_left_the_device_is_on_the_host():
    kept, away = (peak(scenario(what)) for what in (None, {"optimizer_states": "host"}))
    states = kept["peak_memory_bytes"][0]["breakdown"]["optimizer_states"]
    (host,) = away["host_memory_bytes"]
    assert (host["place"], host["breakdown"]["optimizer_states"], host["total"]) == ("host", states, states)
    # Beside the host, three kernels' worth is left: one that runs, one to come, one on its way back.
    assert away["peak_memory_bytes"][0]["breakdown"]["optimizer_states"] < states


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_the_device_holds_the_states_of_few_updates(prefetch):
    """Of ``prefetch`` + 1 kernels, and as many of the block before, whatever the model's depth."""
    found = scenario({"optimizer_states": {"to": "host", "prefetch": prefetch}})
    run, built = simulate(found), build_scenario(found)
    rows = run.memory.where(run.memory["category"] == run.memory.index("category", "optimizer_states"))
    most = int(np.cumsum(rows["bytes"]).max())
    largest = max(
        sum(slot.num_bytes for slot in code.slots if slot.name.endswith(".brought"))
        for code in built.program.codes
    )
    assert 0 < most <= (prefetch + 2) * largest


def test_gradients_leave_the_device():
    """Of all layers those of two blocks are there: what the backward makes, and what is on its way."""
    kept, away = (peak(scenario(what)) for what in (None, {"gradients": "host"}))
    before, after = (each["peak_memory_bytes"][0]["breakdown"]["gradients"] for each in (kept, away))
    (host,) = away["host_memory_bytes"]
    assert host["breakdown"]["gradients"] == before - 4  # the sum of the loss stays
    assert after < before


def test_activations_leave_the_device():
    """The peak falls by what the layers keep, but for those under way."""
    kept, away = (peak(scenario(what)) for what in (None, {"activations": "host"}))
    before, after = (each["peak_memory_bytes"][0]["breakdown"]["activations"] for each in (kept, away))
    (host,) = away["host_memory_bytes"]
    assert after < before / 2
    assert host["breakdown"]["activations"] == pytest.approx(before, rel=0.1)


def test_every_buffer_of_the_hosts_is_released_again():
    built = build_scenario(scenario({"activations": "disk"}, {"pipeline": 2}, micro_batches=4))
    timing = run_alone(built)
    for place in (MemoryPlace.HOST, MemoryPlace.DISK):
        table = AllocationAccount(built.placed, timing, place).table()
        assert len(table["bytes"]) and table["bytes"].sum() == 0


def test_a_host_that_is_too_small_is_told():
    summary = peak(scenario({"optimizer_states": "host"}, changed={"memory": figure("16 MiB")}))
    (host,) = summary["host_memory_bytes"]
    assert not summary["fits"] and not host["fits"]
    assert host["excess"] == host["total"] - host["capacity"] > 0


# -- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offload", "more", "told"),
    [
        ({"optimizer_states": "tape"}, {}, "disk"),
        ({"optimizer_states": {"to": "host", "fraction": 1.5}}, {}, "fraction"),
        (
            {"optimizer_states": {"to": "host", "match": ["layer.*"]}},
            {},
            "matches nothing of optimizer_states",
        ),
        ({"parameters": "host"}, {"mesh": {"data": 4}, "optimizer_sharding": {"zero": 1}}, "gathered once"),
        ({"activations": "host"}, {"host": "cpu-server"}, "no memory besides"),
        ({"auto": True, "activations": "host"}, {}, "auto chooses"),
        ({"hbm_ratio": 0.5}, {}, "automatic mode"),
        ({"optimizer_states": "host", "cpu_ratio": 0.5}, {}, "a share of host_memory"),
        ({"gradients": "host"}, {"mesh": {"data": 4}}, "matches nothing of gradients"),
        ({"queue": 1}, {}, "nothing is offloaded"),
        ({"host_memory": "1 GiB"}, {}, "nothing is offloaded"),
    ],
)
def test_what_cannot_be_is_refused(offload, more, told):
    with pytest.raises(SimclusterError, match=told):
        build_scenario(scenario(offload, **more))


# -- the automatic mode -----------------------------------------------------------------------------------


def test_auto_offloads_what_is_idle_longest_until_it_fits():
    """States are idle for the whole step, so they go first; no more of them than is needed."""
    whole = peak(scenario(micro_batches=1))
    states = whole["peak_memory_bytes"][0]["breakdown"]["optimizer_states"]
    limit = whole["peak_memory_bytes_max"] - states // 2
    found = scenario({"auto": True, "max_device_memory": f"{limit} B"}, micro_batches=1)
    summary = peak(found)
    assert summary["peak_memory_bytes_max"] <= limit
    (host,) = summary["host_memory_bytes"]
    assert {name for name, size in host["breakdown"].items() if size} == {"optimizer_states"}
    assert host["total"] < states
    assert any("offload auto: optimizer states" in note for note in build_scenario(found).plan.notes)


def test_auto_leaves_what_fits_alone():
    plan = build_scenario(scenario("auto")).plan
    assert not plan.offload.rules
    assert any("everything fits" in note for note in plan.notes)
