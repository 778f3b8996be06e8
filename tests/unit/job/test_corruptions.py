"""Silent corruption of the state, which is noticed late: by hand, and against what is expected."""

import pytest

from simcluster.job import SaveRhythm
from simcluster.job.failures import FailureEffect
from simcluster.job.figures import figures_of_job
from tests.support.jobs import SECOND, job, ran, stop

BACK = 10 + 15 + 20 + 5 + 10
"""Stop, replace, start, communicators and load of ``tests.support.jobs.costs``: nothing is left to detect."""


def corrupt(at, noticed_after, host=0):
    return stop(at, host, "wrong values", effect=FailureEffect.CORRUPT, lasts_ns=noticed_after * SECOND)


@pytest.mark.parametrize("policy", ["restart", "replica", "memory", "shrink"])
def test_all_policies_go_back_to_the_last_checkpoint_from_before(policy):
    """Saves end at 105 s and, with wrong values, at 210 s; at 250 s 10 of 24 steps are right."""
    rhythm = SaveRhythm(10, 5 * SECOND, memory_every=1 if policy == "memory" else None)
    record = ran(job(30, policy=policy, rhythm=rhythm), [corrupt(150, 100)])
    (recovery,) = record.recoveries
    assert (recovery.at_ns, recovery.lost_samples) == (250 * SECOND, 1400)
    assert (recovery.policy, recovery.source) == ("restart", "checkpoint")
    assert record.end_ns == (250 + BACK + 200 + 10) * SECOND
    assert record.ledger.of_phase("replay") == 140 * SECOND
    assert dict(record.incidents) == {("wrong values", "corrupt"): 1}


def test_a_checkpoint_that_is_being_written_was_copied_before():
    rhythm = SaveRhythm(10, SECOND, background_ns=45 * SECOND)
    record = ran(job(30, rhythm=rhythm), [corrupt(102, 100)])
    assert record.recoveries[0].lost_samples == 1000


@pytest.mark.parametrize(("keep", "lost", "source"), [(2, 1400, "checkpoint"), (1, 2400, "nothing")])
def test_a_job_that_has_no_older_checkpoint_begins_anew(keep, lost, source):
    rhythm = SaveRhythm(10, 5 * SECOND, keep=keep)
    (recovery,) = ran(job(30, rhythm=rhythm), [corrupt(150, 100)]).recoveries
    assert (recovery.lost_samples, recovery.source) == (lost, source)


def test_a_failure_that_goes_back_further_undoes_it():
    record = ran(job(30), [corrupt(150, 100), stop(200)])
    assert [entry.cause for entry in record.recoveries] == ["failed host"]
    assert record.unnoticed == 0


def test_a_failure_that_does_not_go_back_so_far_leaves_it():
    record = ran(job(30), [corrupt(150, 200), stop(230)])
    assert [(entry.cause, entry.lost_samples) for entry in record.recoveries] == [
        ("failed host", 200),
        ("wrong values", 1200),
    ]


def test_what_nobody_notices_is_said():
    record = ran(job(30), [corrupt(290, 10_000)])
    assert record.end_ns == 315 * SECOND
    assert figures_of_job(record)["unnoticed_corruptions"] == 1
