import re
from dataclasses import fields, replace

import pytest

from simcluster import units
from simcluster.report import result_html
from simcluster.trace import Recording, Run
from tests.support.html_page import Page


@pytest.fixture
def page(any_run):
    found = Page(result_html(any_run))
    assert not found.open
    return found


def test_one_element_with_nothing_from_outside(any_run, page):
    tags = {tag for tag, _ in page.seen}
    assert page.seen[0][0] == "div"
    assert not tags & {"script", "link", "style", "img", "iframe", "object", "use", "image"}
    for _, attributes in page.seen:
        assert not any(name.startswith("on") or name in ("src", "href") for name in attributes)
        assert "url(" not in str(attributes.get("style"))
    assert set(re.findall(r"https?://[^\"' ]+", result_html(any_run))) == {"http://www.w3.org/2000/svg"}


def test_it_takes_the_colours_around_it(page):
    for tag, attributes in page.seen:
        style = attributes.get("style", "")
        assert not re.search(r"(?<![-\w])color:(?!inherit|#d9534f)", style)
        if tag == "text":
            assert attributes["fill"] in ("currentColor", "#16181b", "#d9534f")


def test_the_figures(any_run, page):
    found = any_run.documents["summary"]
    assert units.seconds(found["step_time_s"]) in page.text
    assert units.percent(found["mfu"]) in page.text
    assert units.size(found["peak_memory_bytes_max"]) in page.text
    for each in found["assumptions"]:
        assert each["name"] in page.text and each["source"] in page.text


def test_names_are_escaped(misfit):
    assert "[red]<b>" in Page(result_html(misfit)).text
    assert "<b>" not in result_html(misfit)


def test_a_misfit_is_said(misfit, run):
    assert "DOES NOT FIT" in result_html(misfit) and "DOES NOT FIT" not in result_html(run)


def test_every_stage_has_a_row_in_the_timeline(any_run, page):
    stages = sorted({each["stage"] for each in any_run.documents["classes"]})
    rows = [text for text in page.words if re.fullmatch(r"stage \d+", text)]
    assert {f"stage {stage}" for stage in stages} <= set(rows)


def test_it_stays_small(deep):
    assert len(result_html(deep)) < 300_000


def test_the_same_report_from_the_file(run, tmp_path):
    run.save(tmp_path / "run")
    assert result_html(Run.load(tmp_path / "run")) == result_html(run)


def test_a_run_without_spans_is_drawn_without_timelines(run):
    tables = {each.name: getattr(run.recording, each.name) for each in fields(Recording)}
    nothing = {name: table.where(slice(0)) for name, table in tables.items() if name != "classes"}
    recording = Recording(**nothing, classes=tables["classes"])
    assert len(recording) == len(recording.table()) == 0
    empty = replace(run, recording=recording, memory=run.memory.where(run.memory["time"] < 0))
    found = Page(result_html(empty))
    assert not found.open and "Timeline" not in found.text
