"""A sweep of kernels that give way to communication gives what events give, to the nanosecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster.device.communication_kernels import SCALE, CommunicationKernels, ResourceShare
from simcluster.engine import Implementation, beside, paced
from simcluster.engine.beside import Others, Work, part_ends
from simcluster.engine.stage import Stage
from simcluster.engine.workload import Workload
from simcluster.program import InstructionKind
from simcluster.simulation.compose.build import build_scenario
from tests.support.event_equality import assert_equal, crowded
from tests.support.input_scenarios import fed
from tests.support.random_runs import giving_way
from tests.support.scenarios import TINY, TINY_GPT, scenario
from tests.support.slowed_kernels import ran, segment
from tests.support.sweep import assert_sweep_is_events, timed

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
@settings(max_examples=30)
@given(data=st.data())
def test_random_plans(data):
    built = build_scenario(plans(data.draw, "dgx-h100"), unfold=data.draw(st.booleans()))
    assert_sweep_is_events(giving_way(built, communications(data.draw)))


@settings(max_examples=6)
@given(data=st.data())
def test_random_plans_whose_transfers_meet(data):
    draw = data.draw
    built = build_scenario(plans(draw, "dgx-h100"), unfold=draw(st.booleans()))
    fabric = crowded(
        built, links=draw(st.integers(2, 5)), rate=draw(st.sampled_from([0.5, 5, 500])), lates=()
    )
    assert_equal(giving_way(built, communications(draw)), fabric)


def test_a_transfer_that_ends_in_the_very_nanosecond_in_which_events_take_over():
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
    assert_equal(
        giving_way(built, CommunicationKernels(0, 0, 0, 0)), crowded(built, links=2, rate=5, lates=())
    )


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
    assert any(taken.memory.any() for taken in copies(built))
    assert_sweep_is_events(giving_way(built, communications(data.draw)))


def copies(built):
    """What the copies of a Program take of the devices of its first stage."""
    spec = built.scenario.spec
    workload = Workload(built.program, built.cluster, built.classes, spec.run.steps, fabric=built.fabric)
    indices = [i for i, rank in enumerate(built.classes.representatives) if not built.program.stage_of(rank)]
    stage = Stage.of(built.program, 0, indices, workload.prices(), spec.run.steps)
    return [
        taken
        for code, priced in stage.priced.items()
        for index, taken in priced.takes.items()
        if built.program.codes[code].instructions[index].action is InstructionKind.COPY
    ]


@pytest.mark.parametrize("few", [1, 10**9])
def test_what_was_timed_too_early_is_timed_again(monkeypatch, few):
    """However far a stage runs ahead of the others."""
    again = []
    before = paced._Paced._kernels_again

    def counted(self, lane, entry, columns):
        again.append(entry)
        before(self, lane, entry, columns)

    monkeypatch.setattr(paced._Paced, "_kernels_again", counted)
    monkeypatch.setattr(paced, "FEW", few)
    monkeypatch.setattr(paced, "OFTEN", 1)
    which = scenario(
        {"pipeline": 4, "data": 4},
        host="dgx-h100",
        model=SMALL,
        micro_batches=6,
        training={"seq_len": 64},
        changes=[JITTER],
    )
    assert_sweep_is_events(giving_way(build_scenario(which)))
    assert again


def test_ends_are_forgotten(monkeypatch):
    """Of a long run only the ends of the last segments are held at a time."""
    held = []
    before = paced._Paced._forget

    def looked(self):
        before(self)
        held.append(max(sum(end is not None for end in lane.ends) for lane in self._computes))

    monkeypatch.setattr(paced._Paced, "_forget", looked)
    mesh = {"pipeline": 2, "tensor": 2}
    which = scenario(mesh, host="dgx-h100", micro_batches=64, changes=[JITTER])
    timing = timed(giving_way(build_scenario(which)), Implementation.SWEEP)
    entries = max(lane.length for lanes in timing.swept.lanes for lane in lanes if lane.drops)
    assert entries > 1000
    assert max(held) < entries / 4


TIMES = st.integers(0, 40)
KERNEL = st.tuples(TIMES, TIMES, TIMES).filter(any)
TAKEN = st.builds(ResourceShare, st.integers(0, SCALE), st.integers(0, SCALE))


@pytest.mark.parametrize("scale", [1, 2**31])
@settings(max_examples=60)
@given(data=st.data())
def test_parts_end_as_they_do_with_events(scale, data):
    """Of several columns at once; also where floating point would not be exact."""
    count = data.draw(st.integers(1, 4))
    columns = data.draw(st.lists(st.lists(KERNEL, min_size=count, max_size=count), min_size=1, max_size=3))
    others = data.draw(st.lists(st.tuples(TIMES, st.integers(1, 40), TAKEN), min_size=1, max_size=4))
    kernels = np.array(columns, dtype=np.int64).transpose(1, 2, 0) * scale
    work = Work.of(kernels)
    width = len(columns)

    def wide(values):
        return np.repeat(np.array(values, dtype=np.int64)[:, None], width, axis=1)

    beside_all = Others(
        wide([begin * scale for begin, _, _ in others]),
        wide([(begin + length) * scale for begin, length, _ in others]),
        np.stack([wide([getattr(taken, name) for _, _, taken in others]) for name in ("units", "memory")]),
    )
    which, start = np.arange(width), np.zeros(width, dtype=np.int64)
    found = part_ends(work, which, start, beside_all, all_parts=True)[work.last]
    assert found.shape == (count, width)
    for column in range(width):
        alone = [(begin * scale, length * scale, taken) for begin, length, taken in others]
        told = ran([segment(*kernels[:, :, column].tolist())], alone)
        assert found[:, column].tolist() == [end for _, end in told]
    assert np.array_equal(part_ends(work, which, start, beside_all), found[-1])


def test_a_kernel_of_hours_is_left_to_events(monkeypatch):
    which = scenario({"pipeline": 2, "data": 2}, host="dgx-h100", changes=[JITTER])
    assert timed(build_scenario(which), Implementation.SWEEP).swept is not None
    monkeypatch.setattr(beside, "LONG", 100)
    assert timed(build_scenario(which), Implementation.SWEEP).swept is None
