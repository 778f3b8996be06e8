import json
from xml.etree import ElementTree

import pytest

from simcluster.baseline import Tolerances, check_formats
from simcluster.baseline.compare import CheckOutcome, outcome_of
from simcluster.baseline.measurement import ScenarioMeasurement
from simcluster.baseline.record import Record
from simcluster.baseline.report import CheckReport
from simcluster.errors import Problem, ScenarioError
from tests.unit.baseline.runs import made, slower

OLD = Record.of(made())
WRONG = ScenarioError(Problem("unknown key 'x|<b>\n::error::'", where="s/wrong.yaml:3:5"))


def outcome(key, run):
    return outcome_of(key, OLD, ScenarioMeasurement(Record.of(run)), Tolerances())


REPORT = CheckReport(
    "baseline.json",
    (),
    (
        outcome("s/same.yaml", made()),
        outcome("s/better.yaml", slower(0.5)),
        outcome("s/worse.yaml", slower(1.05)),
        CheckOutcome("s/wrong.yaml", OLD, error=WRONG),
        CheckOutcome("s/gone.yaml", OLD),
    ),
)


def rendered(kind):
    return check_formats()[kind].render(REPORT)


@pytest.mark.parametrize("kind", check_formats())
def test_every_format_names_what_fails_and_ends_with_a_newline(kind):
    text = rendered(kind)
    assert text.endswith("\n")
    for name in ("worse.yaml", "wrong.yaml", "gone.yaml"):
        assert name in text
    assert text == rendered(kind)


def test_json_has_every_scenario():
    read = json.loads(rendered("json"))
    assert read["passed"] is False
    assert {entry["scenario"]: (entry["status"], entry["fails"]) for entry in read["scenarios"]} == {
        "s/same.yaml": ("unchanged", False),
        "s/better.yaml": ("better", False),
        "s/worse.yaml": ("worse", True),
        "s/wrong.yaml": ("wrong", True),
        "s/gone.yaml": ("missing", True),
    }
    step = read["scenarios"][2]["drifts"][0]
    assert (step["figure"], step["old"], step["new"], step["judged"]) == ("step_time_s", 8.0, 8.4, True)


def test_junit_counts_and_marks():
    (suite,) = ElementTree.fromstring(rendered("junit"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "2", "1")
    marks = {case.get("name"): [child.tag for child in case] for case in suite}
    assert marks == {
        "s/same.yaml": [],
        "s/better.yaml": ["system-out"],
        "s/worse.yaml": ["failure"],
        "s/wrong.yaml": ["error"],
        "s/gone.yaml": ["failure"],
    }
    assert "step_time 8.00 s -> 8.40 s (+5.0 %), worse" in suite[2][0].text


def test_github_has_one_command_per_scenario_that_moved_and_no_other():
    lines = rendered("github").splitlines()
    assert [line.partition(" ")[0] for line in lines[:-1]] == ["::notice", "::error", "::error", "::error"]
    assert lines[2].startswith("::error file=s/wrong.yaml,title=simcluster check%3A wrong,line=3,col=5::")
    assert lines[1].endswith("%0Athe Program is the same: what it costs on this hardware changed")
    assert not lines[-1].startswith("::")


def test_markdown_shows_names_as_they_are():
    text = rendered("md")
    assert text.startswith("### simcluster check failed\n")
    assert "| s/worse.yaml | worse | step_time | 8.00 s | 8.40 s | +5.0 % |" in text
    assert r"'x\|\<b> ::error::'" in text
