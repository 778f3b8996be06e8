"""Output paths: what cannot be written is said before anything is simulated."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from simcluster.cli.commands.run import session
from tests.support.covering import quick
from tests.support.scenario_texts import SMALL

UNWRITABLE = Path("/proc/self")


@pytest.fixture
def unsimulated(simcluster, monkeypatch):
    """The command line where nothing can be simulated."""
    monkeypatch.setattr(session, "simulate", None)
    return simcluster


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "folder"), "--trace folder: this is a folder; name a file in it"),
        (("--json", "folder"), "--json folder: this is a folder; name a file in it"),
        (("--out", "file"), "--out file: this is a file; name a folder"),
        (("--out", "page.html"), "this names a folder; one file is written by --html page.html"),
        (("--out", "file/deeper"), "--out file/deeper: 'file' is not a folder"),
        (("--trace", "none/t.json"), "--trace none/t.json: there is no folder 'none'"),
        (("--json", "file/r.json"), "--json file/r.json: 'file' is not a folder"),
        (("--html", "folder"), "--html folder: this is a folder; name a file in it"),
        (("--html", "same", "--trace", "same"), "--html: same would replace --trace"),
        (("--whatif",), "--whatif: no report is written to say it in; add --html FILE"),
        (("--json", "same", "--trace", "same"), "--json: same would replace --trace"),
        (("--json", "small.yaml"), "--json: small.yaml would replace the scenario small.yaml"),
        (("--trace", "folder/../small.yaml"), "would replace the scenario small.yaml"),
    ],
)
def test_paths_that_cannot_be_written(unsimulated, small, here, arguments, message):
    (here / "folder").mkdir()
    (here / "file").write_text("kept")
    code, out, err = unsimulated("run", small, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert sorted(path.name for path in here.iterdir()) == ["file", "folder", "small.yaml"]
    assert (here / "file").read_text() == "kept"
    assert (here / small).read_text() == SMALL


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "t", "--ranks", "0,8"), "--ranks 0,8: there is no rank 8; the cluster has 8, from 0 on"),
        (("--out", "o", "--ranks", "0-3,2"), "--ranks 0-3,2: rank 2 is named twice"),
        (("--trace", "t", "--ranks", ""), "'' is not a rank; write for example 0,8,16-23"),
        (("--ranks", "0"), "--ranks 0: no trace is written to show them in; add --trace FILE"),
    ],
)
def test_ranks_that_cannot_be_traced(unsimulated, small, here, arguments, message):
    code, out, err = unsimulated("run", small, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert [path.name for path in here.iterdir()] == ["small.yaml"]


def test_all_of_them_are_named(unsimulated, small, here):
    (here / "folder").mkdir()
    _, _, err = unsimulated("run", small, "--trace", "folder", "--json", "none/r", "--out", small)
    assert [line.split()[0] for line in err.splitlines()] == ["--trace", "--json", "--out"]


@pytest.mark.skipif(not UNWRITABLE.exists(), reason="needs a folder that not even root can write to")
@pytest.mark.parametrize("option", ["--out", "--trace", "--json"])
def test_folders_that_cannot_be_written_to(unsimulated, small, option):
    code, _, err = unsimulated("run", small, option, UNWRITABLE / "x")
    assert code == 2
    assert f"nothing can be written into '{UNWRITABLE}'" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "small.yaml", "--save"),
        ("export", "small.yaml", "--to", "csv", "--out"),
        ("checkpoint", "transform", "none", "--to", "small.yaml", "--out"),
        ("checkpoint", "resume", "none", "--save"),
    ],
    ids=" ".join,
)
def test_a_folder_that_cannot_be_made_is_told_before_anything_is_done(unsimulated, small, here, arguments):
    (here / "taken").write_text("")
    code, _, err = unsimulated(*arguments, "taken")
    assert code == 2
    assert f"{arguments[-1]} taken: this is a file; name a folder" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_without_permission(unsimulated, small, here):
    (here / "shut").mkdir(mode=0o500)
    code, _, err = unsimulated("run", small, "--out", "shut/out")
    assert code == 2
    assert "permission denied" in err


def test_one_trace_for_several_scenarios(unsimulated, small):
    code, _, err = unsimulated("run", small, small, "--trace", "t.json")
    assert code == 2
    assert "one trace holds one scenario" in err


def test_the_scenario_in_the_folder_is_not_replaced(unsimulated, here):
    (here / "scenario.yaml").write_text(SMALL)
    code, _, err = unsimulated("run", "scenario.yaml", "--out", ".")
    assert code == 2
    assert "scenario.yaml would replace the scenario" in err


@contextmanager
def files_of_at_most(size):
    """A disk with room for so many bytes per file; what is imported meanwhile is not compiled in part."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiles
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


