"""An explanation to read, and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simcluster.advice import Tip, gains
from simcluster.draw import (
    BLUE,
    GREEN,
    GREY,
    OLIVE,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    TEAL,
    YELLOW,
    html_bar,
    render_text,
    renderables_html,
)
from simcluster.explanation.bottleneck import bottleneck_text, step_parts_of
from simcluster.explanation.explanation import Explanation
from simcluster.explanation.memory_report import memory_document, memory_parts
from simcluster.explanation.time_report import time_parts

_TONES = (BLUE, TEAL, ORANGE, PURPLE, YELLOW, RED, GREEN, PINK, OLIVE, GREY)


def explanation_text(explanation: Explanation, *, colour: bool = False) -> str:
    """Where the time of a step goes, its critical path, what would help, and the same of memory."""
    return render_text(*_parts(explanation), colour=colour)


def explanation_html(explanation: Explanation) -> str:
    """The same for a notebook: what the step is made of as a bar, then the tables."""
    title, *others = _parts(explanation)
    parts = zip(step_parts_of(explanation.run.documents), cycle(_TONES), strict=False)
    bar = html_bar((part.name, part.share, tone) for part, tone in parts)
    return f"{renderables_html(title)}{bar}{renderables_html(*others)}"


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """The same as JSON-able data, SI units."""
    documents = explanation.run.documents
    path = documents.get("critical_path")
    return {
        "name": documents["plan"]["name"],
        "step_time_s": explanation.present.step,
        "bottleneck": bottleneck_text(documents),
        "parts": [{"name": part.name, "share": part.share} for part in step_parts_of(documents)],
        "time_use": documents["time_use"],
        "critical_path": None if path is None else {key: path[key] for key in path if key != "spans"},
        "tips": [_tip(explanation, tip) for tip in explanation.tips],
        "untried": [
            {"kind": change.kind, "set": [f"{key}={text}" for key, text in change.changes], "why": change.why}
            for change in explanation.untried
        ],
        "better_hardware": [
            {
                "factor": figure.name.lower(),
                "label": str(figure),
                "better_s": step,
                "better": step / explanation.present.step - 1,
            }
            for figure, step in explanation.better.items()
        ],
        **memory_document(explanation),
    }


def _tip(explanation: Explanation, tip: Tip) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": tip.kind, "set": list(tip.trial.settings), "why": tip.why}
    if tip.trial.refused:
        return entry | {"refused": tip.trial.refused}
    present = explanation.present
    return entry | {
        "gains": gains(present, tip.trial),
        "step_time_s": tip.trial.step,
        "slower": tip.trial.step / present.step - 1,
        "needed": tip.trial.use.needed,
        **tip.trial.use.document(),
    }


def _parts(explanation: Explanation) -> Iterator[RenderableType]:
    yield Text(explanation.run.documents["plan"]["name"], "bold")
    yield from time_parts(explanation)
    yield ""
    yield from memory_parts(explanation)
