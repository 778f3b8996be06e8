"""How a job starts on the screen: a section of the summary, and what is run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from simcluster.draw import Column, quantities, render_text, screen_width, text_table
from simcluster.report.content import START_UP_FIGURES, start_up_remarks, start_up_rows, start_up_title
from simcluster.trace import RunDocument

SHOWN = 2
"""Processes of a role that are shown, and the last one."""


def start_up_section(documents: RunDocument) -> Iterator[RenderableType]:
    """The section of the summary about the start of the job, if it says how it is launched."""
    start = documents.get("job", {}).get("start_up")
    if start:
        yield _section(start)


def _section(start: RunDocument) -> RenderableType:
    rows = [[f"  {name}", *figures] for name, *figures in start_up_rows(start)]
    table = text_table([Column(start_up_title(start), wraps=True), *quantities(*START_UP_FIGURES)], rows)
    remarks = [*start_up_remarks(start)]
    failed = [Text(start["failure"], "bold red")] if start["failure"] else []
    others = [line for line in remarks if line != start["failure"]]
    parts: list[RenderableType] = [table]
    parts += [Padding(line, (0, 0, 0, 2), expand=False) for line in failed]
    if others:
        parts.append(Padding(Text("\n".join(others), "dim"), (0, 0, 0, 2), expand=False))
    return Group(*parts)


def launch_text(document: RunDocument, *, width: int | None = None, colour: bool = False) -> str:
    """What is run, role by role, and how the job starts."""
    columns = screen_width(width)
    parts: list[RenderableType] = [
        Text.assemble((document["name"], "bold"), (f"  launched by {document['method']}", "dim")),
        "",
    ]
    for entry in document["processes"]:
        parts += [Text.assemble((_role(entry), "bold")), *_commands(entry), ""]
    parts.append(_section(document["start_up"]))
    return render_text(Group(*parts), width=columns, colour=colour)


def _role(entry: RunDocument) -> str:
    count, hosts = entry["processes"], len(set(entry["hosts"]))
    where = f"on {entry['hosts'][0]}" if hosts == 1 else f"on {hosts:,} hosts"
    return f"{entry['role']}: {count:,} process{'es' * (count != 1)} {where}"


def _commands(entry: RunDocument) -> Iterator[RenderableType]:
    """The first processes of a role, and the last."""
    count = entry["processes"]
    shown = range(count) if count <= SHOWN + 1 else [*range(SHOWN), -1, count - 1]
    several = len(set(entry["hosts"])) > 1
    for index in shown:
        if index < 0:
            yield Text("  ...", "dim")
            continue
        where = f"{entry['hosts'][index]}: " if several else ""
        line = Text.assemble((where, "dim"), command_line(entry, index))
        yield Padding(line, (0, 0, 0, 2), expand=False)


def command_line(entry: RunDocument, index: int) -> str:
    """A process as it would be typed: its variables, then the command."""
    own: dict[str, Any] = {name: values[index] for name, values in entry["own"].items()}
    command = entry["command"]
    for name in [name for name in own if f"{{{name}}}" in command]:
        command = command.replace(f"{{{name}}}", own.pop(name))
    variables = {**entry["environment"], **own}
    return " ".join([*(f"{name}={value}" for name, value in variables.items()), command])
