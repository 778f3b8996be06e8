"""What a plan recomputes that is made small for values."""

from __future__ import annotations

import pytest

from tests.support.scenarios import TINY, scenario, shrunk


@pytest.mark.parametrize(
    ("written", "layers", "operators"),
    [
        ("all", "all", ()),
        (4, ("layers.0", "layers.1", "layers.2", "layers.3"), ()),
        (1, ("layers.0", "layers.2"), ()),
        ([4, 1], ("layers.0", "layers.1", "layers.2"), ()),
        ([[0, 3]], ("layers.2",), ()),
        (["layers.{3,7}"], ("layers.1", "layers.3"), ()),
        (
            {"layers": 1, "operators": ["layers.{3,5}.mlp.activation", "head.norm"]},
            ("layers.0", "layers.2"),
            ("layers.1.mlp.activation", "head.norm"),
        ),
        # Nothing that stands for something is recomputed.
        (["layers.1"], "none", ()),
    ],
)
def test_layers_stand_for_the_first_and_the_last_of_their_stage(written, layers, operators):
    small = shrunk(scenario({"pipeline": 2}, model={**TINY, "layers": 8}, recompute=written))
    found = small.scenario.spec.parallel.recompute
    assert (found.layers, found.operators) == (layers, operators)
