"""A journal keeps what was written, whole lines only, and knows what it belongs to."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.workers import Journal

WORK = {"scenario": "a1", "variation": [["x", [1, 2]]]}


def written(path, *entries):
    with Journal(path, WORK) as journal:
        for index, result in entries:
            journal.add(index, result)


def test_results_outlive_the_process(tmp_path):
    path = tmp_path / "j"
    written(path, (3, {"step": 0.1}), (0, None))
    with Journal(path, WORK) as journal:
        assert journal.kept == {3: {"step": 0.1}, 0: None}
        journal.add(1, "ü\u2028\n")
    with Journal(path, WORK) as journal:
        assert journal.kept[1] == "ü\u2028\n"
        journal.remove()
    assert not path.exists()


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_torn_line_is_forgotten(tmp_path, cut):
    path = tmp_path / "j"
    written(path, (0, "zero"), (1, "one €"))
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal(path, WORK) as journal:
        assert journal.kept == {0: "zero"}
        journal.add(1, "again")
    with Journal(path, WORK) as journal:
        assert journal.kept == {0: "zero", 1: "again"}


def test_to_begin_anew_forgets_everything(tmp_path):
    path = tmp_path / "j"
    written(path, (0, 1))
    with Journal(path, WORK, restart=True) as journal:
        assert journal.kept == {}
        journal.add(2, 3)
    with Journal(path, WORK) as journal:
        assert journal.kept == {2: 3}


def test_a_torn_head_begins_anew(tmp_path):
    path = tmp_path / "j"
    path.write_text('{"journal": "simcl')
    written(path, (0, 1))
    with Journal(path, WORK) as journal:
        assert journal.kept == {0: 1}


def test_other_work_is_refused_unless_it_begins_anew(tmp_path):
    path = tmp_path / "j"
    written(path, (0, 1))
    with pytest.raises(ScenarioError, match="1 result is kept") as refused:
        Journal(path, WORK | {"scenario": "b2"})
    assert "another scenario" in str(refused.value)
    assert "--restart" in str(refused.value)
    with Journal(path, WORK | {"scenario": "b2"}, restart=True) as journal:
        assert journal.kept == {}


@pytest.mark.parametrize(
    "content", ["a,b\n1,2\n", "{}\n", "[1]\n", '{"journal": "simcluster journal 1"}\nx\n']
)
def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "j"
    path.write_text(content)
    with pytest.raises(ScenarioError, match="not a journal"):
        Journal(path, WORK, restart=True)
    assert path.read_text() == content


def test_one_with_nothing_in_it_is_deleted(tmp_path):
    with Journal(tmp_path / "j", WORK):
        assert (tmp_path / "j").exists()
    assert not (tmp_path / "j").exists()


def test_two_at_once_are_refused(tmp_path):
    path = tmp_path / "j"
    with Journal(path, WORK), pytest.raises(ScenarioError, match="another process"):
        Journal(path, WORK)
    Journal(path, WORK).__exit__(None, None, None)
