"""Slices of sequences have in common what outlives a micro-batch, wherever it lies."""

from __future__ import annotations

import pytest

from simcluster.errors import SimclusterError
from simcluster.simulation import build_scenario, verify
from tests.support.covering import quick
from tests.support.offload_scenarios import CATEGORIES
from tests.support.scenarios import scenario


def sliced(sharding, offload):
    return scenario(
        {"pipeline": 2, "data": 2},
        host="dgx-h100",
        schedule="seqpipe",
        optimizer_sharding=sharding,
        offload=offload,
    )


@pytest.mark.combinations
@pytest.mark.parametrize("rule", [{"fraction": 0.5}, {"match": ["layers.*.mlp.*"]}], ids=str)
@pytest.mark.parametrize(
    "category",
    quick(CATEGORIES, "gradients"),
)
def test_a_part_of_it_is_the_same_part_for_all_slices(category, rule):
    found = verify(sliced("fsdp", {category: {"to": "host", **rule}}))
    assert found.agrees, found.fault or found.first_difference


def test_gradients_that_are_reduced_once_stay_for_all_slices():
    """Only the first slice reduces them; those of the others would have left, and be missing there."""
    with pytest.raises(SimclusterError, match="matches nothing of gradients that can be offloaded"):
        build_scenario(sliced({"zero": 1}, {"gradients": "host"}))
