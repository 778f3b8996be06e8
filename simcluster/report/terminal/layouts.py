"""The layouts of all operators as text: where strategies come from, what moves between layouts, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from simcluster import units
from simcluster.document import matches
from simcluster.draw import render_text, screen_width, wrap_items
from simcluster.trace import RunDocument


def layouts_text(
    document: Sequence[RunDocument],
    pattern: str | None = None,
    *,
    width: int | None = None,
    colour: bool = False,
) -> str:
    """The layouts document of a run as text: blocks, their phases, operators and redistributions.

    ``pattern`` keeps operators by their full name (``layers.*.mlp.{up,down}``): ``*`` is any run of
    characters, ``?`` one, ``{a,b}`` either. A remark is all that is left if none fits.
    """
    columns = screen_width(width)
    parts = [part for block in document for part in _block(block, pattern, columns)]
    if not parts:
        return f"no operator is called '{pattern}'"
    return render_text(Group(*parts), width=columns, colour=colour)


def _block(block: RunDocument, pattern: str | None, width: int) -> Iterator[RenderableType]:
    """A heading, then the operators of every phase."""
    names, nodes = block["names"], block["nodes"]
    if pattern is not None:
        names, nodes = _fitting(names, nodes, pattern)
    if not nodes:
        return
    count = f"{len(names)} instances" if len(names) > 1 else "1 instance"
    yield Text.assemble((name_ranges(names), "bold"), (f"  block {block['block']}, {count}", "dim"))
    phase = ""
    for node in nodes:
        if node["phase"] != phase:
            phase = node["phase"]
            yield Text(f"  {phase}", "cyan")
        yield from _node(node, width)
    yield ""


def _fitting(
    names: Sequence[str], nodes: Sequence[RunDocument], pattern: str
) -> tuple[list[str], list[RunDocument]]:
    """The instances and the nodes that occur in a full name the pattern fits."""
    fitting = [
        (name, index)
        for name in names
        for index, node in enumerate(nodes)
        if matches(pattern, f"{name}.{node['name']}")
    ]
    kept = {index for _, index in fitting}
    return list(dict.fromkeys(name for name, _ in fitting)), [
        node for index, node in enumerate(nodes) if index in kept
    ]


def _node(node: RunDocument, width: int) -> Iterator[RenderableType]:
    """An operator with its strategy and layouts; or a movement with its cost, layouts and reason."""
    head = [Text(node["name"], "bold"), Text(node["kind"], "yellow" if "why" in node else "green")]
    if "why" in node:
        time = f" in {units.seconds(node['seconds'])}" if node["seconds"] else ""
        head.append(Text(f"{units.volume(node['bytes'])}{time}"))
    else:
        if node["strategy"]:
            head.append(Text(node["strategy"]))
        if "padding" in node:
            head.append(Text(node["padding"], "magenta"))
        if node["source"]:
            head.append(Text(f"({node['source']})", "dim"))
    if "place" in node:
        head.append(Text(f"on the {node['place']}", "cyan"))
    if "graph" in node:
        head.append(Text(f"in graph {node['graph']}", "dim"))
    yield _indented(wrap_items(head, width - 4, "  "), 4)
    why = node.get("why", "")
    if not (why and why.endswith(f"needs {node['outputs'][0][1]}")):
        inside, out = _values(node, "inputs"), _values(node, "outputs")
        one_line = f"{', '.join(inside)} -> {', '.join(out)}"
        if len(one_line) > width - 8:
            yield _indented(wrap_items(inside, width - 8), 8)
            yield _indented(wrap_items([f"-> {out[0]}", *out[1:]], width - 8), 8)
        else:
            yield _indented(Text(one_line), 8)
    if "maps" in node:
        yield _indented(Text(_maps(node["maps"])), 8)
    if why:
        yield _indented(wrap_items(why.split("; "), width - 8, "; "), 8)
    if node.get("kernel"):
        yield _indented(Text(f"together with {node['kernel']}"), 8)


def _maps(maps: RunDocument) -> str:
    """``device matrix [2, 1, 4]  tensor maps [2, 1], [1, 0] -> [2, 0]``."""
    inputs, outputs = (", ".join(map(str, maps[key])) for key in ("inputs", "outputs"))
    return f"device matrix {maps['device_matrix']}  tensor maps {inputs} -> {outputs}"


def _indented(what: Text, indent: int) -> RenderableType:
    what.stylize("dim" if indent > 4 else "")
    return Padding(what, (0, 0, 0, indent))


def _values(node: RunDocument, key: str) -> list[str]:
    """``in (data, -)``, ``weight (-)``: the values by their names within the operator, and how they lie."""
    start = f"{node['name']}."
    return [f"{value.removeprefix(start)} {layout}" for value, layout in node[key]]


def name_ranges(names: Sequence[str]) -> str:
    """Names with runs of numbers as ranges: ``embedding, layers.0 .. layers.79``."""
    runs: list[list[str]] = []
    for name in names:
        stem, _, number = name.rpartition(".")
        previous = runs[-1][-1] if runs else ""
        follows = number.isdigit() and number != "0" and previous == f"{stem}.{int(number) - 1}"
        if follows:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} .. {run[-1]}" for run in runs)
