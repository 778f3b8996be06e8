"""What hosts hold over time: by category, at the highest moment of every span."""

import numpy as np
import pytest

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES
from simcluster.analysis.memory_usage.host_memory_report import SPANS, HostMemory
from simcluster.report import report_page
from simcluster.simulation import simulate
from tests.support.html_page import Page
from tests.support.offload_scenarios import EVERYTHING, scenario


@pytest.fixture(scope="module")
def offloaded():
    away = EVERYTHING | {"optimizer_states": "disk"}
    return simulate(scenario(away, {"pipeline": 2, "data": 2}, optimizer_sharding={"zero": 3}))


def test_its_highest_moment_is_the_peak(offloaded):
    documents = offloaded.documents
    peaks, told = documents["summary"]["host_memory_bytes"], documents["host_memory"]
    assert [each["place"] for each in told] == [each["place"] for each in peaks] == ["host", "disk"]
    for peak, each in zip(peaks, told, strict=True):
        levels = np.array([*each["levels"].values()])
        assert levels.shape == (len(each["levels"]), SPANS)
        assert levels.sum(axis=0).max() == peak["total"]
        at = levels.sum(axis=0).argmax()
        held = {name: level[at] for name, level in each["levels"].items() if level[at]}
        assert held == {name: size for name, size in peak["breakdown"].items() if size}
        assert each["end_s"] == documents["summary"]["step_time_s"]


def test_before_anything_comes_there_is_nothing():
    """Eight bytes from the middle on, four of them for a quarter."""
    rows = [np.array(each) for each in ([500, 750], [1, 1], [8, -4], [8, 4])]
    told = HostMemory({"capacity": 8}, *rows).over_time(1000)
    half, quarter = SPANS // 2, SPANS // 4
    assert told["levels"] == {CATEGORIES[1]: [0] * half + [8] * quarter + [4] * quarter}


def test_a_host_without_anything_has_no_levels():
    nothing = np.array([], dtype=np.int64)
    host = HostMemory({"capacity": 8}, nothing, nothing, nothing, nothing)
    assert host.over_time(1000)["levels"] == {}
    assert host.peak()["total"] == 0


def test_it_is_drawn_by_category(offloaded):
    page = Page("".join(report_page(offloaded)))
    for each in offloaded.documents["host_memory"]:
        place = {"host": "memory", "disk": "disks"}[each["place"]]
        assert f"{place} of 1 x {each['host']}, each for 4 devices" in page.text


def test_without_offload_nothing_is_told_of_hosts():
    found = simulate(scenario())
    assert found.documents["host_memory"] == []
    assert "each for 1 device" not in Page("".join(report_page(found))).text
