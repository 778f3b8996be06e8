import pickle

import pytest

from simcluster.document import Document
from simcluster.errors import PlanError, Problem, ScenarioError

TEXT = """\
simcluster: 1
parallel:
  mesh: {data: 8, tensor: 2}
  strategies:
    - match: a
      split: {heads: tensor}
    - {match: "layers.*.b", split: {}}
  weights: {8: 0.5, x.y: {z: 1}, true: 2}
  empty:
base: &base {lr: 1}
copy: *base
merged: {<<: *base, more: 2}
"""


@pytest.fixture
def document():
    return Document.parse(TEXT, "demo.yaml")


def test_data_and_lines(document):
    assert document.name == "demo.yaml"
    assert document.lines == tuple(TEXT.splitlines())
    assert document.data["parallel"]["strategies"][1] == {"match": "layers.*.b", "split": {}}
    assert document.data["merged"] == {"lr": 1, "more": 2}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("simcluster", "1:13"),
        ("parallel", "2:1"),
        ("parallel.mesh", "3:3"),
        ("parallel.mesh.tensor", "3:27"),
        ("parallel.strategies", "4:3"),
        ("parallel.strategies.0", "5:7"),
        ("parallel.strategies.0.match", "5:14"),
        ("parallel.strategies.0.split", "6:7"),
        ("parallel.strategies.1.match", "7:15"),
        ("parallel.weights.8", "8:16"),
        ("parallel.weights.x.y.z", "8:30"),
        ("parallel.weights.true", "8:40"),
        ("parallel.empty", "9:3"),
        ("copy", "11:1"),
        ("merged.lr", "10:18"),
        ("merged.more", "12:27"),
        # what is not there: its deepest ancestor
        ("parallel.mesh.pipeline", "3:3"),
        ("parallel.strategies.7.match", "4:3"),
        ("parallel.strategies.0.split.seq.x", "6:7"),
        ("simcluster.x", "1:13"),
        ("nothing", "1:1"),
        ("", "1:1"),
    ],
)
def test_where(document, path, place):
    assert document.where(path) == f"demo.yaml:{place}"


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(document, tmp_path):
    file = tmp_path / "demo.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    read = Document.read(file)
    assert read.data == document.data
    assert read.lines == document.lines
    assert read.where("parallel.mesh.tensor") == f"{file}:3:27"


def test_located_fills_in_places_and_lines(document):
    error = PlanError(
        Problem("data 8 x tensor 2 = 16, but 24 devices", path="parallel.mesh.tensor", hint="use tensor: 3"),
        Problem("no stages", path="parallel.schedule.stages"),
        Problem("nowhere to point"),
        Problem("already placed", where="other.yaml:1:1"),
        Problem("at the top", path="job"),
    )
    located = document.located(error)
    assert isinstance(located, PlanError)
    assert str(located) == (
        "demo.yaml:3:27: data 8 x tensor 2 = 16, but 24 devices; use tensor: 3\n"
        "    3 |   mesh: {data: 8, tensor: 2}\n"
        "      |                           ^\n"
        "demo.yaml:2:1: parallel.schedule.stages: no stages\n"
        "    2 | parallel:\n"
        "      | ^\n"
        "demo.yaml: nowhere to point\n"
        "other.yaml:1:1: already placed\n"
        "demo.yaml:1:1: job: at the top"
    )
    assert [problem.path for problem in located.problems] == [problem.path for problem in error.problems]
    assert str(document.located(located)) == str(located)


def test_with_value_replaces_and_adds(document):
    changed = (
        document.with_value("parallel.mesh.tensor", "4")
        .with_value("parallel.strategies.0.match", "'*'")
        .with_value("parallel.weights.8", "1e-6")
        .with_value("parallel.weights.x.y.z", "[a, on]")
        .with_value("parallel.empty.deep.key", "{a: 1_000}")
        .with_value("new.section", "")
    )
    parallel = changed.data["parallel"]
    assert parallel["mesh"] == {"data": 8, "tensor": 4}
    assert parallel["strategies"][0] == {"match": "*", "split": {"heads": "tensor"}}
    assert parallel["weights"] == {8: 1e-6, "x.y": {"z": ["a", "on"]}, True: 2}
    assert parallel["empty"] == {"deep": {"key": {"a": 1000}}}
    assert changed.data["new"] == {"section": None}
    assert list(changed.data) == [*document.data, "new"]
    assert document.data == Document.parse(TEXT).data
    assert changed.lines == document.lines


