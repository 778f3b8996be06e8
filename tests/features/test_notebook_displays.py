"""What notebooks show: plots, readable displays, tables; and that the command line's functions are there."""

import sys
import time
from importlib.util import find_spec
from itertools import pairwise
from xml.etree import ElementTree

import pytest

import simcluster
from simcluster.engine import Progress
from simcluster.errors import ScenarioError, SimclusterError, TraceError
from simcluster.listings import FAMILIES
from simcluster.report.notebook import running_line
from tests.support.scenario_texts import SMALL


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "small.yaml"
    path.write_text(SMALL)
    return simcluster.load(path)


@pytest.fixture(scope="module")
def result(scenario):
    return simcluster.simulate(scenario)


PLOTS = {
    "timeline": lambda result: result.timeline(),
    "memory_plot": lambda result: result.memory_plot(),
    "breakdown": lambda result: result.breakdown(),
    "critical_path": lambda result: result.critical_path(),
    "schedule_grid": lambda result: result.plan.schedule_grid(),
}


@pytest.mark.parametrize("name", [*PLOTS, "draw"])
def test_plots_are_figures_of_plotly(scenario, result, name):
    figure = scenario.cluster.draw() if name == "draw" else PLOTS[name](result)
    assert figure.data and figure.layout.title.text
    assert figure.to_dict() == (scenario.cluster.draw() if name == "draw" else PLOTS[name](result)).to_dict()


def test_bars_sum_to_the_step(result):
    for figure in (result.breakdown(), result.critical_path()):
        step = sum(trace.x[0] for trace in figure.data)
        assert step == pytest.approx(result.step_time_s)


def test_a_timeline_ends_with_the_run_and_its_kernels_do_not_overlap(result):
    figure = result.timeline(streams=False)
    bars = [
        (row, base, base + length)
        for trace in figure.data
        for row, base, length in zip(trace.y, trace.base, trace.x, strict=True)
    ]
    assert {row for row, _, _ in bars} == {"stage 0", "stage 1"}
    assert max(end for _, _, end in bars) <= result.run.recording.end * 1e-9 + 1e-12
    for stage in ("stage 0", "stage 1"):
        times = sorted((start, end) for row, start, end in bars if row == stage)
        assert all(end <= start + 1e-12 for (_, end), (start, _) in pairwise(times))


def test_memory_reaches_its_peak(result):
    figure = result.memory_plot(stage=0)
    peak = max(map(sum, zip(*(trace.y for trace in figure.data), strict=True))) * 2**30
    worst = max(entry["total"] for entry in result.peak_memory_bytes if entry["stage"] == 0)
    assert peak == pytest.approx(worst, rel=1e-6)
    with pytest.raises(TraceError, match="there is no stage 7"):
        result.memory_plot(stage=7)


def test_without_plotly_the_error_says_what_to_install(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(SimclusterError, match=r"plots need plotly.*\n.*pip install 'simcluster\[notebook\]'"):
        result.breakdown()


def test_displays_are_short_and_no_page_of_fields(scenario, result):
    shown = {
        "scenario": scenario,
        "cluster": scenario.cluster,
        "graph": simcluster.graph(scenario),
        "plan": result.plan,
        "verification": simcluster.verify(scenario, dtype="float32"),
        "catalog": simcluster.catalog("xeon-8480"),
        "collective": simcluster.collective("all_reduce", "dgx-h100", sizes=[1024, 2**20]),
        "section": scenario.spec.parallel,
    }
    for name, value in shown.items():
        html = value._repr_html_()
        assert html.startswith("<"), name
        assert "Spec(" not in html and "<function" not in html, name
        assert len(html) < 40_000, name
    assert "4 x cpu-server (8 x xeon-8480)" in repr(scenario)
    assert "pipeline 2 x data 2 x tensor 2" in scenario._repr_html_()


def test_a_dict_is_a_scenario(scenario, result):
    data = scenario.document.data
    assert simcluster.simulate(data).step_time_s == result.step_time_s
    with pytest.raises(ScenarioError, match="'name' is missing"):
        simcluster.simulate({key: value for key, value in data.items() if key != "name"})


def test_a_report_page_is_written(result, tmp_path):
    page = result.to_html(tmp_path / "report.html")
    assert page.startswith("<!doctype html>") and (tmp_path / "report.html").read_text() == page


@pytest.mark.thorough
def test_the_catalog_lists_every_family():
    listing = simcluster.catalog()
    assert set(listing.data) == set(FAMILIES)
    assert all(name in str(listing) for names in listing.data.values() for name in names)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "models"])
