"""Streams that wait for one another: at once, in order, and without end."""

from __future__ import annotations

from functools import partial

import simpy

from simcluster.engine.communication import ClassGates
from simcluster.engine.communication.fabric import NO_LINKS
from simcluster.engine.reference.flows import Network
from simcluster.engine.reference.meetings import GatedEntries, Latch, Meeting
from simcluster.engine.reference.streams import Stream, run_kernels, run_transfers
from tests.support.slowed_kernels import AT_ONCE


def test_who_waits_at_a_latch_goes_on_before_the_one_that_lets_go():
    env, told = simpy.Environment(), []

    def waiting(latch, name, times):
        for each in range(times):
            yield latch
            told.append((name, each, env.now))

    latch = Latch(env)
    env.process(waiting(latch, "a", 2))
    env.process(waiting(latch, "b", 1))
    env.run()
    latch.succeed()
    assert told == [("a", 0, 0), ("b", 0, 0)]
    latch.succeed()
    assert told[2:] == [("a", 1, 0)]
    latch.succeed()  # nobody is left


def test_a_stream_lets_go_only_who_waits_for_what_is_over():
    env, told = simpy.Environment(), []
    first, *others = (Stream(env, 3) for _ in range(3))

    def until(me, position):
        yield me.until(first, position)
        told.append((others.index(me), first.done))

    for me, position in zip(others, (3, 1), strict=True):
        env.process(until(me, position))
    env.process(run_kernels(first, [(AT_ONCE, 5)] * 3))
    env.run()
    assert told == [(1, 1), (0, 3)] and not first.waiters


def test_streams_that_wait_for_each_other_in_turn_do_not_nest():
    """Twenty thousand entries that take no time: deeper than Python lets calls be nested."""
    env, count = simpy.Environment(), 20_000
    at_a_gate = GatedEntries({}, ClassGates(None, 0, 0, ()), Latch(env), None).attend
    one, other = Stream(env, count), Stream(env, count)
    first = [([(other, entry)], at_a_gate) for entry in range(count)]
    then = [([(one, entry + 1)], at_a_gate) for entry in range(count)]
    env.process(run_transfers(other, then))
    env.process(run_transfers(one, first))
    env.run()
    assert one.done == other.done == count and env.now == 0


def test_a_row_of_classes_that_meet_pair_by_pair_does_not_nest():
    """Each meeting ends at the instant at which the next one can begin."""
    env, count = simpy.Environment(), 5_000
    network = Network(env, NO_LINKS)
    meetings = [partial(Meeting(network, 2).attend, 0) for _ in range(count)]
    streams = [Stream(env, 2) for _ in range(count + 1)]
    for number, stream in enumerate(streams):
        met = [*meetings[max(0, number - 1) : number], *meetings[number : number + 1]]
        entries = [(AT_ONCE, meeting) for meeting in met]
        env.process(run_transfers(stream, entries))
    env.run()
    assert [stream.done for stream in streams] == [1, *[2] * (count - 1), 1]
