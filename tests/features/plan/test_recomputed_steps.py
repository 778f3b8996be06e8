"""Steps with recomputed layers: the values of one device, and one forward more."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.simulation import simulate, verify
from tests.support.scenarios import scenario


@pytest.mark.combinations
@pytest.mark.parametrize(
    "written",
    [
        {"layers": "all", "collectives": False},
        {"layers": "all", "slice": True, "gathers": True},
        {"layers": [1, 2], "slice": True, "collectives": False},
        {"layers": 1, "operators": ["layers.*.mlp.*"], "collectives": False},
    ],
)
@pytest.mark.parametrize(
    ("recipe", "form"),
    [("megatron", {"mindspore": "level1", "min_bytes": "8 B"}), ("megatron_sp", {"zero": 3})],
)
def test_values(written, recipe, form):
    mesh = {"pipeline": 2, "data": 2, "tensor": 2}
    which = scenario(mesh, devices=8, recipe=recipe, optimizer_sharding=form, recompute=written)
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.parametrize("tensor", [1, 2])
def test_full_recomputation_takes_one_forward_more(tensor):
    """To the nanosecond: every kernel and collective of the layers' forward runs twice, one after another."""
    runs = {
        layers: simulate(scenario({"tensor": tensor}, devices=tensor, recompute=layers))
        for layers in ("none", "all")
    }
    spans = runs["none"].spans
    forward = [
        name.startswith("layers.") and action.startswith("F")
        for name, action in zip(
            np.array(spans.names["operator"])[spans["operator"]],
            np.array(spans.names["action"])[spans["action"]],
            strict=True,
        )
    ]
    once = int((spans["end"] - spans["start"])[np.array(forward) & (spans["class"] == 0)].sum())
    steps = {layers: run.documents["summary"]["step_time_s"] for layers, run in runs.items()}
    assert once > 0
    assert round((steps["all"] - steps["none"]) * 1e9) == once
