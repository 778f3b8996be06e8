"""Kernels beside communication: closed forms for when they end, and a step by step simulation as oracle."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster.device.communication_kernels import SCALE, ResourceShare
from simcluster.engine.communication.fabric import NO_LINKS
from simcluster.engine.linking import PARTS
from simcluster.engine.reference.flows import Network
from simcluster.engine.reference.meetings import Meeting
from simcluster.engine.reference.pace import Pace, slowed_segments
from simcluster.engine.reference.streams import Stream, run_kernels, run_transfers
from tests.support.slowed_kernels import AT_ONCE, ran, segment

MS = 1_000_000
FIFTH = ResourceShare(SCALE // 5, SCALE // 4)


def test_a_kernel_of_10_ms_beside_a_collective_of_4_ms_with_a_fifth_ends_at_10_8_ms():
    assert ran([segment((10 * MS, 0, 0))], [(0, 4 * MS, FIFTH)]) == [(0, 10_800_000)]


def test_a_memory_bound_kernel_loses_the_share_of_the_bandwidth():
    assert ran([segment((0, 9 * MS, 0))], [(2 * MS, 4 * MS, FIFTH)]) == [(0, 10 * MS)]


def test_launches_and_dispatch_go_on_as_ever():
    assert ran([segment((0, 0, 9 * MS))], [(2 * MS, 4 * MS, FIFTH)]) == [(0, 9 * MS)]


def test_two_collectives_that_overlap_partly_take_the_sum_while_both_run():
    # 2 ms alone, 2 ms beside one (0.8), 2 beside both (0.6), 2 beside the other (0.8), the rest alone.
    both = [(2 * MS, 4 * MS, FIFTH), (4 * MS, 4 * MS, FIFTH)]
    assert ran([segment((10 * MS, 0, 0))], both) == [(0, 10 * MS + 400_000 + 800_000 + 400_000)]


def test_what_nothing_overlaps_is_not_slowed():
    assert ran([segment((MS, 0, 0))], [(MS, MS, FIFTH)]) == [(0, MS)]
    assert ran([segment((MS, 0, 0)), segment((MS, 0, 0))], []) == [(0, MS), (MS, 2 * MS)]


def test_kernels_inside_a_segment_follow_one_another_at_the_rate_of_their_time():
    kernels = segment((MS, 0, 0), (MS, 0, 0), (0, MS, 0), (MS, 0, 0))
    # The first half of the second kernel runs alone; the third is bound by memory.
    found = ran([kernels], [(MS + MS // 2, 2 * MS, FIFTH)])
    first, second = MS, MS + MS // 2 + 625_000
    third = second + 1_333_334
    left = 3 * MS + MS // 2 - third
    assert found == [(0, first), (first, second), (second, third), (third, third + MS + left // 5 + 1)]


def test_a_kernel_keeps_an_equal_share_beside_greedy_collectives():
    greedy = ResourceShare(SCALE * 9 // 10, SCALE)
    assert ran([segment((MS, 0, 0))], [(0, 9 * MS, greedy)]) == [(0, 2 * MS)]
    assert ran([segment((MS, 0, 0))], [(0, 9 * MS, greedy)] * 2) == [(0, -(-MS * SCALE // (SCALE // 3)))]


def test_members_of_a_meeting_are_slowed_from_its_start_not_from_their_arrival():
    env = simpy.Environment()
    network = Network(env, NO_LINKS)
    meeting = Meeting(network, 2)
    streams = []
    for late in (0, 3 * MS):
        pace = Pace(env)
        compute, stream = Stream(env, 1), Stream(env, 2)
        env.process(run_kernels(compute, [(AT_ONCE, segment((10 * MS, 0, 0)))], pace))
        alone = partial(Meeting(network).attend, late)
        together = partial(meeting.attend, 4 * MS, (pace, FIFTH))
        env.process(run_transfers(stream, [(AT_ONCE, alone), (AT_ONCE, together)]))
        streams.append((compute, stream, pace))
    env.run()
    for compute, stream, pace in streams:
        assert (stream.starts[1], stream.ends[1]) == (3 * MS, 7 * MS)
        table = slowed_segments(pace).table(np.array(compute.starts))
        assert table["end"].tolist() == [10_800_000]


def test_a_kernel_of_days_is_exact():
    days = 10**15
    share = ResourceShare(SCALE // 10, 0)
    assert ran([segment((days, 0, 0))], [(0, 2 * days, share)]) == [(0, -(-days * 10 // 9))]


TIMES = st.integers(1, 40)
TAKEN = st.builds(ResourceShare, st.integers(0, SCALE), st.integers(0, SCALE))


def slowly(kernels, communications):
    """The same by fractions, one nanosecond after another."""
    found, now, start = [], 0, 0
    for kernel in kernels:
        for part, work in enumerate(kernel):
            left = Fraction(work)
            while left > 0:
                active = [taken for begin, length, taken in communications if begin <= now < begin + length]
                least = Fraction(SCALE // (len(active) + 1), SCALE)
                used = [sum(each.units for each in active), sum(each.memory for each in active), 0][part]
                left -= 1 if part == PARTS - 1 else max(1 - Fraction(used, SCALE), least)
                now += 1
        found.append((start, now))
        start = now
    return found


@given(
    st.lists(st.lists(st.tuples(TIMES, TIMES, TIMES), min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.tuples(TIMES, TIMES, TAKEN), max_size=5),
)
@settings(max_examples=80)
def test_every_kernel_ends_as_if_time_went_by_one_nanosecond_after_another(segments, communications):
    kernels = [kernel for each in segments for kernel in each]
    assert ran([segment(*each) for each in segments], communications) == slowly(kernels, communications)


@pytest.mark.parametrize("share", [0.15, 0.02])
def test_a_rate_is_exact_in_millionths(share):
    taken = ResourceShare(round(share * SCALE), 0)
    found = ran([segment((MS, 0, 0))], [(0, 100 * MS, taken)])
    assert found == [(0, -(-MS * SCALE // (SCALE - taken.units)))]
