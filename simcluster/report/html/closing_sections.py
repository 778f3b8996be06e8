"""The end of the page: what the result leans on, the scenario, and where the page is from."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from simcluster.deferred_dataclass import dataclass
from simcluster.draw import Markup
from simcluster.report.content import assumptions_text
from simcluster.report.html.elements import data_table, page_section
from simcluster.report.html.scenario_yaml import scenario_listing
from simcluster.trace import RunDocument


@dataclass(frozen=True, slots=True)
class PageOrigin:
    """When a page was made and by which command; pages that must be the same bytes have none."""

    date: str
    command: str


def assumptions_section(documents: RunDocument) -> Markup:
    """What was simulated, notes of the planner, and every figure that nobody measured, with its source."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in assumptions_text(documents, "listed below"))
    rows = [
        [figure["name"], figure["value"], figure["source"]] for figure in documents["summary"]["assumptions"]
    ]
    return page_section(
        "assumptions",
        "Assumptions",
        "figures that were assumed, each with its reasoning or the source that it was taken from; all "
        "others are measured or the vendor's, and the catalog says which",
        lines,
        data_table(["assumption", "value", "source"], rows),
    )


def scenario_section(documents: RunDocument) -> Markup:
    """The scenario with its catalog entries, as YAML."""
    return page_section(
        "scenario",
        "The scenario",
        "as it was read; profiles and catalog entries are written out",
        f'<pre tabindex="0">{escape(scenario_listing(documents["scenario"]))}</pre>',
    )


def page_foot(documents: RunDocument, origin: PageOrigin | None) -> str:
    """Version, Program, and where the page is from."""
    return "<footer>" + "".join(f"<p>{line}</p>" for line in _foot(documents, origin)) + "</footer>"


def _foot(documents: RunDocument, origin: PageOrigin | None) -> Iterator[str]:
    made = documents["provenance"]
    yield f"simcluster {escape(made['simcluster'])}; Program {escape(made['program'])}"
    if origin is not None:
        yield f"{escape(origin.date)}: <code>{escape(origin.command)}</code>"
    yield "This file is complete: it loads nothing from anywhere."
