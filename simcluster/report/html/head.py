"""The head of the page: what was simulated, what must not be overlooked, the figures that people quote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from simcluster import units
from simcluster.draw import Markup
from simcluster.report.content import (
    flop_convention_text,
    header_rows,
    inference_remarks,
    is_inference,
    memory_figure,
    memory_shortage,
    quoted_figures,
    throughput_text,
    tight_text,
    unequal_devices_text,
    useful_work_text,
)
from simcluster.trace import RunDocument

FEW_CHANGES = 3
"""Changes of a framework profile that are told at once."""


def head_section(documents: RunDocument) -> Markup:
    """Title, warnings, figures, and the lines that say what was simulated."""
    return Markup("".join(_parts(documents)))


def _parts(documents: RunDocument) -> Iterator[str]:
    summary = documents["summary"]
    yield f"<h1>{escape(documents['plan']['name'])}</h1>"
    if (over := memory_shortage(summary)) is not None:
        yield _warning("", over.sentence, [*over.details, ", ".join(over.alive)])
    elif close := tight_text(summary):
        yield _warning(" near", close[0], close[1:])
    figures = quoted_figures(documents) if is_inference(documents) else _trained(documents)
    tiles = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(label)}</span></div>" for value, label in figures
    )
    yield f'<div class="figures">{tiles}</div>'
    remarks = (
        inference_remarks(documents)
        if is_inference(documents)
        else [
            useful_work_text(documents),
            flop_convention_text(summary),
            unequal_devices_text(summary),
        ]
    )
    if "error_band" in summary:
        yield f'<p class="note">{escape(summary["error_band"]["words"])}</p>'
    if said := "; ".join(line for line in remarks if line):
        yield f'<p class="note">{escape(said)}</p>'
    rows = "".join(
        f"<dt>{escape(label)}</dt><dd>{_told(label, text, documents)}</dd>"
        for label, text in header_rows(documents)
    )
    yield f"<dl>{rows}</dl>"


def _told(label: str, text: str, documents: RunDocument) -> str:
    """What a line says; what a framework changes unfolds, where it is much."""
    changes = documents["plan"].get("framework_changes", ())
    if label != "framework" or len(changes) <= FEW_CHANGES:
        return escape(text)
    name = escape(documents["plan"]["framework"])
    listed = "".join(f"<li>{escape(change)}</li>" for change in changes)
    return f"<details><summary>{name}: {len(changes)} changes</summary><ul>{listed}</ul></details>"


def _warning(kind: str, sentence: str, details: Sequence[str]) -> str:
    lines = "<br>".join(escape(line) for line in details if line)
    return f'<div class="warning{kind}" role="alert"><b>{escape(sentence)}</b><br>{lines}</div>'


def _band(summary: RunDocument) -> str:
    """How far off nine of ten comparable measured runs are, where enough were measured."""
    within = summary.get("error_band", {}).get("nine_of_ten_within")
    return "" if within is None else f", ± {units.percent(within)} in nine of ten measured runs"


def _trained(documents: RunDocument) -> tuple[tuple[str, str], ...]:
    """The figures of a training, each with what it is."""
    summary = documents["summary"]
    rate, per_device, unit = throughput_text(documents)
    return (
        (units.seconds(summary["step_time_s"]), f"step time{_band(summary)}"),
        (rate, f"{unit}/s, {per_device} per device"),
        (units.percent(summary["mfu"]), f"MFU (HFU {units.percent(summary['hfu'])})"),
        (units.percent(summary["bubble_fraction"]), "of the step is pipeline wait"),
        memory_figure(summary),
    )
