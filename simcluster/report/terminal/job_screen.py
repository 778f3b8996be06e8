"""The job on the screen: what fraction of the time was progress, and where the rest went."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from simcluster import units
from simcluster.draw import Cell, Column, quantities, text_bar, text_table
from simcluster.report.content import (
    LOSS_FIGURES,
    MEMBER_FIGURES,
    RECOVERY_FIGURES,
    job_headline,
    job_parts,
    job_remarks,
    job_title,
    loss_rows,
    member_rows,
    recovery_rows,
)
from simcluster.trace import RunDocument

MOST_CAUSES, MOST_CHANGES = 8, 16


def job_renderables(documents: RunDocument, width: int, colour: bool) -> Iterator[RenderableType]:
    """The sections of the summary about the job, if there is one."""
    job = documents.get("job")
    if job is None or "wall_s" not in job:
        return
    lines = [Text.assemble(("Job", "bold"), (f"  {job_title(job)}", "dim")), *_headline(job, width)]
    remarks = job_remarks(job)
    if remarks:
        lines.append(Text("\n".join(f"  {line}" for line in remarks), "dim"))
    yield Group(*lines)
    parts = job_parts(job)
    rows: list[list[Cell]] = [
        [
            Text.assemble("  ", (part.tone.fill(colour), part.tone.style), f" {part.name}"),
            units.seconds(part.value),
            units.percent(part.value / job["wall_s"]),
        ]
        for part in parts
    ]
    bar = text_bar(parts, width - 2, scale=job["wall_s"], colour=colour)
    yield Group(
        text_table([Column("Where its time goes"), *quantities("time", "share")], rows),
        Padding(bar, (0, 0, 0, 2), expand=False),
    )
    losses = loss_rows(job, MOST_CAUSES)
    if losses:
        yield text_table([Column("Lost by cause", wraps=True), *quantities(*LOSS_FIGURES)], losses)
    if recoveries := recovery_rows(job):
        yield text_table([Column("Recovered by", wraps=True), *quantities(*RECOVERY_FIGURES)], recoveries)
    if members := member_rows(job, MOST_CHANGES):
        yield text_table([Column("Who takes part", wraps=True), *quantities(*MEMBER_FIGURES)], members)


def _headline(job: RunDocument, width: int) -> list[Text]:
    """The figures that people quote, none of them cut at the end of a line."""
    lines = [Text()]
    for value, what in job_headline(job):
        figure = Text.assemble((value, "bold cyan"), f" {what}")
        if lines[-1] and lines[-1].cell_len + 3 + figure.cell_len > width:
            lines.append(Text())
        lines[-1].append_text(Text.assemble("   " if lines[-1] else "", figure))
    return lines
