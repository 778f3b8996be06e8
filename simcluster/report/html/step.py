"""Where the time of a step goes: the mean over ranks, and every class of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from simcluster import units
from simcluster.draw import BarPart, Column, Markup, quantities, swatch
from simcluster.report.content import STEP_FIGURES, stage_title, step_parts, step_title
from simcluster.report.html.elements import bar_rows, data_table, folded, key_of, page_section
from simcluster.trace import Run

MOST_CLASSES = 256
"""Classes that have a bar."""

FEW = 16
"""Up to so many bars are shown without unfolding them."""


def step_section(run: Run) -> Markup:
    """The parts of a step as bars and as a table."""
    documents = run.documents
    summary, step = documents["summary"], documents["summary"]["step_time_s"]
    parts = step_parts(summary)
    rows = [
        [
            Markup(f"{swatch(part.tone)} {escape(part.name)}"),
            units.seconds(part.value),
            units.percent(part.value / step),
            units.seconds(most),
        ]
        for part, most in parts
    ]
    mean = bar_rows([("mean over ranks", [part for part, _ in parts], step, "")], units.seconds)
    return page_section(
        "step",
        "Where the time goes",
        f"{step_title(documents)}; the parts sum to the step",
        key_of((part.name, part.tone) for part, _ in parts),
        mean,
        _by_class(run, [part for part, _ in parts]),
        data_table([Column(), *quantities(*STEP_FIGURES)], rows),
    )


def class_waits(run: Run) -> list[Mapping[str, float]]:
    """By class what kernels waited for, in seconds per step: a mesh axis, the pipeline, the host, idle."""
    spent = (run.waits["end"] - run.waits["start"]).astype(np.float64)
    causes, classes = run.waits.names["cause"], run.documents["classes"]
    totals = np.zeros((len(classes), len(causes)))
    np.add.at(totals, (run.waits["class"], run.waits["cause"]), spent)
    scale = run.documents["summary"]["step_time_s"] / max(1, run.recording.end)
    return [dict(zip(causes, (row * scale).tolist(), strict=True)) for row in totals]


def _by_class(run: Run, means: list[BarPart]) -> Markup:
    """One bar per class: its waits as recorded; kernels, with launches and what slowed them, are the rest."""
    classes: list[Mapping[str, Any]] = run.documents["classes"]
    if len(classes) < 2 or len(classes) > MOST_CLASSES:
        return Markup("")
    step = run.documents["summary"]["step_time_s"]
    tones = {part.name: part.tone for part in means}
    names = {part.name.removesuffix(" communication"): part.name for part in means}
    names |= {"host": "host and dispatch", "offload": "offload wait", "input": "input wait"}
    rows = []
    for entry, waits in zip(classes, class_waits(run), strict=True):
        shown: dict[str, float] = {}
        for cause, value in waits.items():
            name = names.get(cause, cause)
            shown[name] = shown.get(name, 0.0) + value
        kernels = max(0.0, step - sum(shown.values()))
        parts = [BarPart("kernels", kernels, means[0].tone)]
        parts += [BarPart(name, shown.pop(name), tones[name]) for name in tones if name in shown]
        parts += [BarPart(name, value, means[-1].tone) for name, value in shown.items() if value]
        members = f"{stage_title(entry)}, {entry['ranks']:,} rank{'s' * (entry['ranks'] > 1)}"
        rows.append((members, parts, step, units.percent(kernels / step)))
    note = "at the right the share of kernels, with their launches and their slowing by communication"
    bars = bar_rows(rows, units.seconds)
    return folded(f"by class of equal ranks ({len(rows)}); {note}", bars, opened=len(rows) <= FEW)
