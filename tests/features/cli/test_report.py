"""``simcluster report`` and the pages of ``run``."""

from __future__ import annotations

import re

import pytest


@pytest.fixture
def saved(simcluster, small, here):
    assert simcluster("run", small, "--out", "out", "--html", "page.html", "--whatif").code == 0
    return here


def test_the_page_of_a_command_says_when_and_by_which(saved):
    page, folder = (saved / "page.html").read_text(), (saved / "out/report.html").read_text()
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC: <code>simcluster run small.yaml --out out", page)
    assert "UTC" not in folder and "<code>" not in folder and "simulated in" not in folder
    assert 'class="tornado"' in page and 'class="tornado"' in folder


def test_small_runs_are_tried_on_other_hardware(simcluster, small, here):
    assert simcluster("run", small, "--html", "page.html").code == 0
    assert 'class="tornado"' in (here / "page.html").read_text()
    assert simcluster("run", small, "--html", "page.html", "--no-whatif").code == 0
    page = (here / "page.html").read_text()
    assert 'class="tornado"' not in page and "--html FILE --whatif</code> adds it" in page


def test_the_folder_is_the_same_bytes_each_time(saved, simcluster, small):
    assert simcluster("run", small, "--out", "again", "--whatif", "-q").code == 0
    assert (saved / "out/report.html").read_bytes() == (saved / "again/report.html").read_bytes()


def test_a_saved_run_gives_the_same_reports(saved, simcluster):
    code, out, err = simcluster(
        "report", "out", "--html", "later.html", "--json", "later.json", "--trace", "t.json"
    )
    assert code == 0 and "written: later.html" in err and "written: later.json" in err
    assert out.strip() == (saved / "out/summary.txt").read_text().strip()
    assert (saved / "later.json").read_text() == (saved / "out/result.json").read_text()
    later, folder = (saved / "later.html").read_text(), (saved / "out/report.html").read_text()
    assert re.sub(r"<p>\d{4}-[^\n]*?</code></p>", "", later) == folder
    assert simcluster("report", "out/run.simrun", "--json", "-").out == (saved / "later.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none",), "none"),
        (("small.yaml",), "small.yaml is not a saved run"),
        (("out", "--ranks", "0"), "--ranks 0: no trace is written to show them in"),
        (("out", "--html", "out"), "--html out: this is a folder"),
    ],
)
def test_what_cannot_be_reported(saved, simcluster, arguments, message):
    code, _, err = simcluster("report", *arguments)
    assert code == 2 and message in err


def test_one_page_is_of_one_scenario(simcluster, small):
    code, _, err = simcluster("run", small, small, "--html", "page.html")
    assert code == 2 and "one page shows one scenario; use --out DIR for several" in err
