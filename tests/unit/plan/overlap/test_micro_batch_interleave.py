"""Timetables of copies, how a batch is dealt out to them, and what a user is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.errors import PlanError
from simcluster.plan.data.batch_shares import MicroBatches
from simcluster.plan.overlap.micro_batch_interleave import (
    describe_interleaving,
    interleave_micro_batches,
    interleaved_samples,
)
from simcluster.plan.pipeline.schedule import activation_peaks, parse, render, validate_schedule
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.plan.spec.optimizer_sharding import ShardingChoice
from simcluster.plan.spec.schedule_spec import schedule_kinds


def test_every_action_is_done_for_all_copies_of_its_micro_batch():
    two = interleave_micro_batches(parse("F0 F1 B0 B1\nF0 B0 F1 B1"), 2)
    assert render(two) == "F0&F1 F2&F3 B0&B1 B2&B3\nF0&F1 B0&B1 F2&F3 B2&B3"
    assert render(interleave_micro_batches(parse("F0 F1c1&B0 I1c1 W1c1"), 3)) == (
        "F0&F1&F2 F3c1&F4c1&F5c1&B0&B1&B2 I3c1&I4c1&I5c1 W3c1&W4c1&W5c1"
    )


def test_one_copy_is_the_timetable_itself():
    timetable = schedule_kinds()["dualpipe_v"]().timetable(2, 8)
    assert interleave_micro_batches(timetable, 1) == timetable


@pytest.mark.parametrize("kind", ["gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe_v"])
@pytest.mark.parametrize("copies", [2, 3])
def test_copies_are_micro_batches_that_can_run(kind, copies):
    schedule = schedule_kinds()[kind]()
    timetable, chain = schedule.timetable(2, 8), schedule.chain(2)
    made = interleave_micro_batches(timetable, copies)
    validate_schedule(made, 8 * copies, chain)
    assert parse(render(made)) == made
    # As many micro-batches are alive as without copies, each of which has as many of its samples.
    assert activation_peaks(made) == [copies * peak for peak in activation_peaks(timetable)]


def test_a_micro_batch_is_dealt_out_in_whole_samples():
    assert interleaved_samples(6, 3) == 2
    with pytest.raises(
        PlanError, match=r"a micro-batch of 3 does not divide into 2 copies: 3 / 2 = 1\.5"
    ) as got:
        interleaved_samples(3, 2)
    assert got.value.problems[0].path == "parallel.copies"
    batches = MicroBatches("data", (3, 1))
    assert batches.in_copies(2) == MicroBatches("data", (6, 2))
    assert batches.in_copies(2).taken_together(2) == batches


def test_a_user_is_told_where_copies_hide_nothing():
    ideal, fsdp, whole = FrameworkSpec.load("ideal"), FrameworkSpec.load("fsdp"), ShardingChoice()
    assert "hide none" not in describe_interleaving(2, 1, ideal, whole)
    assert describe_interleaving(2, 1, fsdp, whole).endswith("so copies hide none")
    assert describe_interleaving(1, 4, fsdp, whole) == ""


def test_a_user_is_told_what_is_done_for_every_copy():
    """MindSpore reduces the gradient of both copies once: here twice as much travels."""
    states = ShardingChoice(True, axes=("data",))
    assert "for every copy" not in describe_interleaving(2, 1, FrameworkSpec.load("ideal"), states)
    found = describe_interleaving(
        2, 1, FrameworkSpec.load("ideal"), replace(states, gradients=True, weights=True, regather=True)
    )
    assert "gradients reduced to shards and weights gathered for every copy" in found
    assert "communication over data is up to 2 times too much" in found
