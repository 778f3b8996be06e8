from __future__ import annotations

import pytest

from simcluster.program.buckets.gradient_buckets import crossing_ties
from simcluster.simulation import build_scenario, verify
from tests.support.scenarios import TINY_GPT, scenario, under

T5 = {"family": "t5", "encoder_layers": 1, "decoder_layers": 3, "hidden": 32, "heads": 4, "vocab": 64}
BUCKETS = {"reduction": {"bucket": "whole"}}


def shared_collectives(which):
    """By stage, the bytes of what is reduced across stages, in order."""
    program = build_scenario(which).program
    return [
        [
            each.num_bytes
            for run in stage.executions
            for each in program.codes[run.code].instructions
            if any(axis.startswith("pipeline") for axis in each.group) and each.num_bytes > 4
        ]
        for stage in program.parts
    ]


@pytest.mark.parametrize("switches", [{}, BUCKETS], ids=["by layer", "in buckets"])
def test_stages_reduce_what_they_share_in_one_order(switches):
    """The first stage reaches the decoder's positions first, the last one the tokens."""
    which = under(scenario({"pipeline": 2}, model=T5, recipe="data"), **switches)
    first, last = shared_collectives(which)
    assert len(first) == 2
    assert first == last
    assert verify(which).agrees


def test_only_ties_over_several_stages_cross():
    assert crossing_ties(build_scenario(scenario({"data": 2}, model=TINY_GPT)).plan.graph) == {}
    graph = build_scenario(scenario({"pipeline": 2}, model=TINY_GPT)).plan.graph
    assert {instance for instance, _ in crossing_ties(graph)} == {"embedding", "head"}