def test_with_value_answers_with_the_setting(document):
    changed = document.with_value("parallel.mesh.tensor", "4").with_value("job.steps", "7")
    assert changed.where("parallel.mesh.tensor") == "--set parallel.mesh.tensor=4"
    assert changed.where("job") == "--set job.steps=7"
    assert changed.where("parallel.mesh.data") == "demo.yaml:3:16"
    assert changed.where("parallel.mesh") == "demo.yaml:3:3"
    located = changed.located(PlanError("too many", path="parallel.mesh.tensor"))
    assert str(located) == "--set parallel.mesh.tensor=4: too many"


def test_with_value_leaves_other_uses_of_an_anchor_alone(document):
    changed = document.with_value("copy.lr", "9")
    assert changed.data["copy"] == {"lr": 9}
    assert changed.data["base"] == {"lr": 1}


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("parallel.strategies.2.match", "x", "the list has no item '2'; it holds 2 items, counted from 0"),
        ("parallel.strategies.-1", "x", "the list has no item '-1'"),
        ("parallel.strategies.first", "x", "the list has no item 'first'"),
        ("simcluster.version", "1", "1 is a single value; it holds no key 'version'"),
        ("parallel.mesh.tensor.x.y", "1", "2 is a single value; it holds no key 'x'"),
        ("", "1", "write KEY=VALUE"),
        ("a..b", "1", "write KEY=VALUE"),
        ("a", "[1", "the list opened with '[' is never closed"),
        ("a", "b: c: d", "put text that holds ': ' in quotes"),
        ("a", "{b: 1, b: 2}", "duplicate key 'b'"),
        ("a", "!!python/name:os.system", "the tag !!python/name:os.system is not accepted"),
        ("a", "1\n---\n2", "a second YAML document"),
    ],
)
def test_with_value_refuses(document, path, text, words):
    with pytest.raises(ScenarioError) as caught:
        document.with_value(path, text)
    assert str(caught.value).startswith(f"--set {path}={text}: ")
    assert words in str(caught.value)


def test_a_document_can_be_sent_to_another_process(document):
    changed = document.with_value("parallel.mesh.tensor", "4")
    again = pickle.loads(pickle.dumps(changed))
    assert again.data == changed.data
    assert again.where("parallel.mesh.tensor") == changed.where("parallel.mesh.tensor")


def reading(path) -> str:
    with pytest.raises(ScenarioError) as caught:
        Document.read(path)
    return str(caught.value)


def test_unreadable_files(tmp_path):
    (tmp_path / "quickstart.yaml").write_text("a: 1")
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    (tmp_path / "large.yaml").write_bytes(b"#" * (5 << 20))
    missing = tmp_path / "quikstart.yaml"
    assert reading(missing) == f"{missing}: there is no such file; did you mean '{tmp_path}/quickstart.yaml'?"
    assert reading(tmp_path / "zzz") == f"{tmp_path}/zzz: there is no such file"
    assert reading(tmp_path / "no" / "x.yaml").endswith(
        f"there is no such file, nor a folder '{tmp_path}/no'"
    )
    assert reading(tmp_path) == f"{tmp_path}: this is a folder; name a file in it"
    assert reading(tmp_path / "latin.yaml") == (
        f"{tmp_path}/latin.yaml:2:7: this is not UTF-8 text; save the file as UTF-8"
    )
    assert "the file has 5.00 MiB; at most 4.00 MiB are read" in reading(tmp_path / "large.yaml")
    assert "the file cannot be read" in reading("a\0b")


def test_read_keeps_the_name_as_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.yaml").write_text("a: 1")
    assert Document.read("demo.yaml").where("a") == "demo.yaml:1:4"


def test_a_scenario_of_the_checkout_is_found_by_its_bare_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "plan.yaml").write_text("simcluster: 1\n")
    assert reading("plan") == "plan: there is no such file; did you mean 'scenarios/plan.yaml'?"
    assert reading("plan.yaml").endswith("did you mean 'scenarios/plan.yaml'?")
