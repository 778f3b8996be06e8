from __future__ import annotations

import random
import time
import zipfile
import zlib
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from simcluster.errors import TraceError
from simcluster.simulation import simulate
from simcluster.trace import Run, Table
from tests.support.scenarios import scenario


def test_a_saved_run_is_the_run(tmp_path):
    run = simulate(scenario({"pipeline": 2, "tensor": 2}))
    path = tmp_path / "run.simrun"
    run.save(path)
    again = Run.load(path)
    assert list(tmp_path.iterdir()) == [path]
    for name in ("spans", "memory", "transfers", "waits"):
        ours, theirs = getattr(run, name), getattr(again, name)
        assert all(np.array_equal(ours[column], theirs[column]) for column in ours.columns)
        assert {key: list(value) for key, value in ours.names.items()} == dict(theirs.names)
    assert again.documents["summary"] == run.documents["summary"]


def test_equal_runs_are_saved_as_equal_bytes_at_any_time_of_day(tmp_path, monkeypatch):
    run = simulate(scenario({"pipeline": 2, "tensor": 2}))
    run.save(tmp_path / "first")
    monkeypatch.setattr(time, "localtime", lambda *_: time.struct_time((2040, 2, 3, 4, 5, 6, 4, 34, 0)))
    again = replace(run, documents=deepcopy(run.documents))
    again.documents["summary"]["wall_s"] = 9.0
    again.save(tmp_path / "slower")
    assert (tmp_path / "slower").read_bytes() != (tmp_path / "first").read_bytes()
    run.repeatable.save(tmp_path / "first")
    again.repeatable.save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert run.documents["summary"]["wall_s"] > 0
    assert Run.load(tmp_path / "second").documents["summary"] == run.repeatable.documents["summary"]


def test_a_saved_run_says_the_class_of_every_rank_and_who_follows(tmp_path):
    run = simulate(scenario({"pipeline": 2, "tensor": 2}))
    run.save(tmp_path / "run.simrun")
    again = Run.load(tmp_path / "run.simrun")
    assert again.ranks["next"].tolist() == [2, 3, -1, -1]
    assert again.classes_of([3, 0, 0]) == {0: 0, 3: 1}
    assert again.classes_of([]) == {}
    for wrong in (4, -1):
        with pytest.raises(TraceError, match=f"there is no rank {wrong}; the run has 4, from 0 on"):
            again.classes_of([0, wrong])


def damages(whole):
    """The file with one bit turned in many places, or a member encrypted or compressed as none is."""
    rng = random.Random(0)
    anywhere = ((rng.randrange(len(whole)), rng.randrange(8)) for _ in range(300))
    member = whole.index(b"PK\x01\x02")
    for at, bit in [(member + 8, 0), (member + 10, 1), *anywhere]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        yield bytes(damaged)


def test_a_damaged_run_is_read_or_refused(tmp_path):
    path = tmp_path / "run.simrun"
    simulate(scenario({"tensor": 2})).repeatable.save(path)
    refused = set()
    for damaged in damages(path.read_bytes()):
        path.write_bytes(damaged)
        try:
            Run.load(path)
        except TraceError as error:
            assert str(error).startswith(f"{path} ")
            refused.add(type(error.__cause__))
    assert {zlib.error, RuntimeError, NotImplementedError} <= refused


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_run_is_refused(tmp_path, content):
    path = tmp_path / "x.simrun"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="is not a saved run"):
        Run.load(path)


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "x.simrun"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("format.json", '{"simcluster_run": 99}')
    with pytest.raises(TraceError, match="another format"):
        Run.load(path)


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    run = simulate(scenario({"data": 2}))
    with pytest.raises(TraceError, match="cannot write"):
        run.save(tmp_path / "missing" / "run.simrun")
    assert not list(tmp_path.iterdir())


def test_a_table_reads_names_as_text():
    table = Table({"x": np.array([1, 2, 3]), "kind": np.array([0, 1, 0])}, {"kind": ["a", "b"]})
    rows = table.structured()
    assert rows["kind"].tolist() == ["a", "b", "a"]
    assert rows["x"].tolist() == [1, 2, 3]
    assert table.index("kind", "b") == 1
    assert table.index("kind", "z") == -1
    assert len(table.where(table["x"] > 1)) == 2
    with pytest.raises(TraceError, match="no column 'y'"):
        table["y"]
