"""What a fit to training runs changed, what each figure gains, and the errors of runs that were left out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.calibration.figure_yaml import yaml_text
from simcluster.calibration.fit import median_error
from simcluster.calibration.run_fit import RunFit
from simcluster.draw import Column, quantities, render_text, text_table


def run_fit_text(fit: RunFit, *, colour: bool = False) -> str:
    """Two tables to read: median errors of steps by publisher, and the figures."""
    errors = list(_errors(fit))
    titles = quantities("runs", "before", "after", "models left out", "publishers left out")
    parts: list[RenderableType] = [
        Text("Median errors of measured steps", "bold"),
        "",
        text_table(["publisher", *titles], errors),
    ]
    figures = [
        [
            move.parameter.key,
            move.owner,
            f"{move.runs:,}",
            f"{move.multiple:.3f} x",
            f"{100 * move.gain:+.2f} points",
        ]
        for move in fit.moves
    ]
    if figures:
        parts += [
            "",
            Text(
                "Figures that change: the multiple of what the files have, and by how much the median error "
                "grows without it",
                "bold",
            ),
            "",
            text_table(
                ["figure", Column("of", wraps=True), *quantities("runs", "multiple", "gain")], figures
            ),
        ]
    else:
        parts += ["", Text("No figure changes: no change reduces the errors enough.")]
    return render_text(*parts, colour=colour)


def run_fit_yaml(fit: RunFit) -> str:
    """The figures that change, as multiples of what the files have."""
    moves = [
        {"figure": move.parameter.key, "of": move.owner, "times": round(move.multiple, 4), "runs": move.runs}
        for move in fit.moves
    ]
    return yaml_text({"figures": moves})


def _errors(fit: RunFit) -> Iterator[list[str]]:
    groups = np.array([run.row.group for run in fit.runs])
    for group in [*sorted(set(groups.tolist())), "all"]:
        chosen = groups == group if group != "all" else np.ones(len(groups), bool)
        columns = (fit.before, fit.after, fit.unseen_models, fit.unseen_sources)
        yield [
            group,
            f"{chosen.sum():,}",
            *(units.percent(median_error(column[chosen])) for column in columns),
        ]
