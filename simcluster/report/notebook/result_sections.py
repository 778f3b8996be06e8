"""The result as a piece of HTML for notebooks: figures, bars and timelines, nothing from outside, no scripts.

Text and lines take the colour around them, so it suits light and dark pages alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from simcluster import units
from simcluster.draw import (
    FONT,
    GREY,
    LIMIT,
    TONES,
    Column,
    Markup,
    Stack,
    TimelineBlock,
    html_legend,
    html_table,
    quantities,
    section,
    stacked_bars_svg,
    swatch,
    timeline_svg,
)
from simcluster.report.content import (
    COMMUNICATION_FIGURES,
    GROUP_FIGURES,
    NEAR,
    SERVER_FIGURES,
    STEP_FIGURES,
    TENANT_FIGURES,
    action_slices,
    assumptions_text,
    bar_scale,
    capacity_marks,
    communication_rows,
    flop_convention_text,
    header_rows,
    headroom_text,
    host_group_rows,
    inference_remarks,
    is_inference,
    job_headline,
    job_title,
    kernel_slices,
    memory,
    memory_category,
    memory_figure,
    memory_shortage,
    quoted_figures,
    row_labels,
    server_lines,
    server_rows,
    stage_memory,
    stage_title,
    step_parts,
    step_title,
    tenant_rows,
    throughput_text,
    tight_text,
    useful_work_text,
    waiting_text,
)
from simcluster.trace import Run, RunDocument

MOST_STAGES = 16
"""Rows of the timeline."""

WIDTH = 960


def result_html(run: Run) -> str:
    """The report of a run as one ``div``, at most 960 pixels wide."""
    body = "".join(_sections(run))
    style = f"max-width:{WIDTH}px;font-size:13px;line-height:1.45;color:inherit;background:none;{FONT}"
    return f'<div style="{style}">{body}</div>'


def _sections(run: Run) -> Iterator[Markup]:
    documents = run.documents
    summary = documents["summary"]
    yield Markup(f'<div style="font-size:17px;font-weight:600">{escape(documents["plan"]["name"])}</div>')
    yield from _misfit(summary)
    rows = [
        [Markup(f'<span style="opacity:.7">{label}</span>'), text] for label, text in header_rows(documents)
    ]
    yield html_table(["", ""], rows)
    yield _figures(documents)
    yield _step_breakdown(summary, step_title(documents))
    yield _memory(summary)
    yield from _listed(
        "Groups of hosts",
        waiting_text(summary),
        ["means over ranks", *quantities(*GROUP_FIGURES)],
        host_group_rows(summary),
    )
    yield from _listed(
        "Communication",
        "per step, by mesh axis",
        ["axis", *quantities(*COMMUNICATION_FIGURES), "collectives"],
        communication_rows(summary),
    )
    yield from _listed(
        "On this cluster",
        "seconds per step, alone and all at once",
        ["scenario", "hosts", *quantities(*TENANT_FIGURES), "waits longer for"],
        tenant_rows(summary),
    )
    if lines := list(server_lines(summary)):
        yield from _listed(
            "Parameter servers",
            "; ".join(lines),
            ["server", *quantities(*SERVER_FIGURES)],
            server_rows(summary),
        )
    yield from _timeline(run)
    yield from _job(documents)
    yield _foot(documents)


def _misfit(summary: RunDocument) -> Iterator[Markup]:
    over = memory_shortage(summary)
    if over is not None:
        yield _warning(LIMIT, over.sentence, [*over.details, ", ".join(over.alive)])
    elif close := tight_text(summary):
        yield _warning(NEAR, close[0], close[1:])


def _warning(colour: str, sentence: str, details: Sequence[str]) -> Markup:
    """A sentence that must not be overlooked, and what it rests on."""
    style = f"border-left:4px solid {colour};padding:2px 10px;margin:6px 0"
    title = f'<span style="color:{colour};font-weight:600">{escape(sentence)}</span>'
    return Markup(f'<div style="{style}">{title}<br>{"<br>".join(map(escape, details))}</div>')


def _figures(documents: RunDocument) -> Markup:
    """The figures that people quote, large."""
    tiles = "".join(
        f'<div style="margin:0 28px 0 0"><div style="font-size:21px;font-weight:600">{escape(value)}</div>'
        f'<div style="font-size:12px;opacity:.7">{escape(label)}</div></div>'
        for value, label in (quoted_figures(documents) if is_inference(documents) else _trained(documents))
    )
    summary = documents["summary"]
    remarks = (
        inference_remarks(documents)
        if is_inference(documents)
        else [useful_work_text(documents), flop_convention_text(summary)]
    )
    notes = "; ".join(line for line in remarks if line)
    note = f'<div style="font-size:12px;opacity:.7">{escape(notes)}</div>'
    return Markup(f'<div style="display:flex;flex-wrap:wrap;margin:10px 0 4px">{tiles}</div>{note}')


def _trained(documents: RunDocument) -> tuple[tuple[str, str], ...]:
    """Those of a training, each with what it is."""
    summary = documents["summary"]
    rate, per_device, unit = throughput_text(documents)
    return (
        (units.seconds(summary["step_time_s"]), "step time"),
        (rate, f"{unit}/s, {per_device} per device"),
        (units.percent(summary["mfu"]), f"MFU (HFU {units.percent(summary['hfu'])})"),
        (units.percent(summary["bubble_fraction"]), "of the step is pipeline wait"),
        memory_figure(summary),
    )


def _step_breakdown(summary: RunDocument, title: str) -> Markup:
    parts, step = step_parts(summary), summary["step_time_s"]
    rows = [
        [
            Markup(f"{swatch(part.tone)} {escape(part.name)}"),
            units.seconds(part.value),
            units.percent(part.value / step),
            units.seconds(most),
        ]
        for part, most in parts
    ]
    bar = Markup(stacked_bars_svg([Stack("", [part for part, _ in parts])], units.seconds, width=WIDTH))
    return section(title, "mean over ranks", bar, html_table([Column(), *quantities(*STEP_FIGURES)], rows))


def _memory(summary: RunDocument) -> Markup:
    """The peaks of stages as bars."""
    rows = stage_memory(summary["peak_memory_bytes"], MOST_STAGES)
    bars = [
        Stack(
            label,
            memory(row.worst["breakdown"]),
            f"{units.size(row.worst['total'])}, {100 * row.worst['total'] / row.worst['capacity']:.0f} %",
            row.worst["capacity"],
        )
        for label, row in zip(row_labels(rows), rows, strict=True)
    ]
    names = dict.fromkeys(name for row in rows for name, size in row.worst["breakdown"].items() if size)
    return section(
        "Memory at its peak",
        capacity_marks(rows),
        html_legend(map(memory_category, names)),
        Markup(stacked_bars_svg(bars, units.size, width=WIDTH, whole=bar_scale(rows))),
        Markup(f'<div style="font-size:12px;opacity:.7">{escape(headroom_text(summary))}</div>'),
    )


def _job(documents: RunDocument) -> Iterator[Markup]:
    """The figures of the job over days, if there is one."""
    job = documents.get("job", {})
    if "wall_s" in job:
        figures = " &nbsp; ".join(
            f"<b>{escape(value)}</b> {escape(what)}" for value, what in job_headline(job)
        )
        yield section("Job", job_title(job), Markup(f"<div>{figures}</div>"))


def _listed(
    title: str, note: str, columns: Sequence[Column | str], rows: Sequence[Sequence[str]]
) -> Iterator[Markup]:
    """A section that is one table; nothing where it has no rows."""
    if rows:
        yield section(title, note, html_table(columns, rows))


def _timeline(run: Run) -> Iterator[Markup]:
    """One class of every stage: what its compute stream worked on."""
    first: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in run.documents["classes"]:
        first.setdefault(entry["stage"], entry["class"])
        names[entry["stage"]] = stage_title(entry)
    stages = sorted(first)
    if len(stages) > MOST_STAGES:
        stages = [stages[at] for at in np.linspace(0, len(stages) - 1, MOST_STAGES).astype(int)]
    rows = [(names[stage], _blocks(run, first[stage])) for stage in stages]
    kinds = dict.fromkeys(block.tone for _, blocks in rows for block in blocks)
    if not kinds:
        return
    named = {tone: name for name, tone in reversed(_KINDS)}
    drawn = Markup(timeline_svg(rows, end=_end(run), width=WIDTH))
    note = "first to last kernel of each action of the schedule; micro-batches by number"
    yield section("Timeline", note, html_legend((named.get(tone, "other"), tone) for tone in kinds), drawn)


_KINDS = tuple(
    (name, TONES[kind])
    for kind, name in (
        ("F", "forward"),
        ("B", "backward"),
        ("W", "weight gradients"),
        ("R", "recompute"),
        ("begin", "begin"),
        ("end", "reduce and update"),
    )
)


def _blocks(run: Run, index: int) -> list[TimelineBlock]:
    compute = kernel_slices(run.recording.spans(index), index)
    slices = action_slices(compute)
    labels = [compute.names["action"][number] for number in compute["action"][slices.rows]]
    return [
        TimelineBlock(start * 1e-9, end * 1e-9, label, TONES.get(label) or TONES.get(label[:1], GREY))
        for start, end, label in zip(slices.starts.tolist(), slices.ends.tolist(), labels, strict=True)
    ]


def _end(run: Run) -> float:
    """The end of the run in seconds."""
    return run.recording.end * 1e-9


def _foot(documents: RunDocument) -> Markup:
    """What was simulated; the assumptions unfold."""
    lines = "<br>".join(escape(line) for line in assumptions_text(documents, "listed below"))
    rows = [
        [figure["name"], figure["value"], figure["source"]] for figure in documents["summary"]["assumptions"]
    ]
    listed = html_table(["assumption", "value", "source"], rows)
    style = "margin:14px 0 0;font-size:12px;opacity:.8"
    return Markup(
        f'<div style="{style}">{lines}<details><summary>Assumptions</summary>{listed}</details></div>'
    )
