"""What a step puts on the network: sums, closed forms, folded as unfolded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.h100_scenarios import h100

SCENARIOS = Path(__file__).parents[3] / "scenarios"
PLANS = {
    "servers": Scenario.load(SCENARIOS / "wide-deep-8-ascend-910-servers.yaml"),
    "unequal parts": Scenario.load(SCENARIOS / "manual-halo-exchange-4-ascend-910.yaml"),
    "tensor": h100({"tensor": 8}),
    "data": h100({"data": 16}, micro_batches=2, optimizer_sharding={"zero": 1}),
    "pipeline": h100({"pipeline": 4, "data": 2, "tensor": 2}, recipe="megatron_sp"),
}


@pytest.fixture(params=PLANS)
def run(request):
    return simulate(PLANS[request.param])


def test_ranks_send_what_the_summary_says(run):
    traffic, summary = run.documents["traffic"], run.documents["summary"]
    sent = sum(sum(operations.values()) for operations in summary["communication_bytes"].values())
    matrix = np.array(traffic["matrix"], dtype=np.float64)
    assert matrix.sum() == pytest.approx(sent * summary["num_ranks"], rel=1e-6)
    assert traffic["ranks_per_cell"] == 1 and not np.diag(matrix).any()


def test_links_of_devices_carry_what_ranks_send():
    traffic = simulate(PLANS["tensor"]).documents["traffic"]
    matrix = np.array(traffic["matrix"], dtype=np.float64)
    (link,) = [link for link in traffic["links"] if link["name"] == "host.*.device.*.nvlink.out"]
    assert link["used"] == 8 and link["bytes_max"] == pytest.approx(matrix.sum(axis=1).max(), rel=1e-5)
    assert link["bytes_mean"] == pytest.approx(matrix.sum() / 8, rel=1e-5)


def test_shares_are_bytes_over_rate_and_step(run):
    step = run.documents["summary"]["step_time_s"]
    for link in run.documents["traffic"]["links"]:
        assert link["share_max"] == pytest.approx(link["bytes_max"] / link["rate"] / step)
        assert 0 < link["bytes_mean"] <= link["bytes_max"] and link["share_max"] <= 1


def test_every_rank_by_itself_sends_as_its_class():
    unfolded = simulate(PLANS["pipeline"], unfold=True).documents["traffic"]
    folded = simulate(PLANS["pipeline"]).documents["traffic"]
    assert unfolded["matrix"] == folded["matrix"]
    assert [link["name"] for link in unfolded["links"]] == [link["name"] for link in folded["links"]]
    for one, other in zip(unfolded["links"], folded["links"], strict=True):
        assert one["bytes_max"] == pytest.approx(other["bytes_max"])


def test_many_ranks_share_a_cell():
    run = simulate(h100({"pipeline": 2, "data": 16, "tensor": 4}, micro_batches=2))
    traffic, summary = run.documents["traffic"], run.documents["summary"]
    sent = sum(sum(operations.values()) for operations in summary["communication_bytes"].values())
    assert traffic["ranks_per_cell"] == 2 and len(traffic["matrix"]) == 64
    assert np.sum(traffic["matrix"]) == pytest.approx(sent * 128, rel=1e-6)


def test_drawn_lines_join_drawn_boxes(run):
    drawings = run.documents["traffic"]["drawings"]
    assert drawings[0]["title"] == "host 0"
    used = 0
    for drawing in drawings:
        boxes = {box[0] for row in drawing["rows"] for box in row["boxes"]}
        for one, other, title, _, use in drawing["lines"]:
            used += one in boxes and other in boxes and use > 0
            assert "of the step" in title
    assert used


def test_one_rank_sends_nothing():
    alone = Scenario.load(SCENARIOS / "zero-offload-10b-1-v100.yaml")
    assert "traffic" not in simulate(alone).documents
