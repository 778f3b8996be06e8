import json
from pathlib import Path

import pytest

from simcluster.baseline.record import Record, key_of, load, save
from simcluster.errors import ScenarioError
from tests.unit.baseline.runs import made


def test_a_file_is_read_as_it_was_written(tmp_path):
    records = {"b.yaml": Record.of(made()), "a.yaml": Record.of(made(fits=False, mfu=1e-7, num_ranks=2**40))}
    save(tmp_path / "base.json", records)
    assert load(tmp_path / "base.json") == records
    first = (tmp_path / "base.json").read_bytes()
    save(tmp_path / "base.json", load(tmp_path / "base.json"))
    assert (tmp_path / "base.json").read_bytes() == first


def test_a_file_is_made_for_diffs(tmp_path):
    save(tmp_path / "base.json", {"b.yaml": Record.of(made()), "a.yaml": Record.of(made())})
    lines = (tmp_path / "base.json").read_text().splitlines()
    assert list(json.loads("\n".join(lines))["scenarios"]) == ["a.yaml", "b.yaml"]
    assert '        "num_ranks": 256,' in lines
    assert '        "step_time_s": 8.0,' in lines


RECORD = """\
{"simcluster_baseline": 1,
 "scenarios": {"a": {"name": "n", "program": "p", "fits": %s, "metrics": {"mfu": %s}}}}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("{", "found the end of the file"),
        ("[]", "the file holds a list"),
        ('{"simcluster_baseline": 2, "scenarios": {}}', "2 is not accepted; write 1"),
        ('{"scenarios": {}}', "'simcluster_baseline' is missing"),
        (RECORD % ("1", "1"), "1 is a number; write true or false"),
        (RECORD % ("true", '"x"'), "'x' is text"),
        ("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> branch\n", "base.json:1:1"),
    ],
)
def test_a_file_that_is_no_baseline_is_an_error_with_its_place(tmp_path, text, message):
    (tmp_path / "base.json").write_text(text)
    with pytest.raises(ScenarioError, match=message) as caught:
        load(tmp_path / "base.json")
    assert str(tmp_path / "base.json") in str(caught.value)


def test_scenarios_are_named_from_the_folder_of_the_baseline(tmp_path, monkeypatch):
    (tmp_path / "ci").mkdir()
    (tmp_path / "scenarios").mkdir()
    monkeypatch.chdir(tmp_path / "scenarios")
    for scenario in (Path("a.yaml"), tmp_path / "scenarios" / "a.yaml", Path("../scenarios/a.yaml")):
        assert key_of(scenario, Path("../ci/base.json")) == "../scenarios/a.yaml"
        assert key_of(scenario, tmp_path / "base.json") == "scenarios/a.yaml"
