"""Fully sharded weights and their gradients are copied besides being moved, where the framework does so."""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from simcluster.work import Kernel

LAYER = 4 * 256 * 256 + 2 * 256 * 512
"""Weights of the matmuls of a layer."""


def program(framework, precision="bf16", **parallel):
    scenario = Scenario.of(
        {
            "simcluster": 1,
            "name": "small",
            "cluster": {"use": "dgx-h100", "hosts": 1},
            "framework": framework,
            "model": {
                "family": "gpt", "layers": 2, "hidden": 256, "heads": 8, "vocab": 1024, "ffn": 512,
                "bias": False, "max_positions": 128,
            },
            "training": {"global_batch": 8, "micro_batch": 1, "seq_len": 128, "precision": precision},
            "parallel": {"mesh": {"data": 8}, "recipe": "fsdp", **parallel},
        }
    )  # fmt: skip
    return build_scenario(scenario).program


def copied(made, phase):
    """Bytes that copies of the matmuls' weights move in a layer's phase."""
    codes = [code for code in made.codes if code.name.startswith("layer") and code.name.endswith(phase)]
    return sum(
        work.bytes_moved
        for instruction in codes[0].instructions
        for work in instruction.works
        if work.kernel is Kernel.COPY and ("ordered", 1) in work.sizes and work.bytes_moved > 4096
    )


@pytest.mark.parametrize(
    "framework, precision, forward, backward",
    [
        # Put together (2 + 2), cast (2 + 4), divided (4 + 4); the product writes 2 instead of 4.
        ("fsdp", "bf16", 0, 4 + 6 + 8 - 2),
        # Put together and divided in fp32.
        ("fsdp", "fp32", 0, 8 + 8),
        # What is gathered is copied (2 + 2), in both passes; gradients are copied and cast (2 + 4), less 2.
        ("torchtitan", "bf16", 4, 4 + 6 - 2),
        ("megatron-core", "bf16", 0, 0),
    ],
)
def test_bytes_of_a_weight_that_copies_move(framework, precision, forward, backward):
    made = program(framework, precision)
    assert copied(made, ".forward") == forward * LAYER
    assert copied(made, ".backward") == backward * LAYER


def test_checkpoints_of_fsdp_stop_where_the_backward_has_what_it_needs():
    def products(framework):
        [backward, *_] = [
            code
            for code in program(framework, recompute={"layers": "all"}).codes
            if code.name.startswith("layer") and code.name.endswith(".backward")
        ]
        return [name for name in (each.name for each in backward.instructions) if "mlp.down" in name]

    assert "mlp.down.recompute" in products({"use": "fsdp", "recompute": "whole"})
    assert "mlp.down.recompute" not in products("fsdp")
