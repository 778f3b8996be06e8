"""The summary: one screen that says how long a step takes, where the time goes, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from simcluster import units
from simcluster.draw import (
    Cell,
    Column,
    quantities,
    render_text,
    screen_width,
    text_bar,
    text_legend,
    text_table,
    wrap_items,
)
from simcluster.report.content import (
    COMMUNICATION_FIGURES,
    GROUP_FIGURES,
    HOST_COLUMNS,
    SERVER_FIGURES,
    STEP_FIGURES,
    TENANT_FIGURES,
    StageMemory,
    assumptions_text,
    bar_scale,
    capacity_marks,
    checkpoint_rows,
    communication_rows,
    flop_convention_text,
    header_rows,
    headroom_text,
    host_group_rows,
    host_rows,
    inference_remarks,
    is_inference,
    memory,
    memory_shortage,
    quoted_figures,
    reserved_text,
    row_labels,
    server_lines,
    server_rows,
    short_header_rows,
    stage_memory,
    step_parts,
    step_title,
    tenant_rows,
    throughput_text,
    tight_text,
    unequal_devices_text,
    useful_work_text,
    verdict_text,
    waiting_text,
)
from simcluster.report.terminal.job_screen import job_renderables
from simcluster.report.terminal.start_up_screen import start_up_section
from simcluster.trace import Run, RunDocument

MOST_STAGES = 8
"""Rows of the memory section: with them, everything stays on one screen."""

WIDE = 76
"""Columns of a screen that has room for the last column of tables."""


def summary_text(run: Run, *, width: int | None = None, colour: bool = False, details: bool = True) -> str:
    """The summary of a run as text, at most ``width`` columns wide (default: the terminal's, up to 120).

    ``colour`` adds ANSI codes; nothing is said by colour alone. Without ``details`` the head leaves out what
    the framework's profile changes, and says how it is told.
    """
    columns = screen_width(width)
    drawn = summary_renderable(run, columns, colour=colour, details=details)
    return render_text(drawn, width=columns, colour=colour)


def summary_renderable(run: Run, width: int, *, colour: bool = False, details: bool = True) -> RenderableType:
    """The summary as a rich renderable, drawn for ``width`` columns with or without ``colour``; ``details``
    as in ``summary_text``.
    """
    documents = run.documents
    summary = documents["summary"]
    sections = [
        *_misfit(summary, width),
        _head(documents, details),
        _figures(documents),
        _step_breakdown(summary, step_title(documents), width, colour),
        _memory(documents, width, colour),
        *_hosts(summary, width),
        *_groups(summary),
        *_communication(summary, width),
        *_servers(summary),
        *_tenants(summary),
        *_checkpoints(documents),
        *job_renderables(documents, width, colour),
        *start_up_section(documents),
        Text("\n".join(assumptions_text(documents)), "dim"),
    ]
    return Group(*(part for section in sections for part in (section, "")))


def _title(text: str, note: str) -> Text:
    return Text.assemble((text, "bold"), (f"  {note}", "dim"))


def _misfit(summary: RunDocument, width: int) -> Iterator[RenderableType]:
    over = memory_shortage(summary)
    if over is None:
        if close := tight_text(summary):
            where = _indented(Text("\n".join(close[1:]), "yellow"))
            yield Group(Text(close[0], "bold yellow"), where)
        return
    lines: list[RenderableType] = [Text(over.sentence, "bold red")]
    if over.details:
        lines.append(_indented(Text("\n".join(over.details), "red")))
        lines.append(Padding(Text(style="red").append_text(wrap_items(over.alive, width - 4)), (0, 0, 0, 4)))
    yield Group(*lines)


def _indented(what: RenderableType) -> RenderableType:
    return Padding(what, (0, 0, 0, 2), expand=False)


def _head(documents: RunDocument, details: bool) -> RenderableType:
    told = header_rows(documents) if details else short_header_rows(documents)
    rows = text_table([Column(style="dim"), Column(wraps=True)], told, indent=2)
    return Group(Text(documents["plan"]["name"], "bold"), rows)


def _figures(documents: RunDocument) -> RenderableType:
    """The figures that people quote."""
    summary = documents["summary"]
    if is_inference(documents):
        parts = [
            part
            for value, what in quoted_figures(documents)
            for part in ((value, "bold cyan"), f" {what}   ")
        ]
        return Group(
            Text.assemble(*parts[:-2]), _indented(Text("\n".join(inference_remarks(documents)), "dim"))
        )
    rate, per_device, unit = throughput_text(documents)
    text = Text.assemble(
        *("Step time ", (units.seconds(summary["step_time_s"]), "bold cyan"), "   "),
        *((rate, "bold cyan"), f" {unit}/s ({per_device} per device)   "),
        *("MFU ", (units.percent(summary["mfu"]), "bold cyan"), f" (HFU {units.percent(summary['hfu'])})"),
    )
    said = (useful_work_text(documents), flop_convention_text(summary), unequal_devices_text(summary))
    notes = [line for line in said if line]
    return Group(text, _indented(Text("\n".join(notes), "dim")))


def _step_breakdown(summary: RunDocument, title: str, width: int, colour: bool) -> RenderableType:
    """The parts of the step: the table, and below it the bar."""
    parts, step = step_parts(summary), summary["step_time_s"]
    rows: list[list[Cell]] = [
        [
            Text.assemble("  ", (part.tone.fill(colour), part.tone.style), f" {part.name}"),
            units.seconds(part.value),
            units.percent(part.value / step),
            units.seconds(most),
        ]
        for part, most in parts
    ]
    return Group(
        text_table([Column(title), *quantities(*STEP_FIGURES)], rows),
        _indented(text_bar([part for part, _ in parts], width - 2, scale=step, colour=colour)),
    )


def _memory(documents: RunDocument, width: int, colour: bool) -> RenderableType:
    """A bar per stage against the capacity of its device, what its allocator reserves, and what is left."""
    summary = documents["summary"]
    most = MOST_STAGES if verdict_text(summary) == "fits" else MOST_STAGES - 2
    rows = stage_memory(summary["peak_memory_bytes"], most)
    names, remarks, whole = row_labels(rows), [_remark(row, width) for row in rows], bar_scale(rows)
    wide = max(10, width - 26 - max(map(len, names)) - max(map(len, remarks)))
    cells: list[list[Cell]] = []
    for name, row, remark in zip(names, rows, remarks, strict=True):
        worst, over = row.worst, verdict_text(row.worst) == "does not fit"
        parts, limit = memory(worst["breakdown"]), worst["capacity"]
        cells.append(
            [
                name,
                text_bar(parts, wide, scale=whole * limit, limit=limit, colour=colour),
                Text(units.size(worst["total"]), "bold red" if over else ""),
                f"{100 * worst['total'] / limit:.0f} %",
                Text(remark, "red" if over else "dim"),
            ]
        )
    categories = {name: 1 for row in rows for name, size in row.worst["breakdown"].items() if size}
    return Group(
        _title("Memory at its peak", capacity_marks(rows)),
        _indented(text_legend(memory(categories), width - 2, colour=colour)),
        text_table(["", "", Column(quantity=True), Column(quantity=True), ""], cells, indent=2),
        *(
            _indented(Text(line, "dim"))
            for line in (reserved_text(documents), headroom_text(summary))
            if line
        ),
    )


def _remark(row: StageMemory, width: int) -> str:
    """The biggest categories of a stage, or how much is too much."""
    if verdict_text(row.worst) == "does not fit":
        return f"{units.size(row.worst['excess'])} too much"
    count = 2 if width >= 118 else 1 if width >= 80 else 0
    parts = sorted(memory(row.worst["breakdown"]), key=lambda part: -part.value)[:count]
    return ", ".join(f"{part.name} {units.size(part.value)}" for part in parts if part.value)


def _listed(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[RenderableType]:
    """Indented rows, of each as many cells as there are columns; nothing where there are no rows."""
    if rows:
        yield text_table(columns, [[f"  {name}", *cells[: len(columns) - 1]] for name, *cells in rows])


def _hosts(summary: RunDocument, width: int) -> Iterator[RenderableType]:
    """What hosts hold for their devices."""
    head, *figures, most = HOST_COLUMNS
    columns = [Column(head, wraps=True), *quantities(*figures)]
    return _listed(columns + [Column(most, wraps=True)] * (width >= WIDE), host_rows(summary))


def _groups(summary: RunDocument) -> Iterator[RenderableType]:
    """Per group of hosts of a mixed cluster what its ranks do with the step."""
    columns = [Column("Groups of hosts, means", wraps=True), *quantities(*GROUP_FIGURES)]
    for table in _listed(columns, host_group_rows(summary)):
        yield Group(table, _indented(Text(waiting_text(summary), "dim")))


def _communication(summary: RunDocument, width: int) -> Iterator[RenderableType]:
    """Per mesh axis what a rank sends in a step, and for how long nothing hides it."""
    columns = [Column("Communication"), *quantities(*COMMUNICATION_FIGURES)]
    more = [Column("collectives", wraps=True)] * (width >= WIDE)
    return _listed(columns + more, communication_rows(summary))


def _checkpoints(documents: RunDocument) -> Iterator[RenderableType]:
    """What is saved, and what that costs."""
    rows = checkpoint_rows(documents)
    if rows:
        yield Group(
            Text("Checkpoints", "bold"), text_table([Column(style="dim"), Column(wraps=True)], rows, indent=2)
        )


def _servers(summary: RunDocument) -> Iterator[RenderableType]:
    """What parameter servers do, and what workers wait for."""
    if lines := list(server_lines(summary)):
        yield Group(Text("Parameter servers", "bold"), *(_indented(Text(line)) for line in lines))
        yield from _listed([Column("Servers"), *quantities(*SERVER_FIGURES)], server_rows(summary))


def _tenants(summary: RunDocument) -> Iterator[RenderableType]:
    """Who shares the cluster, and how much longer a step takes for it."""
    names = [Column("On this cluster", wraps=True), Column("hosts", wraps=True)]
    longer = Column("waits longer for", wraps=True)
    return _listed([*names, *quantities(*TENANT_FIGURES), longer], tenant_rows(summary))