WRITERS = [
    ("run", "small.yaml", "--json"),
    ("run", "small.yaml", "--trace"),
    ("compare", "small.yaml", "small.yaml", "--html"),
    ("topology", "dgx-h100", "--hosts", "2", "--html"),
    ("collective", "all_reduce", "--cluster", "dgx-h100", "--hosts", "1", "--html"),
    ("schedule", "1f1b", "--stages", "2", "--micro-batches", "4", "--html"),
    ("init", "--model", "llama3-8b", "--cluster", "dgx-h100", "--hosts", "1", "--quick", "--force", "-o"),
    ("check", "small.yaml", "--update", "--baseline"),
]


@pytest.mark.parametrize("index", quick(range(len(WRITERS)), *range(0, len(WRITERS), 3)))
def test_a_full_disk_names_the_file(simcluster, small, here, index):
    arguments = WRITERS[index]
    with files_of_at_most(100):
        code, _, err = simcluster(*arguments, "file.json.gz")
    assert code == 2
    assert "file.json.gz: file too large" in err.lower()
    assert sorted(path.name for path in here.iterdir()) == [small]
    if Path("/dev/full").exists() and arguments[0] != "check":
        code, _, err = simcluster(*arguments, "/dev/full")
        assert code == 2
        assert "/dev/full: no space left on device" in err.lower()


def test_a_full_disk_names_the_file_of_the_folder(simcluster, small, here):
    simcluster("run", small, "--out", "whole")
    written = ("scenario.yaml", "report.html", "result.json", "summary.txt", "trace.json.gz", "run.simrun")
    sizes = {name: (here / "whole" / name).stat().st_size for name in written}
    for number, size in enumerate(sizes.values()):
        with files_of_at_most(size - 1):
            code, _, err = simcluster("run", small, "--out", f"out{number}")
        first = next(name for name in written if sizes[name] >= size)
        assert code == 2
        assert f"out{number}/{first}: file too large" in err.lower()
        assert not [path for path in (here / f"out{number}").iterdir() if path.name.startswith(".")]


def test_devices_and_links(simcluster, small, here):
    (here / "real.json").write_text("old")
    (here / "link.json").symlink_to("real.json")
    assert simcluster("run", small, "--quiet", "--trace", os.devnull, "--json", "link.json").code == 0
    assert (here / "link.json").is_symlink()
    assert (here / "real.json").read_text().startswith("{")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device", "disk")])
def test_what_breaks_off_leaves_nothing_half_written(simcluster, small, here, monkeypatch, error):
    (here / "result.json").write_text("old")
    (here / "trace.json").write_text("old")

    def breaks(self, content):
        with self.open("wb") as file:
            file.write(content[:10])
        raise error

    monkeypatch.setattr(Path, "write_bytes", breaks)
    code, _, err = simcluster("run", small, "--json", "result.json", "--out", "out")
    if error is KeyboardInterrupt:
        assert (code, err.splitlines()[-1]) == (130, "interrupted")
    else:
        assert (code, err.splitlines()[-1]) == (2, "Error: disk: no space left on device")
    assert (here / "result.json").read_text() == "old"
    assert [path for path in here.rglob("*") if path.is_file() and path.name.startswith(".")] == []
    assert list((here / "out").iterdir()) == []
