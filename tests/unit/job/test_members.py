"""Workers and parameter servers that leave, fail and join, in jobs made by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.job import KeyMoves, KeysMoved, StepSummary, Survivors, membership_incidents
from simcluster.job.failures import FailureEffect, Incident
from simcluster.job.membership_spec import MembershipChangeSpec
from tests.support.jobs import SECOND, job, ran, stop

WORKERS, SERVERS = 4, 2
SCHEDULER = WORKERS + SERVERS


class MovesInSeconds(KeyMoves):
    """100 bytes and a second for every server that comes or goes; a pull takes two."""

    def moved(self, before, after, failed):
        count = len(before ^ after - failed)
        return KeysMoved(100 * count, float(count))

    def pull_s(self, workers, absent):
        return 2.0


def elastic(steps=60, *, takes_over=False, waits_for_all=True):
    """Four workers, two servers and their scheduler, each on a host."""
    made = job(steps, hosts=SCHEDULER + 1, policy="elastic")
    index = (*range(WORKERS), *[-1] * (SERVERS + 1))
    survivors = Survivors(
        tuple(range(SCHEDULER + 1)),
        index,
        tuple(range(SCHEDULER + 1)),
        servers=frozenset(range(WORKERS, SCHEDULER)),
        waits_for_all=waits_for_all,
        takes_over=takes_over,
    )
    return replace(made, survivors=survivors, key_moves=MovesInSeconds())


def step(state):
    """A step trains on 25 samples for every worker, and takes longer with fewer servers."""
    there = SERVERS - len(state.servers)
    return StepSummary(10 * SECOND * SERVERS // there, 25 * (WORKERS - len(state.workers)))


def planned(*changes):
    specs = [MembershipChangeSpec.model_validate({"at": f"{at} s", **what}) for at, what in changes]
    return list(membership_incidents(specs, WORKERS, SERVERS))


def paces(record):
    every = ((each.step_ns // SECOND, each.samples) for each in record.ledger.intervals)
    return [pace for pace, _ in groupby(every)]


def told(record):
    return [
        (change.what, change.at_ns // SECOND, change.workers, change.servers, change.moved.num_bytes)
        for change in record.members
    ]


def test_a_worker_leaves_behind_its_step_and_joins_when_it_has_started_and_pulled():
    record = ran(
        elastic(), planned((247, {"leave": {"workers": [1]}}), (400, {"join": {"workers": [1]}})), step=step
    )
    assert told(record) == [("leave", 247, 3, 2, 0), ("join", 400 + 20 + 2, 4, 2, 0)]
    assert paces(record) == [(10, 100), (10, 75), (10, 100)]
    assert {phase for _, phase in record.ledger.spent} == {"progress", "slower steps", "save"}


def test_keys_of_a_server_that_leaves_are_moved_while_all_wait():
    record = ran(
        elastic(), planned((247, {"leave": {"servers": [0]}}), (500, {"join": {"servers": [0]}})), step=step
    )
    assert told(record) == [("leave", 247, 4, 1, 100), ("join", 520, 4, 2, 100)]
    assert paces(record) == [(10, 100), (20, 100), (10, 100)]
    assert record.ledger.of_phase("move keys") == 2 * SECOND


def test_who_leaves_at_the_begin_is_not_there_and_nothing_moves():
    record = ran(elastic(), planned((0, {"leave": {"workers": [0], "servers": [1]}})), step=step)
    assert told(record) == [("leave", 0, 3, 1, 0)]
    assert paces(record) == [(20, 75)]


def test_others_take_over_the_keys_of_a_server_that_fails():
    """Missed after 40 s; read for 10 s; its host is back 15 s and its process 20 s later."""
    record = ran(elastic(takes_over=True), [stop(247, host=WORKERS)], step=step)
    assert told(record) == [
        ("lost", 247, 4, 1, 0),
        ("back", 247 + 40 + 10 + 15 + 20 + 2 - 2, 4, 2, 100),
    ]
    assert record.ledger.of_phase("detect") == 40 * SECOND
    assert record.ledger.of_phase("load") == 10 * SECOND
    assert not record.ledger.of_phase("replace")
    waited = ran(elastic(), [stop(247, host=WORKERS)], step=step)
    assert waited.ledger.of_phase("replace") == 15 * SECOND


def test_who_is_away_may_fail_and_stays_away_over_a_restart():
    leaves = planned((100, {"leave": {"workers": [1], "servers": [0]}}))
    both = ran(elastic(), [*leaves, stop(200, host=1), stop(247, host=SCHEDULER)], step=step)
    assert sum(both.incidents.values()) == 2
    assert [what for what, *_ in told(both)] == ["leave", "restart"]
    assert told(both)[-1][2:4] == (3, 1)
    assert paces(both)[-1] == (20, 75)


def test_who_leaves_again_before_it_has_joined_does_not_join():
    changes = planned(
        (100, {"leave": {"workers": [1]}}),
        (200, {"join": {"workers": [1]}}),
        (210, {"leave": {"workers": [1]}}),
    )
    assert [what for what, *_ in told(ran(elastic(), changes, step=step))] == ["leave", "leave"]


def test_the_last_server_that_holds_keys_is_waited_for():
    leaves = planned((100, {"leave": {"servers": [0]}}))
    record = ran(elastic(takes_over=True), [*leaves, stop(247, host=WORKERS + 1)], step=step)
    assert record.ledger.of_phase("replace") == 15 * SECOND


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([(1, {"leave": {"workers": [4]}})], "there is no worker 4; the last is 3"),
        ([(1, {"join": {"workers": [0]}})], "worker 0 is there already"),
        ([(1, {"leave": {"servers": [1]}}), (2, {"leave": {"servers": [1]}})], "server 1 has left already"),
        ([(1, {"leave": {"workers": [0, 1, 2, 3]}})], "no worker would be left"),
        ([(1, {"leave": {"servers": [0, 1]}})], "no server would be left that could hold the keys"),
    ],
)
def test_what_cannot_be_planned(changes, message):
    with pytest.raises(PlanError, match=message):
        planned(*changes)


def test_incidents_of_servers_are_named_by_device():
    (incident,) = planned((3, {"leave": {"servers": [1]}}))
    assert isinstance(incident, Incident)
    assert (incident.devices, incident.effect) == ((WORKERS + 1,), FailureEffect.LEAVE)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_every_nanosecond_has_a_cause_whoever_comes_and_goes(data):
    takes_over, waits = data.draw(st.booleans()), data.draw(st.booleans())
    there = {*range(SCHEDULER)}
    changes, at = [], 0
    for _ in range(data.draw(st.integers(0, 6))):
        at += data.draw(st.integers(0, 200))
        device = data.draw(st.integers(0, SCHEDULER - 1))
        key = "leave" if device in there else "join"
        own = range(WORKERS) if device < WORKERS else range(WORKERS, SCHEDULER)
        if key == "leave" and len(there.intersection(own)) == 1:
            continue
        there ^= {device}
        who = {"workers": [device]} if device < WORKERS else {"servers": [device - WORKERS]}
        changes.append((at, {key: who}))
    failures = [
        stop(data.draw(st.integers(1, 900)), host=data.draw(st.integers(0, SCHEDULER))) for _ in range(4)
    ]
    made = elastic(takes_over=takes_over, waits_for_all=waits)
    record = ran(made, [*planned(*changes), *failures], step=step)
    assert record.ledger.total_ns == record.end_ns
    assert all(change.workers >= 1 and change.servers >= 1 for change in record.members)
    spans = [(entry.start_ns, entry.end_ns) for entry in record.ledger.timeline]
    assert all(one[1] <= two[0] for one, two in pairwise(spans))


def test_the_last_server_leaves_when_another_one_is_back():
    """Server 0 fails at 247 s and is back at 334 s; server 1, which is to leave at 260 s, holds all keys."""
    leaves = planned((260, {"leave": {"servers": [1]}}))
    record = ran(elastic(takes_over=True), [stop(247, host=WORKERS), *leaves], step=step)
    assert [(what, servers) for what, _, _, servers, _ in told(record)] == [
        ("lost", 1),
        ("back", 2),
        ("leave", 1),
    ]
    assert paces(record)[-1] == (20, 100)
