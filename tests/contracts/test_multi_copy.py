"""Copies that go abreast compute what one device computes, with every schedule and option, pairwise; and what
they hide follows from the times of kernels and collectives.
"""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, verify
from tests.support.covering import covering, thorough_but_few
from tests.support.pipeline_scenarios import KINDS, OPTIONS, label, possible, scenario

FEW = {
    **OPTIONS,
    "stages": [1, 2],
    "micro_batches": [1, 3],
    "model": ["llama", "gpt, tied"],
    "sharding": [None, {"zero": 1}, {"zero": 3}],
    "beside": [{"tensor": 2}, {"data": 2}, {"data": 2, "tensor": 2}],
    "recipe": ["megatron", "megatron_sp"],
    "copies": [2, 3],
}
ROWS = list(map(possible, covering({"schedule": KINDS, **FEW}, small=("stages", "micro_batches", "copies"))))


def copied(row) -> Scenario:
    """The scenario of a row, each of its micro-batches in copies of one sample."""
    which = scenario({"kind": row["schedule"]}, row)
    data = which.spec.model_dump(mode="json", exclude_unset=True)
    training, copies = data["training"], row["copies"]
    data["training"] |= {"micro_batch": copies, "global_batch": training["global_batch"] // 2 * copies}
    data["parallel"] |= {"copies": copies}
    if "tensor" in row["beside"]:
        data["parallel"]["recipe"] = row["recipe"]
    return Scenario.of(data)


@pytest.mark.parametrize("row", thorough_but_few(ROWS, ["schedule"]), ids=label)
def test_copies_compute_what_one_device_computes(row):
    which = copied(row)
    found = verify(which)
    assert found.agrees, f"{row}: {found.fault or found.first_difference}"
    plan = build_scenario(which).plan
    assert plan.pipeline.micro_batch_interleave == row["copies"]
    samples = plan.num_micro_batches * plan.pipeline.micro_batch * plan.placement.batch_ways
    assert samples == which.spec.training.global_batch
    assert all(len(action.parts) % row["copies"] == 0 for actions in plan.timetable for action in actions)
