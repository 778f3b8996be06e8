"""Vision transformers as whole scenarios: lengths that are refused, classes, values."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.simulation import verify
from simcluster.simulation.compose.build import build_scenario
from tests.support.scenarios import scenario

WRITTEN = {"family": "vit", "layers": 2, "hidden": 16, "heads": 4, "image": 12, "patch": 4, "classes": 6}


def test_another_length_is_refused_with_the_arithmetic():
    with pytest.raises(PlanError) as caught:
        build_scenario(scenario({"data": 2}, model=WRITTEN))
    (problem,) = caught.value.problems
    assert problem.path == "training.seq_len"
    assert problem.message == "image 12 / patch 4 = 3: 3 x 3 patches and a class token are 10 tokens, not 8"


def test_a_length_that_ranks_cannot_share_is_refused():
    wanted = scenario({"tensor": 4}, model=WRITTEN, training={"seq_len": 10}, recipe="megatron_sp")
    with pytest.raises(PlanError, match=r"seq 10 does not divide over tensor 4: 10 / 4 = 2\.5"):
        build_scenario(wanted)


def test_classes_are_not_padded():
    built = build_scenario(scenario({"tensor": 4}, model=WRITTEN, training={"seq_len": 10}))
    assert built.plan.graph.blocks["head"].values["logits.weight"].type.shape == (16, 6)
    assert not any("padded" in note for note in built.plan.notes)


def test_a_large_one_verifies_in_its_small_form():
    wanted = scenario(
        {"data": 2, "tensor": 2}, model={"use": "vit-l16"}, training={"seq_len": 197}, recipe="megatron"
    )
    assert verify(wanted).agrees
