from __future__ import annotations

import numpy as np
import pytest

from simcluster.report.terminal.layouts import layouts_text
from simcluster.simulation import build_scenario
from simcluster.simulation.run_scenario import simulate
from simcluster.simulation.views.operator_layouts import layouts_document
from tests.support.covering import quick_at
from tests.support.scenarios import TINY, scenario, under

MESH = {"pipeline": 2, "data": 2}


def buckets_of(**switches):
    which = under(scenario(MESH, model=TINY, micro_batches=2), **switches)
    return which, [
        each for each in layouts_document(build_scenario(which)) if each["block"] == "gradient buckets"
    ]


def test_without_buckets_there_are_none():
    assert buckets_of()[1] == []


@pytest.mark.parametrize("limit", quick_at([None, {"bytes": "4 kB"}], 1))
def test_buckets_stand_behind_the_blocks_as_they_travel(limit):
    """What the layouts list is what the trace has: every collective of a bucket, with its bytes."""
    which, found = buckets_of(reduction={"bucket": "whole", "limit": limit})
    listed = sorted(
        (node["name"], node["bytes"]) for block in found for _ in block["names"] for node in block["nodes"]
    )
    spans = simulate(which).spans
    names = spans.text("operator")
    mine = np.array(["bucket." in name for name in names]) & (spans.text("kind") == "collective")
    assert listed
    assert listed == sorted(zip(names[mine].tolist(), spans["bytes"][mine].tolist(), strict=True))
    text = layouts_text(layouts_document(build_scenario(which)))
    assert "gradients travel together, once per step" in text
