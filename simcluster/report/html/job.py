"""The job: how it starts, its figures, where its time went, and a picture of the days."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from simcluster import units
from simcluster.draw import Column, Markup, quantities, step_curve_svg, timeline_svg
from simcluster.report.content import (
    LOSS_FIGURES,
    MEMBER_FIGURES,
    RECOVERY_FIGURES,
    START_UP_FIGURES,
    day_rows,
    job_headline,
    job_parts,
    job_remarks,
    job_title,
    loss_rows,
    member_rows,
    recovery_rows,
    start_up_remarks,
    start_up_rows,
    start_up_title,
)
from simcluster.report.html.elements import bar_rows, data_table, key_of, page_section, scrolling
from simcluster.trace import RunDocument

MOST_CAUSES = 24

DRAWN = 960
"""Width of drawings, in pixels."""


def job_section(documents: RunDocument) -> Markup:
    """How the job starts, and its days, where the scenario has them."""
    job: RunDocument = documents.get("job", {})
    days = list(_days(job)) if "wall_s" in job else []
    return page_section("job", "The job", job_title(job) if days else "", *_start(job), *days)


def _start(job: RunDocument) -> Iterator[str]:
    """What comes before the first step, phase by phase."""
    start = job.get("start_up")
    if not start:
        return
    phases: list[Column | str] = ["phase", *quantities(*START_UP_FIGURES)]
    yield f"<h3>{escape(start_up_title(start))}</h3>"
    yield f'<p class="note">{escape("; ".join(start_up_remarks(start)))}</p>'
    yield data_table(phases, start_up_rows(start))


def _days(job: RunDocument) -> Iterator[str]:
    tiles = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(what)}</span></div>" for value, what in job_headline(job)
    )
    yield f'<div class="figures">{tiles}</div>'
    yield "".join(f'<p class="note">{escape(line)}</p>' for line in job_remarks(job))
    parts = job_parts(job)
    yield "<h3>Where its time goes</h3>"
    yield key_of((part.name, part.tone) for part in parts)
    yield bar_rows([("the job", parts, sum(part.value for part in parts), "")], units.seconds)
    rows, length = day_rows(job)
    if rows:
        yield f"<h3>Its days</h3>{scrolling(timeline_svg(rows, end=length, width=DRAWN))}"
    steps = job["step_times"]
    if len({(step, samples) for _, _, step, samples in steps}) > 1:
        curve = step_curve_svg([(start, end, step) for start, end, step, _ in steps], width=DRAWN)
        yield f"<h3>Step time over the time of the job</h3>{scrolling(curve)}"
    if losses := loss_rows(job, MOST_CAUSES):
        yield f"<h3>Lost by cause</h3>{data_table(['cause', *quantities(*LOSS_FIGURES)], losses)}"
    if recoveries := recovery_rows(job):
        yield f"<h3>Came back by</h3>{data_table(['policy', *quantities(*RECOVERY_FIGURES)], recoveries)}"
    if members := member_rows(job, MOST_CAUSES):
        yield f"<h3>Who takes part</h3>{data_table(['change', *quantities(*MEMBER_FIGURES)], members)}"
