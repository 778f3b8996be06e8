"""What a fit changed, what each figure gains, and how well it predicts rows that were left out."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.calibration.fit import DeviceFit
from simcluster.calibration.implementation_fit import PassFit
from simcluster.draw import Column, quantities, render_text, text_table


def fit_text(fit: DeviceFit, *, colour: bool = False) -> str:
    """Two tables to read: errors by kind of kernel, and the figures."""
    kinds = [
        [
            stage.stage.name,
            f"{len(stage.rows):,}",
            *(
                _percent(error)
                for error in (stage.before, stage.after, stage.unseen_shapes, stage.unseen_sources)
            ),
        ]
        for stage in fit.stages
    ]
    figures = [
        [move.parameter.key, f"{move.before:.4g}", f"{move.after:.4g}", f"{100 * move.gain:+.1f} points"]
        for stage in fit.stages
        for move in stage.moves
    ]
    titles = quantities("rows", "before", "after", "shapes left out", "sources left out")
    parts: list[RenderableType] = [
        Text(f"{fit.name}: median errors of measured kernels", "bold"),
        "",
        text_table([Column("kernels", wraps=True), *titles], kinds),
    ]
    if figures:
        parts += [
            "",
            Text("Figures that change, and by how much the median error grows without the change", "bold"),
            "",
            text_table(["figure", *quantities("before", "after", "gain")], figures),
        ]
    return render_text(*parts, colour=colour)


def _percent(error: float | None) -> str:
    return "-" if error is None else units.percent(error)


def passes_text(fits: Sequence[PassFit], *, colour: bool = False) -> str:
    """A table to read: traffic and floor of every operator of an implementation."""
    lines = [
        [
            fit.operator,
            fit.direction,
            f"{len(fit.rows):,}",
            f"{fit.traffic:.2f} x",
            units.seconds(fit.floor) if fit.floor else "-",
            units.percent(fit.error),
            _percent(fit.unseen_shapes),
        ]
        for fit in fits
    ]
    titles = quantities("rows", "traffic", "at least", "median error", "shapes left out")
    head = Text("Bytes moved against the least, by operator", "bold")
    return render_text(head, "", text_table(["operator", "direction", *titles], lines), colour=colour)
