"""Kernels that give way to communication do so in the same way however they are timed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster.device.communication_kernels import CommunicationKernels
from simcluster.engine.pricing.priced_classes import PricedClasses
from simcluster.program import InstructionKind
from simcluster.simulation.compose.build import build_scenario, workload_of
from tests.support.event_equality import crowded
from tests.support.implementations import assert_all_agree, many_from
from tests.support.input_scenarios import fed
from tests.support.random_runs import giving_way
from tests.support.scenarios import TINY, TINY_GPT, scenario

JITTER = {"devices": "all", "compute": {"normal": [1.0, 0.2]}, "memory_bandwidth": {"normal": [1.0, 0.1]}}
FSDP = {"fsdp": {"reshard_after_forward": True}}
MESHES = [{"pipeline": 4, "data": 2}, {"pipeline": 3, "data": 2, "tensor": 2}, {"data": 4}, {"pipeline": 2}]
SMALL = {"layers": 4, "hidden": 256, "heads": 8, "kv_heads": 4, "ffn": 512, "vocab": 1000}


def plans(draw, host, **more):
    return scenario(
        draw(st.sampled_from(MESHES)),
        host=host,
        model=draw(st.sampled_from([SMALL, TINY, TINY_GPT])),
        training={"seq_len": 16},
        micro_batches=draw(st.integers(1, 6)),
        schedule={"kind": draw(st.sampled_from(["gpipe", "1f1b"])), "p2p": "overlapped"},
        optimizer_sharding=draw(st.sampled_from([{"zero": 0}, {"zero": 1}, FSDP])),
        run={"steps": draw(st.sampled_from([1, 2])), "seed": draw(st.integers(0, 9))},
        changes=draw(st.sampled_from([[], [JITTER], [{"device": 0, "compute": 0.5}]])),
        **more,
    )


def communications(draw):
    share = st.floats(0, 1)
    return CommunicationKernels(draw(share), draw(share), draw(st.floats(0, 50)), draw(st.floats(0, 50)))


@pytest.mark.thorough
@settings(max_examples=15)
@given(data=st.data())
def test_random_plans(data):
    built = build_scenario(plans(data.draw, "dgx-h100"), unfold=data.draw(st.booleans()))
    assert_all_agree(giving_way(built, communications(data.draw)))


@settings(max_examples=6)
@given(data=st.data())
def test_random_plans_whose_transfers_meet(data):
    draw = data.draw
    built = build_scenario(plans(draw, "dgx-h100"), unfold=draw(st.booleans()))
    fabric = crowded(
        built, links=draw(st.integers(2, 5)), rate=draw(st.sampled_from([0.5, 5, 500])), lates=()
    )
    assert_all_agree(giving_way(built, communications(draw)), fabric=fabric)


def test_transfers_that_end_in_the_very_nanosecond_in_which_others_begin():
    plan = scenario(
        {"data": 4},
        host="dgx-h100",
        model=SMALL,
        training={"seq_len": 16},
        micro_batches=1,
        schedule={"kind": "gpipe", "p2p": "overlapped"},
        optimizer_sharding=FSDP,
        run={"steps": 1},
    )
    built = build_scenario(plan)
    fabric = crowded(built, links=2, rate=5, lates=())
    assert_all_agree(giving_way(built, CommunicationKernels(0, 0, 0, 0)), fabric=fabric)


@settings(max_examples=3)
@given(data=st.data())
def test_copies_of_inputs_take_of_the_memory(data):
    built = build_scenario(
        fed(
            data.draw(st.sampled_from([{"data": 8}, {"pipeline": 2, "data": 2, "tensor": 2}])),
            steps=data.draw(st.integers(1, 2)),
            sample="4 MB",
            decode=data.draw(st.sampled_from(["0 us", "30 us"])),
            cluster={"changes": [JITTER]},
        )
    )
    for count in (1, 10**9):
        with many_from(count):
            assert any(memory is not None and memory.any() for memory in copies(built))
    assert_all_agree(giving_way(built, communications(data.draw)))


def copies(built):
    """What the copies of a Program take of the memory of devices."""
    classes = PricedClasses(workload_of(built))
    return [
        each.memory
        for number, group in enumerate(classes.groups)
        for stream in range(len(group.part.streams))
        if stream != group.part.compute
        for each, (code, place) in zip(
            classes.communications(number, stream), group.part.streams[stream].kinds, strict=True
        )
        if built.program.codes[code].instructions[place].action is InstructionKind.COPY
    ]
