"""The job in HTML: figures, where its time went, and a picture of the days."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from simcluster import units
from simcluster.draw import (
    Markup,
    Stack,
    html_legend,
    html_table,
    quantities,
    section,
    stacked_bars_svg,
    step_curve_svg,
    timeline_svg,
)
from simcluster.report.content import (
    LOSS_FIGURES,
    RECOVERY_FIGURES,
    day_rows,
    job_headline,
    job_parts,
    job_remarks,
    job_title,
    loss_rows,
    recovery_rows,
)
from simcluster.trace import RunDocument

MOST_CAUSES = 24


def job_sections_html(documents: RunDocument, width: float) -> Iterator[Markup]:
    """The sections about the job, if there is one."""
    job = documents.get("job")
    if job is None or "wall_s" not in job:
        return
    figures = " &nbsp; ".join(f"<b>{escape(value)}</b> {escape(what)}" for value, what in job_headline(job))
    remarks = "<br>".join(escape(line) for line in job_remarks(job))
    yield section(
        "Job",
        job_title(job),
        Markup(f"<div>{figures}</div>"),
        Markup(f'<div style="opacity:.7">{remarks}</div>' if remarks else ""),
    )
    parts = job_parts(job)
    yield section(
        "Where its time goes",
        "",
        html_legend([(part.name, part.tone) for part in parts]),
        Markup(stacked_bars_svg([Stack("", parts)], units.seconds, width=width)),
    )
    rows, length = day_rows(job)
    if rows:
        yield section("Its days", "", Markup(timeline_svg(rows, end=length, width=width)))
    steps = job["step_times"]
    if len({(step, samples) for _, _, step, samples in steps}) > 1:
        curve = step_curve_svg([(start, end, step) for start, end, step, _ in steps], width=width)
        yield section("Step time", "over the time of the job", Markup(curve))
    losses = loss_rows(job, MOST_CAUSES)
    if losses:
        yield section("Lost by cause", "", html_table(["cause", *quantities(*LOSS_FIGURES)], losses))
    if recoveries := recovery_rows(job):
        yield section("Recovered by", "", html_table(["policy", *quantities(*RECOVERY_FIGURES)], recoveries))
