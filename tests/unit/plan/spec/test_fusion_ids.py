from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import PlanError
from simcluster.plan.spec.communication_fusion import FusionIdSpec, fusion_ids

NAMES = ["embedding.tokens.weight", *(f"layers.{i}.mlp.{part}.weight" for i in range(12) for part in "ab")]


def ids(*entries):
    return fusion_ids([validate_data(each, FusionIdSpec) for each in entries], NAMES)


def test_later_entries_win_and_the_usual_id_is_not_listed():
    found = ids(
        {"match": "layers.*", "id": 2}, {"match": "*.a.weight", "id": 0}, {"match": "layers.3.*", "id": 1}
    )
    assert found == {
        name: 0 if ".a." in name else 2
        for name in NAMES
        if name.startswith("layers") and not name.startswith("layers.3.")
    }


def test_a_pattern_without_a_parameter_names_the_nearest():
    with pytest.raises(PlanError) as caught:
        ids(
            {"match": "embedding.*", "id": 2},
            {"match": "layers.*.mlp.bb.weight", "id": 2},
            {"match": "x", "id": 0},
        )
    first, second = caught.value.problems
    assert first.path == "parallel.fusion.ids.1.match"
    assert first.hint == "did you mean 'layers.*.mlp.b.weight'?"
    assert second.path == "parallel.fusion.ids.2.match"
