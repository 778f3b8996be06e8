"""The report as one file for a browser: sections, the data of its timelines, the script that draws them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files

import orjson

from simcluster.draw import Markup
from simcluster.report.html.closing_sections import (
    PageOrigin,
    assumptions_section,
    page_foot,
    scenario_section,
)
from simcluster.report.html.elements import folded, page_section
from simcluster.report.html.head import head_section
from simcluster.report.html.job import job_section
from simcluster.report.html.memory import memory_section
from simcluster.report.html.memory_data import memory_pieces
from simcluster.report.html.network import matrix_pieces, network_section
from simcluster.report.html.packing import packed_bytes
from simcluster.report.html.path_sections import critical_path_section, what_if_section
from simcluster.report.html.servers import server_section
from simcluster.report.html.step import step_section
from simcluster.report.html.timeline_data import schedule_pieces, timeline_pieces
from simcluster.trace import Run, RunDocument

SCRIPTS = ("columns.js", "view.js", "timeline.js", "memory.js", "matrix.js", "layouts.js", "page.js")
"""The page's script, in the order in which it stands there."""

_NO_SCRIPT = "Timelines, memory over time and layouts are shown by a script, and scripts are switched off."

_KEYS = (
    "Drag or arrow keys move; + and −, or Ctrl and the wheel, zoom; 0 shows all. Up and down choose "
    "a row, [ and ] a block, Enter zooms to it, e unfolds the ranks of a class, / searches, n goes to the "
    "next match."
)


def report_page(run: Run, origin: PageOrigin | None = None) -> Iterator[str]:
    """The page in pieces of text; equal runs give equal text where there is no ``origin``."""
    documents = run.documents
    pieces = dict(_pieces(run))
    sections = [section for section in _sections(run, pieces) if section[2]]
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield f"<title>{escape(documents['plan']['name'])}</title>\n"
    yield f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n"
    yield f"<header>{head_section(documents)}</header>\n"
    links = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in sections)
    button = '<button type="button" id="theme" title="light or dark">theme</button>'
    yield f'<nav aria-label="sections"><div>{links}<span class="grow"></span>{button}</div></nav>\n<main>\n'
    yield f'<noscript><p class="note">{_NO_SCRIPT}</p></noscript>\n'
    for _, _, body in sections:
        yield f"{body}\n"
    yield f"</main>\n{page_foot(documents, origin)}\n"
    for name, text in pieces.items():
        yield f'<script type="text/plain" id="data-{name}">{text}</script>\n'
    yield (
        "<script>\n"
        + "".join(_asset(name).replace('"use strict";\n', "") for name in SCRIPTS)
        + "</script>\n"
    )
    yield "</body>\n</html>\n"


def _asset(name: str) -> str:
    return files("simcluster.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def _pieces(run: Run) -> Iterator[tuple[str, str]]:
    """The data of the page by name."""
    if len(run.recording):
        yield from timeline_pieces(run)
    yield from memory_pieces(run)
    yield from matrix_pieces(run.documents)
    schedule = run.documents["plan"]["schedule"]
    if len(schedule["text"].strip().splitlines()) > 1:
        yield from schedule_pieces(schedule["text"], [tuple(place) for place in schedule.get("places", ())])
    yield "layouts", packed_bytes(orjson.dumps(run.documents["layouts"]))


def _sections(run: Run, pieces: dict[str, str]) -> Iterator[tuple[str, str, Markup]]:
    """Key, short title, and body of every section; those without a body are left out."""
    documents = run.documents
    yield "step", "Time", step_section(run)
    if "timeline" in pieces:
        note = f"a row for each stream of a class of equal ranks. {_KEYS}"
        view = '<div id="timeline-view" class="view"></div>'
        yield "timeline", "Timeline", page_section("timeline", "Timeline", note, view)
    yield "path", "Critical path", critical_path_section(documents)
    yield "what-if", "What if", what_if_section(documents)
    yield "memory", "Memory", memory_section(documents, over_time="memory" in pieces)
    yield "communication", "Communication", network_section(documents, matrix="matrix" in pieces)
    yield "servers", "Servers", server_section(documents)
    if "schedule" in pieces:
        yield "schedule", "Schedule", _schedule(documents)
    yield "layouts", "Layouts", _layouts(documents)
    yield "job", "Job", job_section(documents)
    yield "assumptions", "Assumptions", assumptions_section(documents)
    yield "scenario", "Scenario", scenario_section(documents)


def _schedule(documents: RunDocument) -> Markup:
    schedule = documents["plan"]["schedule"]
    note = (
        f"{schedule['kind']}, in units of time as if all stages were equal: a forward pass takes 1, a "
        "backward pass 2; chunks of a stage in lighter and darker shades"
    )
    view = '<div id="schedule-view" class="view"></div>'
    text = folded("as text", f'<pre tabindex="0">{escape(schedule["text"])}</pre>')
    return page_section("schedule", "Pipeline schedule", note, view, text)


def _layouts(documents: RunDocument) -> Markup:
    if not documents["layouts"]:
        return Markup("")
    note = "how every operator's inputs and outputs lie on the mesh, what moves between layouts, and why"
    return page_section("layouts", "Layouts", note, '<div id="layouts-view"></div>')
