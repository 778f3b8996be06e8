"""Steps of slow and shrunken clusters, on the links that can bind: those of every rank on every link."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import DeviceSpeed
from simcluster.engine import classes_on_links
from simcluster.job import ClusterState, SlowDevice
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from simcluster.simulation.compose import run_alone
from simcluster.simulation.jobs.step_times import StepTimes

NETWORKS = [
    {"kind": "leaf_spine", "hosts_per_leaf": 2},
    {"kind": "leaf_spine", "hosts_per_leaf": 3, "oversubscription": 2},
    {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves_per_block": 2},
    {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves_per_block": 2, "oversubscription": [1, 3]},
    {"kind": "rail_optimised", "hosts_per_unit": 2},
    {"kind": "rail_optimised", "hosts_per_unit": 3, "cross_rail": "spine"},
    {"kind": "rail_optimised", "hosts_per_unit": 2, "units_per_block": 2, "oversubscription": 2},
    {"kind": "leaf_spine", "hosts_per_leaf": 2, "ecmp": "hash"},
]


@st.composite
def states(draw):
    """A scenario whose replicas of the data are whole hosts, and a state of its cluster."""
    stages, replicas = draw(st.sampled_from([(1, 4), (1, 7), (2, 4), (2, 5), (3, 4), (4, 3)]))
    mesh = {"pipeline": stages, "data": replicas, "tensor": draw(st.sampled_from([8, 4]))}
    if mesh["tensor"] == 4:
        mesh["data"] *= 2
    batches = mesh["data"] * draw(st.integers(1, 4))
    written = {
        "simcluster": 1,
        "name": "shrunken",
        "cluster": {
            "use": draw(st.sampled_from(["dgx-h100", "dgx-a100"])),
            "hosts": stages * replicas,
            "network": draw(st.sampled_from(NETWORKS)),
        },
        "model": {
            "family": "llama",
            "layers": 4 * stages,
            "hidden": 2048,
            "heads": 16,
            "ffn": 8192,
            "vocab": 32000,
        },
        "training": {"global_batch": batches, "micro_batch": 1, "seq_len": 1024, "optimizer": "adamw"},
        "parallel": {
            "mesh": mesh,
            "recipe": "megatron_sp",
            "schedule": {"kind": "1f1b"},
            "optimizer_sharding": {"zero": draw(st.integers(0, 1))},
        },
        "framework": draw(st.sampled_from(["ideal", "megatron-core"])),
    }
    lost = draw(st.integers(0, 1)) * (2 if mesh["tensor"] == 4 else 1)
    devices = stages * replicas * 8
    kind = draw(st.sampled_from(["none", "device", "devices", "host"]))
    factor = st.sampled_from([0.5, 0.8, 0.93])
    if kind == "host":
        host, slower = draw(st.integers(0, stages * replicas - 1)), draw(factor)
        slow = [SlowDevice(8 * host + place, slower) for place in range(8)]
    else:
        count = {"none": 0, "device": 1, "devices": 3}[kind]
        chosen = st.lists(st.integers(0, devices - 1), min_size=count, max_size=count, unique=True)
        slow = [SlowDevice(device, draw(factor)) for device in sorted(draw(chosen))]
    return Scenario.of(written), ClusterState(tuple(slow), lost)


def unfolded_step_ns(times: StepTimes, state: ClusterState) -> int:
    """The step of a state with every rank and every link told apart."""
    built = times._left(replace(state, slow=())).built
    ranks = times.ranks_left(state.slow, state.lost_replicas, built)
    cluster = replace(
        built.cluster, speeds={rank: DeviceSpeed(compute=factor) for rank, factor in ranks.items()}
    )
    algorithms = built.plan.execution.algorithms
    classes, fabric = classes_on_links(built.program, cluster, algorithms, unfold=True)
    return run_alone(replace(built, cluster=cluster, classes=classes, fabric=fabric)).end


def check(drawn: tuple[Scenario, ClusterState]) -> None:
    scenario, state = drawn
    times = StepTimes(build_scenario(scenario))
    assert times(state).step_ns == unfolded_step_ns(times, state)


@given(states())
@settings(max_examples=3)
def test_a_state_takes_what_all_its_ranks_take_on_all_links(drawn):
    check(drawn)


@pytest.mark.exhaustive
@given(states())
@settings(max_examples=150)
def test_many_states_take_what_all_their_ranks_take_on_all_links(drawn):
    check(drawn)
