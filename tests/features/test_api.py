import copy
import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import numpy as np
import polars
import pytest

import simcluster
from simcluster import Result, Scenario, ScenarioError, SimclusterError, TraceError, api
from simcluster.report import data_frames

TINY = Path(__file__).parents[2] / "scenarios" / "tiny-gpt-cpu.yaml"


@pytest.fixture(scope="module")
def result():
    return simcluster.simulate(TINY)


def test_importing_the_package_imports_nothing_heavy():
    code = """
import sys, simcluster
assert simcluster.__version__ and "load" in dir(simcluster)
heavy = {"numpy", "pydantic", "simpy", "rich", "orjson", "polars", "ruamel"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert issubclass(simcluster.PlanError, simcluster.SimclusterError)
assert not heavy & set(sys.modules), "errors are light too"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_public_name_is_there_and_no_other():
    assert dir(simcluster) == sorted(simcluster.__all__)
    for name in simcluster.__all__:
        assert getattr(simcluster, name) is not None
    for name in ("load", "simulate", "verify", "Result"):
        assert getattr(simcluster, name) is getattr(api, name)
    with pytest.raises(AttributeError, match="no attribute 'simulatte'"):
        _ = simcluster.simulatte


def test_load_with_changes_by_text_and_by_value():
    scenario = simcluster.load(
        TINY, training__global_batch=32, model__layers="2", **{"parallel.schedule": {"kind": "1f1b"}}
    )
    assert isinstance(scenario, Scenario)
    assert scenario.spec.training.global_batch == 32
    assert scenario.spec.model.layers == 2
    assert scenario.spec.parallel.schedule.kind == "1f1b"
    assert simcluster.load(str(TINY), training__global_batch=np.int64(32)).spec.training.global_batch == 32


def test_load_says_what_is_wrong_with_a_change():
    with pytest.raises(ScenarioError, match=r"training\.global_batch=nonsense"):
        simcluster.load(TINY, training__global_batch="nonsense")
    with pytest.raises(ScenarioError, match="NaN"):
        simcluster.load(TINY, training__global_batch=float("nan"))


def test_simulate_takes_a_scenario_or_its_file(result):
    again = simcluster.simulate(simcluster.load(TINY))
    assert again.step_time_s == result.step_time_s
    assert repr(again) == repr(result)


def test_simulate_unfolded(result):
    whole = simcluster.simulate(TINY, unfold=True)
    assert whole.num_classes == whole.num_ranks == 8
    assert whole.step_time_s == result.step_time_s


def test_verify():
    found = simcluster.verify(TINY)
    assert found and found.agrees and found.dtype == "float64"
    assert repr(found) == "Verification: Tiny GPT on a CPU cluster agrees with one device (8 ranks, float64)"
    assert simcluster.verify(simcluster.load(TINY), dtype="float32").dtype == "float32"


def test_every_figure_is_an_attribute(result):
    for name, value in result.summary.items():
        assert getattr(result, name) == value
        assert name in dir(result)
    assert result.name == "Tiny GPT on a CPU cluster"
    assert result.plan["mesh"] == {"pipeline": 2, "data": 2, "tensor": 2}


def test_typed_figures_exist_and_have_their_type(result):
    hints = get_type_hints(Result)
    assert {"step_time_s", "mfu", "fits", "peak_memory_bytes"} <= hints.keys()
    for name, kind in hints.items():
        value = getattr(result, name)
        if kind in (int, bool, float):
            assert type(value) is kind, name
    plain = {name for name, value in result.summary.items() if not name.endswith("_max")}
    assert plain <= hints.keys()


def test_a_figure_that_is_not_there_names_the_nearest(result):
    with pytest.raises(AttributeError, match="no 'step_times'; did you mean 'step_time_s'"):
        _ = result.step_times
    assert not hasattr(result, "_ipython_display_")
    assert getattr(result, "nothing", 5) == 5


def test_summary_and_plan_are_copies(result):
    result.summary.clear()
    assert result.summary


def test_results_can_be_copied_and_pickled(result):
    assert copy.copy(result).mfu == result.mfu
    assert pickle.loads(pickle.dumps(result)).mfu == result.mfu


@pytest.mark.parametrize("name", ["spans", "transfers", "memory", "waits"])
def test_tables_as_frames_and_as_arrays(result, name):
    frame, rows = getattr(result, name)(), getattr(result, name)(frame=False)
    assert isinstance(frame, polars.DataFrame) and isinstance(rows, np.ndarray)
    assert frame.columns == list(rows.dtype.names)
    assert len(frame) == len(rows) > 0
    for column in frame.columns:
        if rows.dtype[column].kind == "U":
            assert frame[column].dtype == polars.String
        assert frame[column].to_list() == rows[column].tolist()


def test_the_columns_are_those_that_are_documented(result):
    def documented(method):
        text = " ".join(method.__doc__.split("Columns: ")[1].split())
        words = text.replace("(the one simulated)", "").replace("(how many it stands for)", "")
        words = words.replace("(the piece that it is a part of; empty: none)", "")
        words = words.replace("(-1: once per step)", "").replace("(negative: released)", "")
        words = words.replace("(of all categories, after the change)", "")
        return [word.strip() for word in words.split(".")[0].split(",")]

    for name in ("spans", "memory", "waits"):
        assert getattr(result, name)().columns == documented(getattr(Result, name))
    spans = result.spans().columns
    assert result.transfers().columns == [*(name for name in spans if name != "flops"), "ready_s"]


def test_arrays_where_polars_is_not_installed(result, monkeypatch):
    monkeypatch.setattr(data_frames, "find_spec", lambda name: None)
    assert isinstance(result.spans(), np.ndarray)
    with pytest.raises(SimclusterError, match=r"polars is not installed\n.*simcluster\[notebook\]"):
        result.spans(frame=True)


def test_frames_answer_a_question(result):
    by_kind = result.spans().group_by("kind").agg(polars.col("duration_s").sum())
    seconds = dict(by_kind.iter_rows())
    rows = result.spans(frame=False)
    for kind, total in seconds.items():
        assert total == pytest.approx(rows["duration_s"][rows["kind"] == kind].sum())


def test_save_and_load(result, tmp_path):
    result.save(tmp_path / "run.simrun")
    again = Result.load(tmp_path / "run.simrun")
    assert again.summary == result.summary
    assert again.spans().equals(result.spans())
    assert again._repr_html_() == result._repr_html_()
    with pytest.raises(TraceError):
        Result.load(TINY)


def test_json(result, tmp_path):
    text = result.to_json()
    assert json.loads(text)["step_time_s"] == result.step_time_s
    assert result.to_json(tmp_path / "result.json") == text
    assert (tmp_path / "result.json").read_text() == text
    with pytest.raises(TraceError, match="cannot write"):
        result.to_json(tmp_path / "no" / "result.json")


def test_perfetto(result, tmp_path):
    result.to_perfetto(tmp_path / "trace.json.gz")
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]


def test_ranks_are_chosen(result, tmp_path):
    last = result.num_ranks - 1
    for name in ("spans", "transfers", "memory", "waits"):
        assert set(getattr(result, name)(ranks=[0, last])["rank"].to_list()) == {0, last}
    result.to_perfetto(tmp_path / "trace.json", ranks=[last])
    events = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    assert {each["pid"] for each in events} == {last + 1}
    with pytest.raises(TraceError, match="there is no rank 99"):
        result.to_perfetto(tmp_path / "trace.json", ranks=[99])


def test_texts(result):
    assert repr(result).startswith("Result: Tiny GPT on a CPU cluster\n  step ")
    assert repr(result).endswith(": fits") and len(repr(result).splitlines()) == 3
    assert "Where the step goes" in str(result)
    assert result._repr_html_().startswith("<div")


def test_report_formats(result, tmp_path):
    assert json.loads(result.to("result")) == json.loads(result.to_json())
    assert "Step time" in result.to("summary", tmp_path / "summary.txt").decode()
    assert (tmp_path / "summary.txt").read_bytes() == result.to("summary")
    last = result.num_ranks - 1
    events = json.loads(gzip.decompress(result.to("trace", ranks=[last])))["traceEvents"]
    assert {each["pid"] for each in events} == {last + 1}
    with pytest.raises(TraceError, match="no report format 'traces'; did you mean 'trace'"):
        result.to("traces")
