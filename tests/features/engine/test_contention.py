"""The engine on shared links: the ends of collectives and transfers are results, not prices."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import simpy

from simcluster.analysis import find_idle_gaps, instruction_times
from simcluster.engine import Fabric, Workload, run
from simcluster.engine.communication import CapacityChange, FlowPhase, Links, Transfer, Vectors
from simcluster.engine.communication.fabric import NO_LINKS
from simcluster.engine.reference.flows import Network
from simcluster.engine.reference.meetings import Meeting
from simcluster.engine.reference.streams import Stream, run_kernels, run_transfers
from simcluster.errors import SimulationError
from simcluster.program import COMPUTE, InstructionKind
from simcluster.program.isa.instruction import RECV_PREV, SEND_NEXT
from simcluster.simulation.compose.build import build_scenario
from tests.support.scenarios import scenario
from tests.support.slowed_kernels import AT_ONCE

GB = 1e9
PLAN = {
    "mesh": {"pipeline": 2, "data": 2, "tensor": 2},
    "recipe": "megatron_sp",
    "optimizer_sharding": {"zero": 1},
}


def sender(built, index, each):
    """The class that sends, whichever side asks."""
    classes = built.classes
    if each.action is InstructionKind.RECEIVE:
        index = (classes.prev_stage if each.stream == RECV_PREV else classes.next_stage)[index][0]
    return index, each.stream in (RECV_PREV, SEND_NEXT)


def who(built, index, each):
    """What tells one flow from all others: the stream and who meets on it."""
    if each.action is InstructionKind.COLLECTIVE:
        return each.stream, built.classes.groups[index, each.group].id
    return ("transfer", *sender(built, index, each))


def times(which, timing):
    """Per class: code -> starts, ends and arrivals."""
    return [
        {code: (found.starts, found.ends, found.arrivals) for code, found in instruction_times(each).items()}
        for each in timing.classes
    ]


def same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for code, columns in ours.items():
        for mine, yours in zip(columns, theirs[code], strict=True):
            np.testing.assert_array_equal(mine, yours)


def alone_fabric(built):
    """Every flow on a link of its own, with as many bytes as it takes nanoseconds."""
    priced = run(Workload(built.program, built.cluster, built.classes))
    durations = {}
    for index, timing in enumerate(priced.classes):
        for code in timing.part.codes:
            prices = timing.durations(code).tolist()
            for instruction, duration in zip(built.program.codes[code].instructions, prices, strict=True):
                durations[index, id(instruction)] = duration
    numbers = {}

    def transfer(index, each):
        number = numbers.setdefault(who(built, index, each), len(numbers))
        whole = durations[index, id(each)]
        # A latency, and two phases of which the first is held back by its cap.
        parts = (
            FlowPhase(number, float(whole // 8), GB / 2),
            FlowPhase(number, float(whole - whole // 2 - whole // 8 * 2), GB),
        )
        return Transfer(whole // 2, parts)

    links = Links(np.full(100, GB), Vectors.of([[(link, 1.0)] for link in range(100)]))
    return priced, Fabric(links, transfer)


@pytest.mark.parametrize("unfold", [False, True])
def test_flows_that_never_meet_take_their_prices_to_the_nanosecond(unfold):
    built = build_scenario(scenario(**PLAN, run={"steps": 2}), unfold=unfold)
    priced, fabric = alone_fabric(built)
    timing = run(Workload(built.program, built.cluster, built.classes, fabric=fabric))
    assert timing.end == priced.end
    assert timing.num_solves == 0
    assert timing.num_flows > 100
    for ours, theirs in zip(times(built, timing), times(built, priced), strict=True):
        same(ours, theirs)


def test_without_transfers_a_fabric_changes_nothing():
    built = build_scenario(scenario(**PLAN))
    links = Links(np.ones(1), Vectors.of([[(0, 1.0)]]), (CapacityChange(10**15, 0, 2.0),))
    timing = run(
        Workload(built.program, built.cluster, built.classes, fabric=Fabric(links, lambda index, each: None))
    )
    priced = run(Workload(built.program, built.cluster, built.classes))
    assert (timing.end, timing.num_flows, timing.num_solves) == (priced.end, 0, 0)


def one_link_fabric(built):
    """All groups and pairs of the cluster over one link; a class stands for as many as it has."""
    classes = built.classes

    def multiplicity(index, each):
        if each.action is not InstructionKind.COLLECTIVE:
            return classes.sizes[sender(built, index, each)[0]]
        group = classes.groups[index, each.group]
        ranks = sum(classes.sizes[member] for member in group.members)
        return ranks // group.placement.num_ranks

    def transfer(index, each):
        return Transfer(1000, (FlowPhase(multiplicity(index, each), each.num_bytes * 10.0, GB / 3),))

    return Fabric(Links(np.array([GB]), Vectors.of([[(0, float(max(1, m)))] for m in range(9)])), transfer)


def contended(unfold):
    built = build_scenario(scenario(**PLAN, run={"steps": 2}), unfold=unfold)
    return built, run(
        Workload(built.program, built.cluster, built.classes, steps=2, fabric=one_link_fabric(built))
    )


def test_folded_and_unfolded_give_the_same_times_where_all_share_one_link():
    folded, timing = contended(unfold=False)
    unfolded, every = contended(unfold=True)
    assert len(folded.classes) < len(unfolded.classes) == 8
    assert timing.end == every.end
    ours, theirs = times(folded, timing), times(unfolded, every)
    for rank in range(8):
        same(ours[folded.classes.of_rank[rank]], theirs[rank])


def test_event_counts_of_a_contended_step():
    _, timing = contended(unfold=False)
    assert (timing.num_events, timing.num_flows, timing.num_solves) == (968, 436, 250)


def test_contention_stretches_what_meets_and_the_step_is_still_cut_without_remainder():
    built, timing = contended(unfold=False)
    stretched = 0
    for each in timing.classes:
        for number, stream in enumerate(each.part.streams):
            starts, ends = each.starts[number], each.ends[number]
            assert (ends[:-1] <= starts[1:]).all()
            if stream.name != COMPUTE:
                assert (each.arrivals[number] <= starts).all()
                stretched += len(set((ends - starts).tolist()))
    assert stretched > 20
    gaps = find_idle_gaps(timing.classes, timing.end, built.plan.stage_axis, built.plan.num_stages)
    for index, each in enumerate(timing.classes):
        compute = next(n for n, stream in enumerate(each.part.streams) if stream.name == COMPUTE)
        busy = int((each.ends[compute] - each.starts[compute]).sum())
        mine = gaps.where(gaps["class"] == index)
        assert busy + int((mine["end"] - mine["start"]).sum()) == timing.end


def test_a_link_without_capacity_is_named_as_what_holds_the_program():
    built = build_scenario(scenario(**PLAN))
    fabric = one_link_fabric(built)
    dead = Fabric(Links(np.zeros(1), fabric.links.vectors), fabric.transfer)
    with pytest.raises(SimulationError, match=r"all_gather \(begin\) waits for links that carry nothing"):
        run(Workload(built.program, built.cluster, built.classes, fabric=dead))


# -- the streams themselves ---------------------------------------------------------------------------------


def communication(env, net, moves, meetings, after=None):
    stream = Stream(env, len(moves))
    waits = [[(after, 1)] if after else AT_ONCE, *[AT_ONCE] * (len(moves) - 1)]
    does = [
        partial((meeting or Meeting(net)).attend, move) for move, meeting in zip(moves, meetings, strict=True)
    ]
    env.process(run_transfers(stream, zip(waits, does, strict=True)))
    return stream


def test_two_collectives_on_one_link_start_when_their_last_member_arrives():
    """The first of 1000 bytes at 0; the second of 1000 at 300, when its late member is there."""
    env = simpy.Environment()
    net = Network(env, Links(np.array([GB]), Vectors.of([[(0, 1.0)]])))
    late = Stream(env, 1)
    env.process(run_kernels(late, [(AT_ONCE, 300)]))
    moves = Transfer(0, (FlowPhase(0, 1000.0, math.inf),))
    meeting = Meeting(net, 2)
    one = communication(env, net, [moves], [None])
    two = communication(env, net, [moves], [meeting])
    three = communication(env, net, [moves, 50], [meeting, None], after=late)
    env.run()
    # 300 alone, 1400 at half rate for the first's last 700, then the second's last 300.
    assert (one.starts, one.ends) == ([0], [1700])
    assert (two.starts, two.ends) == ([300], [2000])
    assert (three.starts, three.ends) == ([300, 2000], [2000, 2050])


def test_priced_entries_need_no_links():
    env = simpy.Environment()
    stream = communication(env, Network(env, NO_LINKS), [7, 0, 5], [None] * 3)
    env.run()
    assert (stream.starts, stream.ends) == ([0, 7, 7], [7, 7, 12])
