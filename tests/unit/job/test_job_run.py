"""Runs of small jobs, by hand and against closed forms."""

import math
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.job import JobPhase, SaveRhythm, StartUp, StepSummary, Survivors, expected_wall_time
from simcluster.job.failures import FailureEffect, Incident, Lognormal, PlannedMaintenance
from simcluster.job.figures import figures_of_job, goodput_of
from simcluster.job.timeline import JobLedger, Trainer
from tests.support.jobs import SECOND, cause, job, ran, step_of, stop

RESTART = 40 + 10 + 15 + 20 + 5 + 10
"""Detect, stop, replace, start, communicators and load of ``tests.support.jobs.costs``."""


def seconds(record, phase):
    return record.ledger.of_phase(phase) / SECOND


def test_without_failures_a_job_is_its_steps_and_saves():
    record = ran(job(100, every=10, save=5.0))
    assert record.end_ns == (1000 + 10 * 5) * SECOND
    assert goodput_of(record) == 1000 / 1050
    assert record.num_saves == 10


def test_a_job_ends_with_a_checkpoint():
    assert ran(job(25, every=10, save=5.0)).end_ns == (250 + 3 * 5) * SECOND


def test_a_restart_loses_what_came_behind_the_last_checkpoint():
    """Saves end at 105 s and 210 s; at 247 s three steps are done since, and 7 s of the fourth."""
    record = ran(job(30), [stop(247)])
    assert record.end_ns == (300 + 15 + 7 + RESTART + 30) * SECOND
    assert seconds(record, "cut step") == 7
    assert seconds(record, "replay") == 30
    (recovery,) = record.recoveries
    assert (recovery.lost_samples, recovery.policy, recovery.source) == (300, "restart", "checkpoint")
    assert [entry.phase for entry in record.ledger.timeline] == [
        *("training", "cut step", "detect", "stop", "replace", "start", "communicators", "load"),
        *("replay", "training"),
    ]


def test_a_step_and_a_save_that_are_cut_are_lost():
    assert seconds(ran(job(30), [stop(207)]), "cut step") == 2
    assert ran(job(30), [stop(207)]).recoveries[0].lost_samples == 1000


@pytest.mark.parametrize("first_load", [0.0, 7.0])
def test_a_failure_before_the_first_checkpoint_loads_what_the_start_does(first_load):
    """At 47 s nothing is saved: the job begins anew, from nothing or from another job's checkpoint."""
    own = replace(job(30), first_load_s=first_load)
    record = ran(own, [stop(47)])
    assert record.end_ns == (300 + 15 + 47 + RESTART - 10 + first_load) * SECOND
    assert seconds(record, "load") == first_load


def test_a_replica_loses_the_cut_step_alone():
    record = ran(job(30, policy="replica"), [stop(247)])
    assert record.end_ns == (300 + 15 + 7 + RESTART - 10 + 1) * SECOND
    assert record.recoveries[0].lost_samples == 0


def test_two_holders_of_a_slice_lost_at_once_leave_a_restart():
    holders = (0, 1, 0, 1)
    both = stop(247, cause="switch", hosts=(0, 2))
    record = ran(job(30, policy="replica", holders=holders), [both])
    assert [each.policy for each in record.recoveries] == ["restart"]
    one = stop(247, cause="switch", hosts=(0, 1))
    assert [each.policy for each in ran(job(30, policy="replica", holders=holders), [one]).recoveries] == [
        "replica"
    ]


def test_hot_spares_save_replacement_and_start_until_there_are_none():
    own = job(60, policy="spare", num_spares=1)
    record = ran(own, [stop(247), stop(460, host=1)])
    assert [each.policy for each in record.recoveries] == ["spare", "restart"]
    first, second = record.recoveries
    assert first.back_ns - first.at_ns == (40 + 10 + 2 + 5 + 10) * SECOND
    assert second.back_ns - second.at_ns > RESTART * SECOND
    assert seconds(record, "wait for a host") > 0


def test_a_process_that_fails_takes_a_spare_if_one_is_ready():
    """It was swapped for nothing where all spares were in use."""
    software = stop(460, host=1, cause="software", component="process", devices=(1,), replaces=False)
    own = job(60, policy="spare", num_spares=1)
    assert [each.policy for each in ran(own, [software]).recoveries] == ["spare"]
    used = ran(own, [stop(247), software])
    assert [each.policy for each in used.recoveries] == ["spare", "restart"]


def test_memory_goes_back_to_the_last_copy_in_a_neighbour():
    rhythm = SaveRhythm(10, 5 * SECOND, memory_every=1, memory_ns=SECOND)
    record = ran(job(30, policy="memory", rhythm=rhythm), [stop(247)])
    assert record.recoveries[0].lost_samples == 0
    assert seconds(record, "save in memory") == 30
    pair = ran(job(30, policy="memory", rhythm=rhythm), [stop(247, hosts=(0, 1))])
    assert [each.policy for each in pair.recoveries] == ["restart"]


