"""Sweeps of a small scenario: the same rows on every executor, kept when interrupted, wrong input refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor

import pytest

import simcluster
from simcluster.cli.app import command_line
from tests.support.scenario_texts import CRAMPED, but

VARY = {"parallel.mesh.tensor": [1, 2, 3], "training.micro_batch": [1, 2]}
TEXT = but("data: 2", "data: auto")


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "small.yaml").write_text(TEXT)
    return tmp_path / "small.yaml"


class Interrupted(Executor):
    """Is interrupted once it has done so many calls."""

    num_workers = 1

    def __init__(self, most):
        self.left = most

    def submit(self, function, *arguments):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        future = Future()
        future.set_result(function(*arguments))
        return future


class Mortal(Executor):
    """Whose worker dies when it is given a micro-batch of 2."""

    num_workers = 1

    def submit(self, function, changes):
        future = Future()
        if dict(changes)["training.micro_batch"] == "2":
            future.set_exception(BrokenExecutor("gone"))
        else:
            future.set_result(function(changes))
        return future


def test_rows_are_those_of_simulate(scenario):
    result = simcluster.sweep(scenario, VARY, jobs=1)
    assert len(result.rows) == 6
    keys = [(row["parallel.mesh.tensor"], row["training.micro_batch"]) for row in result.rows]
    assert keys == [(tensor, micro) for tensor in (1, 2, 3) for micro in (1, 2)]
    for row in result.rows:
        changes = {key: row[key] for key in VARY}
        try:
            alone = simcluster.simulate(simcluster.load(scenario, **changes))
        except simcluster.SimclusterError as error:
            assert row["verdict"] == "impossible"
            assert row["reason"] == error.problems[0].message
            assert row["step_time_s"] is None
            continue
        assert row["fits"] is alone.fits
        assert row["step_time_s"] == alone.step_time_s
        assert row["tokens_per_s"] == alone.tokens_per_s
        assert row["mfu"] == alone.mfu
        assert row["exposed_communication_s"] == sum(alone.exposed_communication_s.values())
        assert row["peak_memory_bytes"] == alone.peak_memory_bytes_max
        fragments = max(alone.peak_memory_bytes, key=lambda peak: peak["total"])["fragments"]
        assert row["needed_memory_bytes"] == alone.peak_memory_bytes_max + fragments
    assert [row["verdict"] for row in result.rows].count("impossible") == 2
    assert "6 points: 4 fit, 2 impossible" in str(result)
    assert "<svg" in result._repr_html_()


@pytest.mark.parametrize("kind", ["threads", pytest.param("processes", marks=pytest.mark.thorough)])
def test_every_executor_gives_the_same_bytes(scenario, kind):
    expected = simcluster.sweep(scenario, VARY, jobs=1, out="one.csv").to_csv()
    assert (scenario.parent / "one.csv").read_text() == expected
    done = []
    if kind == "threads":
        with ThreadPoolExecutor(3) as threads:
            simcluster.sweep(scenario, VARY, executor=threads, out="other.csv", watch=done.append)
    else:
        simcluster.sweep(scenario, VARY, jobs=2, out="other.csv", watch=done.append)
    assert done == list(range(1, 7))
    assert (scenario.parent / "other.csv").read_text() == expected
    assert not list(scenario.parent.glob("*.journal"))


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_an_interrupted_sweep_goes_on(scenario, name):
    whole = scenario.parent / f"whole-{name}"
    simcluster.sweep(scenario, VARY, jobs=1, out=whole)
    for moment in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            simcluster.sweep(scenario, VARY, out=name, executor=Interrupted(moment))
        assert not (scenario.parent / name).exists()
    kept = (scenario.parent / f"{name}.journal").read_text().splitlines()[1:]
    points = [json.loads(line)[0] for line in kept]
    assert points == list(range(5))
    done = []
    simcluster.sweep(scenario, VARY, out=name, jobs=1, watch=done.append)
    assert done == list(range(6, 7))
    assert (scenario.parent / name).read_bytes() == whole.read_bytes()
    assert not (scenario.parent / f"{name}.journal").exists()


@pytest.mark.parametrize(
    ("text", "vary", "words"),
    [
        (TEXT.replace("layers: 4", "layers: 8"), VARY, "1 result is kept here of another scenario"),
        (TEXT, {**VARY, "training.micro_batch": [1, 4]}, "of another variation"),
    ],
)
def test_another_sweep_does_not_go_on_there(scenario, text, vary, words):
    with pytest.raises(KeyboardInterrupt):
        simcluster.sweep(scenario, VARY, out="rows.csv", executor=Interrupted(1))
    scenario.write_text(text)
    with pytest.raises(simcluster.ScenarioError, match=words) as error:
        simcluster.sweep(scenario, vary, out="rows.csv", jobs=1)
    assert "--restart" in str(error.value)
    again = simcluster.sweep(scenario, vary, out="rows.csv", jobs=1, restart=True)
    assert again.rows == simcluster.sweep(scenario, vary, jobs=1).rows


def test_comments_do_not_make_it_another_scenario(scenario):
    with pytest.raises(KeyboardInterrupt):
        simcluster.sweep(scenario, VARY, out="rows.csv", executor=Interrupted(1))
    scenario.write_text("# a new comment\n" + TEXT)
    done = []
    simcluster.sweep(scenario, VARY, out="rows.csv", jobs=1, watch=done.append)
    assert len(done) == 5


def test_an_inference_has_its_own_figures(scenario):
    training = "training: {global_batch: 8, micro_batch: 1, seq_len: 16, precision: fp32}"
    inference = "inference: {batch: 8, prompt: 16, tokens: 4, precision: fp32}"
    scenario.write_text(TEXT.replace(training, inference))
    result = simcluster.sweep(scenario, {"parallel.mesh.tensor": [1, 2]}, jobs=1)
    assert result.ranked.objective.column == "latency_s"
    assert {"ttft_s", "tpot_s", "latency_s", "decode_mbu"} <= set(result.rows[0])
    assert "TTFT" in str(result)
    quickest = simcluster.sweep(scenario, {"parallel.mesh.tensor": [1, 2]}, jobs=1, objective="ttft")
    assert quickest.best["ttft_s"] == min(row["ttft_s"] for row in result.rows)


def call(*arguments):
    return command_line(["sweep", "small.yaml", *map(str, arguments)])


def test_the_command(scenario, capsys):
    code = call("--vary", "training.micro_batch=1,2", "--jobs", 1, "--out", "a.csv", "--plot", "a.html")
    out, err = capsys.readouterr()
    assert code == 0
    assert out.splitlines()[0] == "small: 2 points: 2 fit"
    assert "best by step time" in out
    assert err.splitlines() == ["written: a.csv", "written: a.html"]
    assert call("--vary", "training.micro_batch=1,2", "--jobs", 1, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["training.micro_batch"] for row in document["rows"]] == [1, 2]
    assert document["best"]["training.micro_batch"] == 2
    assert call("--vary", "training.micro_batch=2,1", "--jobs", 1, "--objective", "memory", "-q") == 0
    assert capsys.readouterr() == ("", "")


def test_nothing_that_fits_is_1(scenario, capsys):
    scenario.write_text(CRAMPED)
    assert call("--vary", "training.micro_batch=1,2", "--jobs", 1) == 1
    assert "no point fits; the nearest is training.micro_batch=1: stage 0 needs" in capsys.readouterr().out


MICRO = "--vary=training.micro_batch=1,2"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "a sweep varies at least one key"),
        (["--vary", "training.micro_batch="], "no values"),
        (["--vary", "training.micro_btch=1,2"], "unknown key 'micro_btch'; did you mean 'micro_batch'?"),
        (["--vary", "parallel.msh.tensor=1,2"], "unknown key 'msh'; did you mean 'mesh'?"),
        (["--vary", "parallel.mesh.tensr=1,2"], "the mesh has no axis 'tensr'"),
        (["--vary", "training.micro_batch=1,x"], "--vary training.micro_batch=x: 'x' is text"),
        (["--vary", "cluster.use=cpu-servr,cpu-server"], "unknown host 'cpu-servr'; did you mean"),
        (["--vary", "parallel.strategies.3.match=a"], "--vary parallel.strategies.3.match=a: "),
        ([MICRO, "--objective", "stp_time"], "did you mean 'step_time'?"),
        ([MICRO, "--objective", "ttft"], "a training has no objective 'ttft'"),
        ([MICRO, "--out", "rows.txt"], "a sweep is written as .csv or .parquet"),
        ([MICRO, "--out", "none/rows.csv"], "there is no folder 'none'"),
        ([MICRO, "--out", "."], "this is a folder"),
        (
            [MICRO, "--dask", "tcp://127.0.0.1:1", "--out", "a.csv"],
            "--jobs 1: the workers are those of tcp://127.0.0.1:1",
        ),
        ([MICRO, "--plot", "none/a.html"], "there is no folder 'none'"),
        ([MICRO, "--out", "a.csv", "--plot", "a.csv"], "a.csv would replace --out"),
        ([MICRO, "--plot", "small.yaml"], "small.yaml would replace the scenario small.yaml"),
    ],
)
def test_wrong_input_is_2_before_anything_runs(scenario, capsys, monkeypatch, options, words):
    monkeypatch.setattr("simcluster.sweeps.sweep_run.run_point", None)
    before = sorted(scenario.parent.iterdir())
    assert call(*options, "--jobs", 1) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert sorted(scenario.parent.iterdir()) == before


def test_an_unknown_key_is_told_once(scenario, capsys):
    assert call("--vary", "training.micro_btch=1,2,4", "--vary", "training.global_batch=8,x") == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_value_that_is_wrong_in_some_points_is_a_row(scenario):
    """Both keys are right in one combination; in the other it is the plan that is refused."""
    result = simcluster.sweep(scenario, {"parallel.mesh.tensor": [1, 4], "cluster.hosts": [1, 4]}, jobs=1)
    assert [row["verdict"] for row in result.rows] == ["fits", "fits", "impossible", "fits"]


def test_parquet_needs_polars(scenario, capsys, monkeypatch):
    monkeypatch.setattr("simcluster.sweeps.sweep_files.find_spec", lambda name: None)
    assert call(MICRO, "--out", "a.parquet") == 2
    err = capsys.readouterr().err
    assert "writing Parquet needs the extra notebook" in err
    assert "simcluster[notebook]" in err


def test_dask_needs_its_extra(scenario, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert call(MICRO, "--dask", "local") == 2
    assert "simcluster[cluster]" in capsys.readouterr().err


def test_a_point_whose_worker_dies_is_a_row_that_is_tried_again(scenario):
    vary = {"training.micro_batch": [1, 2]}
    result = simcluster.sweep(scenario, vary, executor=Mortal(), out="rows.csv")
    assert [row["verdict"] for row in result.rows] == ["fits", "lost"]
    assert "died, twice" in result.rows[1]["reason"]
    assert (scenario.parent / "rows.csv.journal").exists()
    result = simcluster.sweep(scenario, vary, jobs=1, out="rows.csv")
    assert [row["verdict"] for row in result.rows] == ["fits", "fits"]
    assert not (scenario.parent / "rows.csv.journal").exists()


def test_an_executor_that_breaks_down_is_told_with_what_is_kept(scenario, capsys):
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    pool._broken = "by hand"
    with pytest.raises(simcluster.SimulationError, match="broke down") as error:
        simcluster.sweep(scenario, VARY, executor=pool, out="rows.csv")
    assert "0 of 6 points are done and kept in rows.csv.journal" in str(error.value)


def test_one_way_to_run_it(scenario):
    with pytest.raises(simcluster.ScenarioError, match="give one of them"):
        simcluster.sweep(scenario, VARY, executor=Mortal(), jobs=2)


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from simcluster.cli import main
main()
"""


@pytest.mark.thorough
def test_an_interrupt_is_130_and_keeps_what_is_done(scenario, capsys):
    arguments = ["sweep", "small.yaml", "--jobs", "2", "--out", "rows.csv", "--set", "run.steps=20"]
    arguments += ["--vary", "training.micro_batch=1,2", "--vary", "run.seed=1,2,3,4,5,6"]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    journal = scenario.parent / "rows.csv.journal"
    while not journal.exists() or len(journal.read_text().splitlines()) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    kept = len(journal.read_text().splitlines()) - 1
    assert f"{kept} of 12 points are done and kept in rows.csv.journal" in err
    assert err.splitlines()[-1] == "interrupted"
    arguments[arguments.index("--jobs") + 1] = "1"
    assert command_line(arguments) == 0
    assert capsys.readouterr().err.splitlines()[0] == f"{kept} of 12 points were done before"
    assert not journal.exists()
