"""Steps with recomputed operators: the values of one device, and less memory."""

from __future__ import annotations

import pytest

from simcluster.simulation import simulate, verify
from tests.support.scenarios import TINY, TINY_GPT, scenario


def activations(**recompute):
    which = scenario({"data": 2}, micro_batches=1, recompute=recompute)
    return simulate(which).documents["summary"]["peak_memory_bytes"][0]["breakdown"]["activations"]


def test_memory_falls_by_what_is_dropped():
    """Flash attention keeps its output, 2 s b h bytes, and a row statistic in fp32 per head."""
    tokens = 8
    dropped = tokens * (2 * TINY["hidden"] + 4 * TINY["heads"])
    core = ["layers.*.attention.core"]
    assert activations() - activations(operators=core) == TINY["layers"] * dropped
    kept = activations(operators=core) + TINY["layers"] * tokens * 2 * TINY["hidden"]
    assert activations(operators=core, keep_outputs=core) == kept


@pytest.mark.combinations
@pytest.mark.parametrize(
    "operators",
    [
        ["layers.*.attention.core*"],
        ["layers.*.attention.*"],
        ["layers.*.*norm"],
        ["layers.1.mlp.{up*,activation}"],
        ["*"],
    ],
)
@pytest.mark.parametrize(
    ("mesh", "options"),
    [
        ({"data": 2, "tensor": 2}, {"recipe": "megatron_sp", "optimizer_sharding": "fsdp"}),
        ({"pipeline": 2, "tensor": 2}, {"model": TINY_GPT}),
    ],
)
def test_values(operators, mesh, options):
    again = {"operators": operators}
    if operators == ["layers.*.attention.core*"]:
        again["keep_outputs"] = operators
    found = verify(scenario(mesh, devices=4, recompute=again, **options))
    assert found.agrees, found.fault or found.first_difference
