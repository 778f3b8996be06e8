"""What-if answers to read, as a tornado diagram, and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.draw import (
    FONT,
    GREEN,
    ORANGE,
    Canvas,
    Column,
    Markup,
    html_page,
    html_table,
    quantities,
    render_text,
    section,
    text_table,
)
from simcluster.what_if.figure_effects import FigureEffect, WhatIf

_HALF = 14
"""Characters of the longest bar to one side."""
_WIDTH, _ROW, _LABEL, _NOTE = 960, 26, 190, 90
"""Pixels of the picture: its width, a row, the labels to the left, a figure to either side."""


def what_if_document(answer: WhatIf) -> dict[str, Any]:
    """The answer as JSON-able data, SI units; ``better`` and ``worse`` are shares of the step."""
    return {
        "name": answer.name,
        "what": answer.what,
        "step_time_s": answer.present,
        "by": answer.by,
        "factors": [
            {
                "factor": effect.figure.name.lower(),
                "label": str(effect.figure),
                "better_s": effect.better,
                "worse_s": effect.worse,
                "better": effect.gain,
                "worse": effect.loss,
            }
            for effect in answer.effects
        ],
    }


def what_if_text(answer: WhatIf, *, colour: bool = False) -> str:
    """A table with bars: to the left what better figures gain, to the right what worse ones lose."""
    return render_text(*_parts(answer), colour=colour)


def what_if_page(answer: WhatIf) -> str:
    """The same as a page for a browser."""
    style = f"margin:24px auto;max-width:{_WIDTH}px;font-size:13px;line-height:1.45;{FONT}"
    return html_page(f"What if: {answer.name}", style, what_if_html(answer))


def what_if_html(answer: WhatIf) -> str:
    """The diagram and its table as one ``div``, without scripts or anything from outside."""
    rows = [
        [
            str(effect.figure),
            *(units.seconds(effect.better), _percent(effect.gain)),
            *(units.seconds(effect.worse), _percent(effect.loss)),
        ]
        for effect in answer.mattering
    ]
    titles = (f"{answer.what} if better", "change", f"{answer.what} if worse", "change")
    columns: list[Column | str] = ["", *quantities(*titles)]
    note = " ".join(filter(None, (_present(answer), _rule(answer), _without(answer))))
    parts = [Markup(_tornado(answer)), html_table(columns, rows)] if rows else []
    return f"<div>{section(f'What if: {answer.name}', note, *parts)}</div>"


def _parts(answer: WhatIf) -> Iterator[RenderableType]:
    yield Text(answer.name, "bold")
    yield Text(_present(answer))
    yield Text(_rule(answer), "dim")
    if answer.mattering:
        yield ""
        columns = [Column(f"The {answer.what} with"), *quantities("better", "worse"), Column()]
        yield text_table(columns, [_row(answer, effect) for effect in answer.mattering])
    if without := _without(answer):
        yield ""
        yield Text(without)


def _present(answer: WhatIf) -> str:
    return f"The {answer.what} takes {units.seconds(answer.present)}."


def _rule(answer: WhatIf) -> str:
    factor = f"{1 + answer.by:g}"
    return (
        f"Better: rates times {factor}, or latencies and overheads divided by {factor}; worse: the other way "
        "around. One figure at a time; the plan stays."
    )


def _without(answer: WhatIf) -> str:
    """Which figures change nothing."""
    names = [str(effect.figure) for effect in answer.effects if not effect.matters]
    return f"Almost no effect: {', '.join(names)}." if names else ""


def _row(answer: WhatIf, effect: FigureEffect) -> list[str | Text]:
    left, right = (round(_HALF * length / _longest(answer)) for length in (_shorter(effect), _longer(effect)))
    bars = Text.assemble(
        (f"{GREEN.fill(False) * left:>{_HALF}}", GREEN.style), "|", (ORANGE.fill(False) * right, ORANGE.style)
    )
    return [str(effect.figure), _percent(effect.gain), _percent(effect.loss), bars]


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %"


def _shorter(effect: FigureEffect) -> float:
    """How much shorter the step gets, whichever way does it, as a share."""
    return -min(effect.gain, effect.loss, 0.0)


def _longer(effect: FigureEffect) -> float:
    return max(effect.gain, effect.loss, 0.0)


def _longest(answer: WhatIf) -> float:
    return max(max(_shorter(effect), _longer(effect)) for effect in answer.mattering)


def _tornado(answer: WhatIf) -> str:
    """The picture: a row per figure, the step as it is in the middle."""
    effects = answer.mattering
    canvas = Canvas(_WIDTH, _ROW * len(effects) + 8, f"tornado diagram of {len(effects)} figures")
    room = (_WIDTH - _LABEL - 2 * _NOTE) / 2
    middle = _LABEL + _NOTE + room
    scale = room / _longest(answer)
    for index, effect in enumerate(effects):
        y = 4 + index * _ROW
        base = y + _ROW / 2 + 2
        canvas.text(_LABEL - 8, base, str(effect.figure), anchor="end", size=12)
        left, right = _shorter(effect) * scale, _longer(effect) * scale
        better, worse = _percent(effect.gain), _percent(effect.loss)
        canvas.rect(middle - left, y, left, _ROW - 6, GREEN.colour, f"{effect.figure} better: {better}")
        canvas.rect(middle, y, right, _ROW - 6, ORANGE.colour, f"{effect.figure} worse: {worse}")
        canvas.text(middle - left - 6, base, better, anchor="end", size=11)
        canvas.text(middle + right + 6, base, worse, size=11)
    canvas.line(middle, 0, middle, _ROW * len(effects) + 8, strong=True)
    return canvas.render()
