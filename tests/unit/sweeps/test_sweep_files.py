"""What a journal belongs to: all that rows depend on, and nothing else."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.sweeps import SweepFile, SweepSpace, Variation, open_journal
from tests.support.scenario_texts import but

MODEL = "model: {layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 128, vocab: 256}"
SPACE = SweepSpace.of([Variation.parse("training.micro_batch=1,2")])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "plan.yaml").write_text(but(MODEL, "model: {hf: config.json}"))
    (tmp_path / "config.json").write_text("{}")
    with open_journal(
        SweepFile.of(tmp_path / "a.csv"), Scenario.load(tmp_path / "plan.yaml"), SPACE
    ) as journal:
        journal.add(0, {"fits": True})
    return tmp_path


def kept(folder, changes=(), space=SPACE, data=False):
    scenario = Scenario.load(folder / "plan.yaml", changes)
    if data:
        scenario = Scenario.of(scenario.document.data, folder)
    with open_journal(SweepFile.of(folder / "a.csv"), scenario, space) as journal:
        return journal.kept


def test_the_same_sweep_goes_on(folder):
    assert kept(folder) == {0: {"fits": True}}
    (folder / "plan.yaml").write_text("# written anew\n" + (folder / "plan.yaml").read_text())
    assert kept(folder) == {0: {"fits": True}}


def test_a_file_that_the_scenario_names_is_part_of_it(folder):
    (folder / "config.json").write_text('{"hidden_size": 64}')
    with pytest.raises(ScenarioError, match="another scenario"):
        kept(folder)


def test_changes_of_the_command_line_are_part_of_it(folder):
    with pytest.raises(ScenarioError, match="another scenario"):
        kept(folder, [("run.seed", "3")])


def test_values_are_part_of_it(folder):
    with pytest.raises(ScenarioError, match="another variation"):
        kept(folder, space=SweepSpace.of([Variation.parse("training.micro_batch=2,1")]))


def test_another_version_does_not_go_on(folder, monkeypatch):
    monkeypatch.setattr("simcluster.sweeps.sweep_files.__version__", "0.0.0")
    with pytest.raises(ScenarioError, match="another version of simcluster"):
        kept(folder)


def test_a_scenario_from_python_has_its_own(folder):
    with pytest.raises(ScenarioError, match="another scenario"):
        kept(folder, [("run.seed", "3")], data=True)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.csv.gz"])
def test_other_endings(name):
    with pytest.raises(ScenarioError, match="a sweep is written as"):
        SweepFile.of(name)
