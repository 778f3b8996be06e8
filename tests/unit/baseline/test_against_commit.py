import subprocess

import pytest

from simcluster.baseline import check
from simcluster.baseline.compare import CheckStatus
from simcluster.errors import ScenarioError
from tests.unit.baseline.runs import made, slower, write


def git(folder, *arguments):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)


def by_batch(scenario):
    """A run that takes longer the more samples a step has."""
    return slower(scenario.spec.training.global_batch / 2, name=scenario.name)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a commit of two scenarios, in its folder."""
    write(tmp_path / "s", "a", "b")
    git(tmp_path, "init", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def statuses(report):
    return {outcome.key: outcome.status for outcome in report.outcomes}


def test_both_sides_are_run_and_nothing_in_the_checkout_changes(repository):
    text = (repository / "s" / "a.yaml").read_text()
    (repository / "s" / "a.yaml").write_text(text.replace("global_batch: 2", "global_batch: 4"))
    write(repository / "s", "c")
    (repository / "s" / "b.yaml").unlink()
    before = subprocess.check_output(["git", "status", "--porcelain"])
    index = (repository / ".git" / "index").read_bytes()
    report = check("s", against="main", run=by_batch)
    assert statuses(report) == {
        "s/a.yaml": CheckStatus.WORSE,
        "s/c.yaml": CheckStatus.NEW,
        "s/b.yaml": CheckStatus.MISSING,
    }
    assert not report.passed
    assert "changed in the file: training.global_batch: 2 -> 4" in repr(report)
    assert "3 scenarios, against main (" in repr(report)
    assert subprocess.check_output(["git", "status", "--porcelain"]) == before
    assert (repository / ".git" / "index").read_bytes() == index
    assert not list((repository / ".git").glob("worktrees/*"))


def test_a_file_that_did_not_change_is_run_once(repository):
    """Unless it names a file that may have changed."""
    runs = []

    def counted(scenario):
        runs.append(scenario.name)
        return by_batch(scenario)

    assert check("s", against="main", run=counted).passed
    assert sorted(runs) == ["a", "b"]
    (repository / "s" / "own.yaml").write_text((repository / "s" / "b.yaml").read_text())
    text = (repository / "s" / "a.yaml").read_text()
    (repository / "s" / "a.yaml").write_text(text.replace("name: a", "name: own.yaml"))
    git(repository, "commit", "-am", "names a file")
    runs.clear()
    assert check("s/a.yaml", against="main", run=counted).passed
    assert runs == ["own.yaml", "own.yaml"]


def test_what_only_one_side_has_passes(repository):
    write(repository / "s", "c")
    (repository / "s" / "b.yaml").unlink()
    report = check("s", against="main", run=by_batch)
    assert report.passed
    assert "not in main: nothing to compare it with" in repr(report)
    assert "main has it, but there is no such file here" in repr(report)
    assert statuses(check("s/b.yaml", against="main", run=by_batch)) == {"s/b.yaml": CheckStatus.MISSING}


def test_a_commit_whose_file_cannot_be_run_is_said(repository):
    text = (repository / "s" / "a.yaml").read_text()
    (repository / "s" / "a.yaml").write_text(text + "wrong: 1\n")
    git(repository, "commit", "-am", "broken")
    (repository / "s" / "a.yaml").write_text(text)
    report = check("s", against="HEAD", run=by_batch)
    assert report.passed
    assert "at HEAD it cannot be run" in repr(report)


def test_what_a_change_of_settings_does_is_the_same_on_both_sides(repository):
    report = check("s", against="main", changes=[("training.global_batch", "8")], run=by_batch)
    assert set(statuses(report).values()) == {CheckStatus.SAME}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenarios": "s", "against": "nowhere"}, "the repository has no such commit"),
        ({"scenarios": "s", "against": "--help"}, "the repository has no such commit"),
        ({"against": "main"}, "say which scenarios"),
        ({"scenarios": "none.yaml", "against": "main"}, None),
        ({"scenarios": "s", "against": "main", "baseline": "b.json"}, "give one of them"),
    ],
)
def test_refusals(repository, arguments, message):
    if message is None:
        (outcome,) = check(**arguments, run=by_batch).wrong
        assert "there is no such file" in str(outcome.error)
    else:
        with pytest.raises(ScenarioError, match=message):
            check(**arguments, run=by_batch)


def test_outside_of_a_repository(tmp_path):
    write(tmp_path / "s", "a")
    with pytest.raises(ScenarioError, match="git rev-parse: "):
        check(tmp_path / "s", against="main", run=lambda scenario: made())