def test_the_catalog_lists_one_family(family):
    listing = simcluster.catalog(family)
    assert set(listing.data) == {family}
    assert all(name in str(listing) for name in listing.data[family])


def test_listings_graphs_and_checks_are_tables(scenario, tmp_path):
    graph = simcluster.graph(scenario)
    report = simcluster.check([scenario], tmp_path / "baseline.json", update=True)
    again = simcluster.check([scenario], tmp_path / "baseline.json")
    for shown in (simcluster.catalog(), simcluster.catalog("h100-sxm"), graph):
        assert "<table" in shown._repr_html_() and "<pre" not in shown._repr_html_()
    assert "layers.*.mlp.up" in graph._repr_html_()
    assert report.written and "unchanged" in again._repr_html_() and "<pre" not in again._repr_html_()


def test_an_entry_of_the_catalog_and_what_is_none():
    assert simcluster.catalog("h100-sxm").data["title"].startswith("NVIDIA H100")
    assert "strategies" in simcluster.catalog("recipes", "fsdp").data
    for words, message in ((("h100-sxn",), "h100-sxm"), (("model", "llama3-8b"), "did you mean 'models'")):
        with pytest.raises(ScenarioError, match=message):
            simcluster.catalog(*words)


def test_a_collective_at_several_sizes():
    bench = simcluster.collective("all_reduce", "dgx-h100", 2, sizes="1MiB,1GiB", ranks=[0, 8])
    frame = bench.frame()
    assert frame["num_bytes"].to_list() == [2.0**20, 2.0**30]
    assert (frame["seconds"] > frame["latency_s"]).all()
    assert "all_reduce of 2 ranks on 2 x dgx-h100" in str(bench)


def test_search_may_be_called_by_the_name_of_its_command(scenario):
    called = simcluster.search(scenario, ["micro_batch=1,2"], jobs=1)
    assert called.best.figures == simcluster.find_plan(scenario, ["micro_batch=1,2"], jobs=1).best.figures
    assert simcluster.search.find_plan is simcluster.find_plan


def test_tables_in_pandas_or_polars(result):
    pytest.importorskip("polars")
    assert result.spans().height == len(result.spans(frame=False))


def test_frames_of_other_libraries(result):
    with pytest.raises(SimclusterError, match="did you mean 'pandas'"):
        result.spans(frame="panda")
    if find_spec("pandas") is None:
        with pytest.raises(SimclusterError, match=r"pandas is not installed\n.*pip install pandas"):
            result.spans(frame="pandas")
    else:
        words = result.spans(frame="pandas")["operator"].astype(str).tolist()
        assert words == result.spans(frame=False)["operator"].tolist()


def test_plots_are_kept_with_a_still_picture(result):
    """Where no scripts run, such as in a repository's viewer, the picture is what a reader sees."""
    for plot in [make(result) for make in PLOTS.values()]:
        kept = plot._repr_mimebundle_()
        root = ElementTree.fromstring(kept["image/svg+xml"])
        assert float(root.get("height")) > 80
        shapes = [entry for entry in root.iter() if entry.tag.endswith(("rect", "path"))]
        assert len(shapes) > len(plot.data)
        texts = {entry.text for entry in root.iter() if entry.tag.endswith("text")}
        assert {trace.name for trace in plot.data if trace.name} <= texts
        assert kept["text/plain"].startswith("Plot: ")


def test_a_notebook_shows_how_far_a_simulation_is(monkeypatch):
    """The line appears after a second, follows the progress, and is empty at the end."""
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return Handle()

    monkeypatch.setattr(running_line, "_display", lambda: display)
    monkeypatch.setattr(running_line, "PATIENCE", 0.01)
    monkeypatch.setattr(running_line, "PAUSE", 0.01)
    progress = Progress()
    with running_line.progress_display("small", progress):
        wait_until(lambda: shown)
        progress.total = 200
        progress.update(50, 2_000_000_000)
        wait_until(lambda: shown[-1].startswith("small: 25 %"))
    assert shown[0] == "small: planning" and "small: 25 %, 2.00 s simulated" in shown and shown[-1] == ""
    with running_line.counted_display("small", "8 points", shown.append) as count:
        wait_until(lambda: shown[-1] == "small: planning")
        count(3)
        wait_until(lambda: shown[-1] == "small: 3 of 8 points")
    assert 3 in shown and shown[-1] == ""
    monkeypatch.setattr(running_line, "_display", lambda: None)
    with running_line.progress_display("small", progress):
        pass


def wait_until(holds):
    for _ in range(500):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")
