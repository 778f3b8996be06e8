"""How often the parts of a Program release the buffers that several blocks see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simcluster.program import Scope
from tests.support.instruction_blocks import block, instruction, program, run, slot


def made_and_used():
    kept = slot("kept", Scope.MICRO_BATCH)
    weights = slot("weights", Scope.KEPT)
    makes = block("forward", [instruction("up", reads=[1], writes=[0])], [kept, weights])
    uses = block(
        "backward",
        [
            instruction("one", reads=[0], last_uses=(0,)),
            instruction("two", reads=[0, 1], stream="data", last_uses=(0, 1)),
        ],
        [kept, weights],
        phase="backward",
    )
    executions = [
        run(number, micro_batch=batch, weights_of_micro_batch=batch // 2)
        for batch in range(4)
        for number in range(2)
    ]
    return program([makes, uses], executions, executions[:4])


def test_a_buffer_waits_for_all_last_uses_of_its_blocks_each_once_an_instance():
    assert made_and_used().references == ({"layer.kept": 2}, {"layer.kept": 2})


def test_kept_weights_wait_for_the_micro_batches_that_share_them():
    both, one = made_and_used().shares
    assert both == {("layer.weights", 0): 2, ("layer.weights", 1): 2}
    assert one == {("layer.weights", 0): 2}


def test_ranks_run_the_part_of_their_stage_or_the_one_assigned_to_them():
    which = made_and_used()
    assert which.part_of_rank.tolist() == [0, 1]
    assert which.num_stages == 2
    assigned = replace(which, assigned=(1, 0))
    assert np.array_equal(assigned.part_of_rank, [1, 0])
    assert assigned.stage_of(0) == 1


def test_the_fullest_variant_of_a_stage_is_that_of_the_most_executions():
    which = replace(made_and_used(), variants=(0, 1))
    assert (which.num_variants, which.num_stages, which.fullest(0)) == (2, 1, 0)
