"""What follows from a scenario before anything runs, as text."""

from __future__ import annotations

from rich.text import Text

from simcluster.draw import Column, render_text, text_table
from simcluster.report import header_rows, short_header_rows
from simcluster.simulation import BuiltScenario, planned_documents


def planned_text(path: str, built: BuiltScenario, *, colour: bool = False, details: bool = False) -> str:
    """``path: ok``, and below it the derived figures of the plan and what the user should know of it.

    ``details``: also each change by the framework profile, not their number alone.
    """
    documents = planned_documents(built)
    plan = documents["plan"]
    layers = " + ".join(map(str, plan["layers_per_stage"]))
    if len(plan["layers_per_stage"]) > 1:
        layers = f"{layers} = {sum(plan['layers_per_stage'])} in {len(plan['layers_per_stage'])} stages"
    num_classes, ranks = len(documents["classes"]), built.plan.mesh.num_ranks
    noun = "class" if num_classes == 1 else "classes"
    rows = [
        ("name", plan["name"]),
        *(header_rows(documents) if details else short_header_rows(documents)),
        ("layers", layers),
        ("ranks", f"{ranks:,} in {num_classes:,} {noun} of equal ranks"),
        *(("note", note) for note in plan["notes"]),
    ]
    head = Text.assemble((path, "bold"), ": ", ("ok", "bold green"))
    return render_text(
        head, text_table([Column(style="dim"), Column(wraps=True)], rows, indent=2), colour=colour
    )
