"""What verify found: the small plan that was run, and how far its values are from one device's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from simcluster.draw import Cell, Column, render_text, renderables_html, screen_width, text_table, wrap_items
from simcluster.trace import RunDocument

_MOST_RANKS = 12


def verification_text(document: RunDocument, *, width: int | None = None, colour: bool = False) -> str:
    """A verification's document as text: verdict, how the plan was shrunk, a line per kind of tensor.

    Where values differ, the first tensor that does and the ranks that disagree.
    """
    columns = screen_width(width)
    return render_text(Group(*_parts(document, columns)), width=columns, colour=colour)


def verification_html(document: RunDocument) -> str:
    """The same for a notebook."""
    return renderables_html(*_parts(document, screen_width(None)))


def _parts(document: RunDocument, width: int) -> Iterator[RenderableType]:
    agrees = document["agrees"]
    yield Text.assemble(
        (document["name"], "bold"),
        "  ",
        ("agrees with one device", "bold green") if agrees else ("DIFFERS from one device", "bold red"),
    )
    yield Text(
        f"  {document['ranks']} ranks, {_steps(document['steps'])}, {document['dtype']}, "
        f"relative tolerance {document['tolerance']:g}",
        "dim",
    )
    if document["changes"]:
        yield ""
        yield Text("Shrunk for values", "bold")
        shrunk = [f"{what} {before} -> {after}" for what, before, after in document["changes"]]
        yield Padding(wrap_items(shrunk, width - 2), (0, 0, 0, 2))
    if document["comparisons"]:
        yield ""
        yield text_table(_COLUMNS, _rows(document["comparisons"]))
    if stale := document.get("staleness"):
        mean = sum(count * number for number, count in enumerate(stale)) / sum(stale)
        yield ""
        yield Text(
            f"  {sum(stale):,} updates of servers in their recorded order; weights had been updated "
            f"{mean:.2f} times by others since they were pulled, at most {len(stale) - 1:,}",
            "dim",
        )
    if not agrees:
        yield ""
        yield from _difference(document)


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


_COLUMNS = (
    Column("Compared"),
    Column("step", quantity=True),
    Column("tensors", quantity=True),
    Column("largest error", quantity=True),
    Column("in"),
    Column("verdict"),
)


def _rows(comparisons: Sequence[RunDocument]) -> Iterator[Sequence[Cell]]:
    """One row per step and kind, in the order in which they were compared."""
    for (step, what), group in groupby(
        comparisons, key=lambda comparison: (comparison["step"], comparison["what"])
    ):
        compared = list(group)
        worst = max(
            compared, key=lambda comparison: (not comparison["error"] <= float("inf"), comparison["error"])
        )
        wrong = [comparison for comparison in compared if comparison["ranks"]]
        verdict = Text(f"{len(wrong)} differ", "red") if wrong else Text("agrees", "green")
        yield (what, str(step + 1), str(len(compared)), f"{worst['error']:.1e}", worst["name"], verdict)


def _difference(document: RunDocument) -> Iterator[RenderableType]:
    if document["fault"]:
        yield Text.assemble(("The plan could not be run: ", "red"), document["fault"])
        return
    first = next((comparison for comparison in document["comparisons"] if comparison["ranks"]), None)
    if first is None:
        yield Text("Nothing was compared.", "red")
        return
    ranks = first["ranks"]
    listed = ", ".join(map(str, ranks[:_MOST_RANKS])) + (" ..." if len(ranks) > _MOST_RANKS else "")
    yield Text.assemble(
        ("First difference: ", "red"),
        f"{first['what']} of {first['name']} in step {first['step'] + 1}, "
        f"off by {first['error']:.1e} of its largest value "
        f"on {len(ranks)} of {document['ranks']} ranks: {listed}",
    )
