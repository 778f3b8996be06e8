import pytest

from simcluster.baseline import Bound, bounds, judged
from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from tests.unit.baseline.runs import made, write


def scenario(tmp_path, expect):
    write(tmp_path, "a", extra=f"expect: {expect}\n")
    return Scenario.load(tmp_path / "a.yaml")


def test_bounds_by_either_name(tmp_path):
    found = bounds(scenario(tmp_path, "{step_time: {max: 9}, peak_memory_bytes_max: {min: 1}}"))
    assert list(found) == ["step_time_s", "peak_memory_bytes_max"]


def test_wrong_names_point_into_the_file(tmp_path):
    with pytest.raises(ScenarioError) as caught:
        bounds(scenario(tmp_path, "{step_tme: {max: 9}, mfu: {min: 0}, fast: {min: 1}}"))
    text = str(caught.value)
    assert "a.yaml:7:10: no figure is called 'step_tme'; did you mean 'step_time'?" in text
    assert "'fast'" in text


def test_one_figure_under_two_names(tmp_path):
    with pytest.raises(ScenarioError, match="'step_time' and 'step_time_s' are one figure"):
        bounds(scenario(tmp_path, "{step_time: {max: 9}, step_time_s: {max: 8}}"))


def test_figures_are_held_against_their_bounds(tmp_path):
    expect = "{step_time: {max: 8}, mfu: {min: 0.41}, peak_memory: {min: 1e9, max: 2e9}}"
    time, mfu, memory = judged(scenario(tmp_path, expect), made())
    assert time.holds
    assert not mfu.holds
    assert not memory.holds
    assert str(mfu) == "mfu is 40.0 %, expected at least 41.0 %"
    assert str(memory) == "peak_memory is 40.0 GiB, expected at least 0.931 GiB and at most 1.86 GiB"


def test_bounds_are_included():
    assert Bound("mfu", 0.4, 0.4, 0.4).holds
    assert not Bound("mfu", 0.4, None, 0.3999).holds
