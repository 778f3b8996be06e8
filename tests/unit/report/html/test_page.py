import re
from dataclasses import replace

import numpy as np
import pytest

from simcluster.draw import BLUE, BarPart
from simcluster.report import renderers
from simcluster.report.html import PageOrigin, report_page
from simcluster.report.html.elements import bar_rows
from simcluster.report.html.memory_data import memory_pieces
from simcluster.report.html.step import class_waits
from simcluster.trace import Run
from tests.support.html_page import Page
from tests.support.page_data import document, numbers, piece


def test_it_is_well_formed_and_has_every_section(any_run):
    page = "".join(report_page(any_run))
    found = Page(page)
    assert not found.open
    keys = [attributes["id"] for tag, attributes in found.seen if tag == "section"]
    links = [attributes["href"][1:] for tag, attributes in found.seen if tag == "a"]
    assert links == keys
    assert {"step", "timeline", "memory", "layouts", "assumptions", "scenario"} <= set(keys)


def test_it_loads_nothing(any_run):
    page = "".join(report_page(any_run))
    address = re.compile(r"https?://[^\"'\s)<]+")
    quoted = set(address.findall(str(any_run.documents["summary"]["assumptions"])))
    assert set(address.findall(page)) <= {"http://www.w3.org/2000/svg"} | quoted
    assert not re.search(r"<(link|img|iframe)|\bsrc=|@import|fetch\(", page)


def test_equal_runs_give_equal_pages(run, tmp_path):
    run.save(tmp_path / "run")
    assert [*report_page(run)] == [*report_page(Run.load(tmp_path / "run"))]
    assert b"".join(renderers()["report"].render(run)) == "".join(report_page(run)).encode()


def test_the_origin_is_said_where_there_is_one(run):
    page = "".join(report_page(run, PageOrigin("2026-01-02", "simcluster run <a>.yaml")))
    assert "2026-01-02" in page and "simcluster run &lt;a&gt;.yaml" in page
    assert "2026-01-02" not in "".join(report_page(run))


def test_names_are_text(misfit):
    page = "".join(report_page(misfit))
    assert "[red]<b>" not in page and "[red]&lt;b&gt;" in page
    assert "DOES NOT FIT" in page


def test_waits_of_classes_are_those_of_the_summary(any_run):
    summary, classes = any_run.documents["summary"], any_run.documents["classes"]
    ranks = np.array([entry["ranks"] for entry in classes], dtype=np.float64)
    waits = class_waits(any_run)
    for axis, mean in summary["exposed_communication_s"].items():
        found = sum(of.get(axis, 0.0) * count for of, count in zip(waits, ranks, strict=True)) / ranks.sum()
        assert found == pytest.approx(mean, rel=1e-9)
    pipeline = sum(of.get("pipeline wait", 0.0) * count for of, count in zip(waits, ranks, strict=True))
    assert pipeline / ranks.sum() == pytest.approx(summary["pipeline_wait_s"], abs=1e-12)


def test_memory_is_given_back(any_run):
    page = "".join(
        f'<script type="text/plain" id="data-{name}">{text}</script>' for name, text in memory_pieces(any_run)
    )
    known = document(page, "memory")
    for number, entry in enumerate(known["classes"]):
        rank = int(re.search(r"rank (\d+)", entry["title"])[1])
        rows = any_run.memory.among("class", int(any_run.ranks["class"][rank]))
        times, sizes, buffers, categories = numbers(piece(page, f"changes.{number}")).reshape(4, -1)
        assert np.cumsum(times).tolist() == rows["time"].tolist()
        assert sizes.tolist() == rows["bytes"].tolist() and categories.tolist() == rows["category"].tolist()
        assert [known["buffers"][at] for at in np.cumsum(buffers)] == rows.text("buffer").tolist()


def test_the_error_band_is_in_the_head(run):
    band = {"words": "27 comparable measured runs: nine of ten within 8 %.", "nine_of_ten_within": 0.08}
    summary = {**run.documents["summary"], "error_band": band}
    page = "".join(report_page(replace(run, documents={**run.documents, "summary": summary})))
    assert band["words"] in page and "± 8.0 %" in page
    unsure = {**summary, "error_band": {"words": "No error band: no comparable run was measured."}}
    page = "".join(report_page(replace(run, documents={**run.documents, "summary": unsure})))
    assert "no comparable run" in page and "±" not in page.partition("<nav")[0]


def test_what_if_is_shown_where_a_run_has_it(run):
    factor = {
        "factor": "compute",
        "label": "compute rate",
        "better_s": 0.9,
        "worse_s": 1.1,
        "better": -0.1,
        "worse": 0.1,
    }
    document = {"name": "a", "step_time_s": 1.0, "by": 0.1, "factors": [factor]}
    shown = replace(run, documents={**run.documents, "what_if": document})
    assert "compute rate" in "".join(report_page(shown))
    assert "not tried for this page" in "".join(report_page(run))


def test_what_fills_a_bar_is_not_over_it():
    parts = [BarPart("a", 0.1, BLUE), BarPart("b", 0.2, BLUE)]
    assert "<u" not in bar_rows([("x", parts, 0.3, "")], str)
    assert "<u" in bar_rows([("x", parts, 0.29, "")], str)


def test_many_changes_of_a_framework_unfold(run):
    changes = [f"change {number}" for number in range(5)]
    plan = {**run.documents["plan"], "framework_changes": changes}
    page = "".join(report_page(replace(run, documents={**run.documents, "plan": plan})))
    assert "5 changes</summary>" in page and "<li>change 4</li>" in page
