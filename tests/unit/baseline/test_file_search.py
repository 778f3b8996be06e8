import pytest

from simcluster.baseline.file_search import scenario_files
from simcluster.errors import ScenarioError
from tests.unit.baseline.runs import write


def test_folders_are_searched_for_scenarios(tmp_path):
    write(tmp_path, "b", "a")
    write(tmp_path / "deeper", "c")
    write(tmp_path / ".hidden", "d")
    (tmp_path / "other.yaml").write_text("services: {web: {}}\n")
    (tmp_path / "notes.txt").write_text("simcluster: 1\n")
    (tmp_path / "broken.yml").write_text("simcluster: 1\nname: [\n")
    found = [path.relative_to(tmp_path).as_posix() for path in scenario_files([tmp_path])]
    assert found == ["a.yaml", "b.yaml", "broken.yml", "deeper/c.yaml"]


def test_files_are_taken_as_they_are_and_once(tmp_path):
    write(tmp_path, "a")
    (tmp_path / "plain.txt").write_text("")
    named = [tmp_path / "plain.txt", tmp_path / "none.yaml", tmp_path / "a.yaml", tmp_path]
    assert scenario_files(named) == named[:3]


def test_a_folder_without_scenarios_is_an_error(tmp_path):
    with pytest.raises(ScenarioError, match="no scenario in this folder"):
        scenario_files([tmp_path])
