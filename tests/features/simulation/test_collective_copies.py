"""Activations that are gathered along the sequence are copied into order, where the framework does so."""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.work import Kernel

BYTES = 2 * 1024 * 256 * 4
"""Of the activations that four ranks gather, in fp32."""


def scenario(framework, **parallel):
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "small",
            "cluster": {"use": "dgx-h100", "hosts": 1},
            "framework": framework,
            "model": {
                "family": "llama", "layers": 2, "hidden": 256, "heads": 8, "vocab": 1024, "ffn": 512
            },
            "training": {"global_batch": 4, "micro_batch": 2, "seq_len": 1024, "precision": "fp32"},
            "parallel": {"mesh": {"data": 2, "tensor": 4}, "recipe": "megatron_sp", **parallel},
        }
    )  # fmt: skip


def copies(made):
    program = build_scenario(made).program
    return [
        work.bytes_read
        for code in program.codes
        for instruction in code.instructions
        for work in instruction.works
        if work.kernel is Kernel.COPY and ("ordered", 1) in work.sizes
    ]


def test_every_gather_and_scatter_of_a_layer_has_a_copy_of_the_whole():
    made = copies(scenario("torchtitan"))
    assert len(made) >= 8 and BYTES in made
    slower = simulate(scenario("torchtitan")).documents["summary"]["step_time_s"]
    own = {"use": "torchtitan", "collective_copies": False}
    assert simulate(scenario(own)).documents["summary"]["step_time_s"] < slower


@pytest.mark.parametrize("framework", ["megatron-core", "ideal"])
def test_others_gather_in_place(framework):
    assert not copies(scenario(framework))


def test_collectives_in_chunks_need_no_copies():
    chunked = scenario("torchtitan", overlap={"tensor": {"chunks": 4, "reductions": "both"}})
    assert len(copies(chunked)) < len(copies(scenario("torchtitan"))) / 2
