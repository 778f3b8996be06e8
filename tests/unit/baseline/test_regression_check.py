import json

import pytest

from simcluster.baseline import check
from simcluster.baseline.compare import CheckStatus
from simcluster.errors import ScenarioError
from tests.unit.baseline.runs import made, slower, write


def same(scenario):
    return made(name=scenario.name)


@pytest.fixture
def place(tmp_path):
    """Two scenarios with a baseline of theirs."""
    write(tmp_path / "s", "a", "b")
    check([tmp_path / "s"], tmp_path / "base.json", update=True, run=same)
    return tmp_path


def statuses(report):
    return {outcome.key: outcome.status for outcome in report.outcomes}


def test_nothing_changed(place):
    report = check([place / "s"], place / "base.json", run=same)
    assert statuses(report) == {"s/a.yaml": CheckStatus.SAME, "s/b.yaml": CheckStatus.SAME}
    assert report.passed
    assert "2 scenarios: 2 unchanged" in repr(report)
    assert "to accept" not in repr(report)


def test_by_default_everything_in_the_baseline_is_run(place):
    assert statuses(check(baseline=place / "base.json", run=same)) == {
        "s/a.yaml": CheckStatus.SAME,
        "s/b.yaml": CheckStatus.SAME,
    }


def test_a_regression_fails_and_is_explained(place):
    report = check([place / "s"], place / "base.json", run=lambda each: slower(1.05, name=each.name))
    assert not report.passed
    text = repr(report)
    assert "worse" in text
    for word in ("step_time", "8.00 s", "8.40 s", "+5.0 %", "0.1 %", "the Program is the same", "--update"):
        assert word in text


def test_an_improvement_passes_with_a_hint(place):
    report = check([place / "s"], place / "base.json", run=lambda each: slower(0.9, name=each.name))
    assert report.passed
    assert "to accept: simcluster check" in repr(report)


def test_new_and_missing_scenarios_are_named(place):
    write(place / "s", "c")
    (place / "s" / "a.yaml").unlink()
    report = check([place / "s"], place / "base.json", run=same)
    assert statuses(report) == {
        "s/b.yaml": CheckStatus.SAME,
        "s/c.yaml": CheckStatus.NEW,
        "s/a.yaml": CheckStatus.MISSING,
    }
    assert not report.passed
    assert "not in the baseline yet" in repr(report)
    assert "there is no such file" in repr(report)
    assert check(baseline=place / "base.json", run=same).outcomes[-1].status is CheckStatus.MISSING


def test_a_scenario_without_a_record_fails_unless_it_may_be_new(place):
    write(place / "s", "c")
    report = check([place / "s"], place / "base.json", run=same)
    assert not report and "--allow-new" in repr(report)
    report = check([place / "s"], place / "base.json", allow_new=True, run=same)
    assert report and "--allow-new" not in repr(report)
    assert statuses(report)["s/c.yaml"] is CheckStatus.NEW


def test_a_broken_bound_is_not_unchanged(place):
    write(place / "s", "a", extra="expect: {step_time: {max: 7.5 s}}\n")
    report = check([place / "s"], place / "base.json", run=same)
    assert statuses(report) == {"s/a.yaml": CheckStatus.OUT_OF_BOUNDS, "s/b.yaml": CheckStatus.SAME}
    assert not report
    assert "2 scenarios: 1 out of bounds, 1 unchanged" in repr(report)
    assert "to accept" not in repr(report)


def test_worse_comes_before_out_of_bounds(place):
    write(place / "s", "a", extra="expect: {step_time: {max: 7.5 s}}\n")
    report = check([place / "s"], place / "base.json", run=lambda each: slower(1.5, name=each.name))
    assert statuses(report) == {"s/a.yaml": CheckStatus.WORSE, "s/b.yaml": CheckStatus.WORSE}
    assert "2 scenarios: 2 worse; 1 of the worse also out of bounds" in repr(report)
    assert "step_time is 12.0 s, expected at most 7.50 s" in repr(report)