def test_hosts_keep_copies_as_gemini_places_them():
    """Two of 16 hosts at once are recovered from memory with a probability of 93.3 %; no host is alone."""
    pairs = list(combinations(range(16), 2))
    kept = sum(Survivors((), (), tuple(range(16))).keep_memory(pair) for pair in pairs)
    assert kept / len(pairs) == pytest.approx(0.933, abs=5e-4)
    odd = Survivors((), (), tuple(range(17)))
    assert all(odd.keep_memory((host,)) for host in range(17))
    # Hosts 14, 15 and 16 are a ring, in which every two neighbours hold all copies of one state.
    lost = [pair for pair in combinations(range(12, 17), 2) if not odd.keep_memory(pair)]
    assert lost == [(12, 13), (14, 15), (14, 16), (15, 16)]
    three = Survivors((), (), tuple(range(8)), memory_copies=3)
    assert not three.keep_memory((5, 6, 7)) and three.keep_memory((4, 5, 7))


def test_a_shrunk_job_goes_on_and_grows_back():
    record = ran(job(60, policy="shrink", replace_s=14.0), [stop(247)])
    paces = [(each.step_ns // SECOND, each.samples) for each in record.ledger.intervals]
    assert paces == [(10, 100), (10, 75), (10, 100)]
    assert record.recoveries[0].lost_samples == 0
    assert seconds(record, "grow back") == 1
    assert seconds(record, "slower steps") > 0
    # Without it from 247 + 40 + 10 + 5 s on. Its host is asked for when the loss is detected, at 287 s, and
    # there 14 s later, its process 20 s after that: in the second step.
    less = record.ledger.intervals[1]
    assert (less.start_ns, less.end_ns) == (302 * SECOND, 322 * SECOND)


def test_a_host_that_is_there_before_the_others_go_on_is_taken_in_at_once():
    """It was asked for only when these went on: 65 s of communicators later."""
    start = StartUp((JobPhase("start", 20.0), JobPhase("communicators", 65.0)))
    record = ran(job(60, policy="shrink", start=start), [stop(247)])
    less = [each for each in record.ledger.intervals if each.samples == 75]
    assert sum(each.end_ns - each.start_ns for each in less) <= 10 * SECOND
    assert seconds(record, "grow back") == 1


def test_a_job_that_moves_leaves_slow_devices_behind():
    slow = Incident(
        *(50 * SECOND, "slow", "device", FailureEffect.SLOW, (1,), (1,)), lasts_ns=10**13, factor=0.5
    )
    stays, moves = (ran(job(60, policy=policy), [slow, stop(247)]) for policy in ("restart", "relocate"))
    assert stays.ledger.intervals[-1].step_ns == 20 * SECOND
    assert moves.ledger.intervals[-1].step_ns == 10 * SECOND
    assert seconds(moves, "queue") == 300


def test_a_hang_is_found_by_the_collective_only():
    record = ran(job(30), [stop(247, effect=FailureEffect.HANG, replaces=False)])
    assert seconds(record, "detect") == 600
    assert seconds(record, "replace") == 0


def test_a_slow_device_slows_every_step_from_the_next_on():
    slow = Incident(
        *(95 * SECOND, "slow", "device", FailureEffect.SLOW, (1,), (1,)), lasts_ns=100 * SECOND, factor=0.5
    )
    record = ran(job(30), [slow])
    # The step that ends at 100 s is the last one before, that which is in flight at 195 s the last slow one.
    assert seconds(record, "slower steps") == 5 * 10
    assert record.ledger.spent["slow", "slower steps"] == 50 * SECOND


def test_short_network_errors_are_waited_for_and_long_ones_stop_the_job():
    def error(lasts):
        return stop(
            247, cause="link", effect=FailureEffect.TRANSIENT, replaces=False, lasts_ns=lasts * SECOND
        )

    assert ran(job(30), [error(12)]).end_ns == (300 + 15 + 12) * SECOND
    long = ran(job(30), [error(31)])
    assert seconds(long, "detect") == 30
    assert len(long.recoveries) == 1


def test_maintenance_saves_first_and_loses_no_step():
    record = ran(job(30), maintenance=[PlannedMaintenance(247 * SECOND, None, 600 * SECOND)])
    assert record.end_ns == (300 + 15 + 5 + 600 + 25 + 10) * SECOND
    assert not record.recoveries
    assert seconds(record, "replay") == 0


def test_a_failure_in_a_recovery_begins_it_again():
    record = ran(job(30), [stop(247), stop(300, host=1)])
    (recovery,) = record.recoveries
    assert recovery.interrupted == 1
    assert recovery.back_ns - recovery.at_ns == (53 + RESTART) * SECOND
    assert figures_of_job(record)["interruptions"] == 2


def test_a_checkpoint_in_the_background_counts_when_it_is_written():
    rhythm = SaveRhythm(10, SECOND, background_ns=45 * SECOND, slowdown=1.5)
    record = ran(job(30, rhythm=rhythm), [stop(101 + 44)])
    assert record.recoveries[0].lost_samples == 1200
    record = ran(job(30, rhythm=rhythm), [stop(101 + 46)])
    assert record.recoveries[0].lost_samples == 300
    # Two are written beside steps, that take longer; the last one is waited for.
    assert ran(job(30, rhythm=rhythm)).end_ns == (3 * 101 + 2 * 3 * 5 + 45) * SECOND
    record = ran(job(30, rhythm=rhythm), [stop(3 * 101 + 2 * 3 * 5 + 44)])
    assert record.recoveries[0].lost_samples == 1000


@pytest.mark.parametrize("every", [10, 30, 100])
def test_mean_time_is_dalys(every):
    """Daly's exact expectation: exponential failures, which may also come in a restart."""
    mtbf, steps = 3000.0, 3000
    own = job(steps, every=every, save=15.0)
    times = [ran(own, causes=[cause(4 * mtbf)], seed=seed).end_ns / SECOND for seed in range(60)]
    expected = steps * 10.0 * expected_wall_time(every * 10.0, 15.0, RESTART, mtbf)
    assert np.mean(times) == pytest.approx(expected, abs=3.5 * np.std(times) / math.sqrt(60))


@pytest.mark.parametrize("background", [40, 150, 450])
def test_mean_time_with_checkpoints_in_the_background(background):
    """A failure loses what a checkpoint that is not complete holds, too; saves wait for each other."""
    mtbf, steps = 3000.0, 3000
    own = job(steps, rhythm=SaveRhythm(30, 15 * SECOND, background * SECOND))
    times = [ran(own, causes=[cause(4 * mtbf)], seed=seed).end_ns / SECOND for seed in range(60)]
    expected = steps * 10.0 * expected_wall_time(300.0, 15.0, RESTART, mtbf, background)
    assert np.mean(times) == pytest.approx(expected, abs=3.5 * np.std(times) / math.sqrt(60))


def test_a_job_that_never_ends_is_refused():
    with pytest.raises(PlanError, match="break faster than the job recovers"):
        ran(job(10, every=10), causes=[cause(4 * 8.0)])


POLICIES = st.sampled_from(["restart", "replica", "spare", "shrink", "memory", "relocate"])


@settings(max_examples=30, deadline=None)
@given(
    policy=POLICIES,
    seed=st.integers(0, 1000),
    every=st.integers(1, 15),
    background=st.integers(0, 120),
    mean=st.floats(2000.0, 6000.0),
    memory=st.integers(1, 4),
)
def test_every_nanosecond_is_counted_once(policy, seed, every, background, mean, memory):
    rhythm = SaveRhythm(
        *(every, 3 * SECOND, background * SECOND, 1.25),
        memory_every=memory if policy == "memory" else None,
        memory_ns=SECOND // 3,
    )
    own = job(120, policy=policy, rhythm=rhythm, num_spares=4 if policy in ("spare", "relocate") else None)
    causes = [
        cause(4 * mean),
        cause(3 * mean, name="slow", effect=FailureEffect.SLOW, factor=0.7, duration=cause(200.0).law),
        cause(5 * mean, name="hang", effect=FailureEffect.HANG, replaces=False),
        cause(9 * mean, name="wrong", effect=FailureEffect.CORRUPT, duration=Lognormal(300.0, 1.0)),
        cause(mean, name="link", effect=FailureEffect.TRANSIENT, replaces=False, duration=cause(15.0).law),
    ]
    maintenance = [PlannedMaintenance(400 * SECOND, 2000 * SECOND, 60 * SECOND)]
    record = ran(own, causes=causes, maintenance=maintenance, seed=seed)
    assert record.ledger.total_ns == record.end_ns
    assert record.ledger.spent["", "progress"] >= 0
    timeline = record.ledger.timeline
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(timeline))
    if policy != "shrink":
        assert seconds(record, "progress") == 120 * 10


@settings(max_examples=60, deadline=None)
@given(
    every=st.integers(1, 12),
    blocking=st.integers(0, 5),
    background=st.integers(0, 60),
    memory=st.integers(0, 3),
    stops=st.lists(st.integers(1, 3000), max_size=6),
)
def test_training_in_one_go_is_training_in_pieces(every, blocking, background, memory, stops):
    """Whole cycles by division are the same as step by step."""

    def trained(times):
        rhythm = SaveRhythm(
            *(every, blocking * SECOND, background * SECOND, 1.5),
            memory_every=memory or None,
            memory_ns=SECOND,
        )
        trainer = Trainer(StepSummary(10 * SECOND, 7), rhythm, 7 * 200, JobLedger())
        for time in times:
            trainer.advance(time * SECOND)
        return trainer

    whole, pieces = trained([10**6]), trained([*sorted(stops), 10**6])
    for name in ("now_ns", "samples", "durable", "in_memory", "num_saves"):
        assert getattr(whole, name) == getattr(pieces, name), name
    assert whole.ledger.spent == pieces.ledger.spent


def test_steps_of_a_month_cost_no_more_than_those_of_a_day():
    """A million steps with a thousand failures: no loop over steps."""
    own = job(1_000_000, every=100)
    record = ran(own, causes=[cause(4 * 10_000.0)], step=step_of())
    assert 800 < len(record.recoveries) < 1300