def test_what_was_not_asked_for_is_not_missing(place):
    report = check([place / "s" / "a.yaml"], place / "base.json", run=same)
    assert report.passed
    assert "1 more in" in repr(report)


def test_update_keeps_what_was_not_asked_for_and_drops_what_is_gone(place):
    write(place / "t", "c")
    report = check([place / "t"], place / "base.json", update=True, run=same)
    assert report.written and report.passed
    assert "added to the baseline" in repr(report)
    assert list(json.loads((place / "base.json").read_text())["scenarios"]) == [
        "s/a.yaml",
        "s/b.yaml",
        "t/c.yaml",
    ]
    (place / "s" / "a.yaml").unlink()
    check([place / "s"], place / "base.json", update=True, run=lambda each: slower(2.0, name=each.name))
    found = json.loads((place / "base.json").read_text())["scenarios"]
    assert list(found) == ["s/b.yaml", "t/c.yaml"]
    assert found["s/b.yaml"]["metrics"]["step_time_s"] == 16.0
    assert found["t/c.yaml"]["metrics"]["step_time_s"] == 8.0


def test_an_update_accepts_what_moved_but_not_broken_bounds(place):
    write(place / "s", "a", extra="expect: {step_time: {max: 10}}\n")
    report = check(
        [place / "s"], place / "base.json", update=True, run=lambda each: slower(2.0, name=each.name)
    )
    assert report.written and not report.passed
    assert "step_time is 16.0 s, expected at most 10.0 s" in repr(report)


def test_a_wrong_scenario_is_part_of_the_report_and_stops_an_update(place):
    (place / "s" / "b.yaml").write_text("simcluster: 1\nname: [\n")
    before = (place / "base.json").read_bytes()
    report = check(
        [place / "s"], place / "base.json", update=True, run=lambda each: slower(2.0, name=each.name)
    )
    assert statuses(report) == {"s/a.yaml": CheckStatus.WORSE, "s/b.yaml": CheckStatus.WRONG}
    assert not report.passed and not report.written
    assert (place / "base.json").read_bytes() == before
    assert "b.yaml:3:1" in repr(report)
    assert "b.yaml:3:1" not in report.text(errors=False)


def test_a_wrong_bound_is_a_wrong_scenario(place):
    write(place / "s", "a", extra="expect: {fast: {max: 10}}\n")
    report = check([place / "s"], place / "base.json", run=same)
    (outcome,) = report.wrong
    assert str(outcome.error).startswith(str(place / "s" / "a.yaml"))


def test_a_missing_baseline_names_the_command_that_makes_it(tmp_path):
    write(tmp_path / "my s", "a")
    with pytest.raises(ScenarioError, match="there is no such baseline") as caught:
        check([tmp_path / "my s"], tmp_path / "base.json", run=same)
    assert f"simcluster check '{tmp_path}/my s' --baseline {tmp_path}/base.json --update" in str(caught.value)
    with pytest.raises(ScenarioError, match="create it: simcluster check scenarios --baseline"):
        check(baseline=tmp_path / "base.json", update=True, run=same)


def test_wrong_tolerances_are_found_before_anything_runs(place):
    def never(scenario):
        raise AssertionError

    with pytest.raises(ScenarioError, match="step_tme"):
        check([place / "s"], place / "base.json", "step_tme=1%", run=never)


def test_the_default_really_simulates(tmp_path):
    write(tmp_path, "a")
    assert check([tmp_path], tmp_path / "base.json", update=True).written
    assert check([tmp_path], tmp_path / "base.json", "0%").passed


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_text_keeps_to_its_width(place, width):
    report = check(
        [place / "s"], place / "base.json", run=lambda each: slower(1.05, name=each.name, idle_s=1.0)
    )
    body = report.text(width=width).split("\n\n")[0]
    assert all(len(line) <= width for line in body.splitlines())
    assert "\033" not in body
    assert "\033" in report.text(width=width, colour=True)
