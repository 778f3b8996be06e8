"""Advice to read, and as plain data."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.advice.advice import Advice, Tip
from simcluster.advice.combination import gains
from simcluster.analysis import MemoryVerdict
from simcluster.draw import Column, quantities, render_text, renderables_html, text_table
from simcluster.tuning import DIVIDED_ANEW, Trial

_WIDEST_CHANGE = 52
"""Characters of a change behind which it goes on in the next line, so that a table has 100 columns."""
_LEAST_SHARE = 0.005
"""The share of a step from which on a part of it is named."""


def advice_text(advice: Advice, *, colour: bool = False) -> str:
    """The plan as it is, what gains and why, what was tried besides, and what gains together."""
    return render_text(*_parts(advice), colour=colour)


def advice_html(advice: Advice) -> str:
    """The same for a notebook."""
    return renderables_html(*_parts(advice))


def advice_document(advice: Advice) -> dict[str, Any]:
    """The same as JSON-able data, SI units."""
    ordered = (*advice.gaining, *advice.idle, *advice.impossible)
    following = advice.following
    return {
        "name": advice.name,
        "present": _figures(advice.present),
        "tips": [
            {"kind": tip.kind, "set": list(tip.trial.settings), "why": tip.why, "source": tip.source}
            | ({"refused": tip.trial.refused} if tip.trial.refused else _compared(advice, tip.trial))
            for tip in ordered
        ],
        "together": None
        if advice.best is advice.present
        else {"kinds": list(advice.best.kinds), "set": list(advice.best.settings)}
        | _compared(advice, advice.best),
        "next": None if following is None else advice_document(following),
        "set": [f"{key}={text}" for key, text in advice.changes],
    }


def _figures(trial: Trial) -> dict[str, Any]:
    use = trial.use
    return {
        "step_time_s": trial.step,
        "needed": use.needed,
        "capacity": use.capacity,
        **use.document(),
    }


def _compared(advice: Advice, trial: Trial) -> dict[str, Any]:
    """The figures of a trial, and what they are against the plan as it is."""
    present = advice.present
    return {
        "gains": gains(present, trial),
        **_figures(trial),
        "slower": trial.step / present.step - 1,
        "more_memory": trial.use.needed - present.use.needed,
    }


def _parts(advice: Advice) -> Iterator[RenderableType]:
    yield Text(advice.name, "bold")
    for number, round_advice in enumerate(advice.rounds):
        if number:
            yield ""
            yield Text("Next, with these changes", "bold")
        yield from _round(round_advice)
    if sum(round_advice.best is not round_advice.present for round_advice in advice.rounds) > 1:
        yield ""
        yield Text("All changes", "bold")
        yield _figures_line(advice.present, advice.final)
        yield _options(f"{key}={text}" for key, text in advice.changes)


def _round(advice: Advice) -> Iterator[RenderableType]:
    yield _present(advice)
    yield Text(_shares(advice))
    gaining = advice.gaining
    width = min(
        _WIDEST_CHANGE, max((len(text) for tip in advice.tips for text in tip.trial.settings), default=0)
    )
    yield ""
    if not gaining:
        yield Text(_nothing(advice))
    else:
        yield Text("What makes it better, each tried by simulation", "bold")
    for kind in dict.fromkeys(tip.kind for tip in gaining):
        tips = [tip for tip in gaining if tip.kind == kind]
        yield ""
        yield Text.assemble((kind, "bold"), f": {tips[0].why}.")
        if tips[0].source:
            yield Text(f"({tips[0].source})", "dim")
        yield _table(advice, tips, width)
    if advice.idle:
        yield ""
        yield Text("Tried, without a gain", "bold")
        yield _table(advice, advice.idle, width)
    if advice.impossible:
        yield ""
        yield Text("Impossible", "bold")
        yield text_table(
            [Column(wraps=True), Column(wraps=True)],
            [(_changes(tip.trial, width), tip.trial.refused) for tip in advice.impossible],
        )
    if any(tip.trial.divides_anew for tip in advice.tips):
        yield ""
        yield Text(DIVIDED_ANEW, "dim")
    yield from _together(advice)


def _nothing(advice: Advice) -> str:
    """Why there is nothing that gains."""
    if advice.tips:
        return "No change that was tried gains anything."
    if advice.present_run.scenario.spec.parallel.mode == "manual":
        return "A program written by hand says itself how work is shared: there is nothing to advise."
    return "The run gives no reason to change anything."


def _present(advice: Advice) -> Text:
    present = advice.present
    use = present.use
    what = "the answer" if "inference" in advice.present_run.plan else "a step"
    text = (
        f"Now: {units.seconds(present.step)} {what}, {units.size(use.needed)} of {units.size(use.capacity)} "
    )
    verdict = {
        MemoryVerdict.FITS: "where memory is fullest: it fits.",
        MemoryVerdict.TIGHT: f"where memory is fullest: it is tight, {units.size(use.lacking)} are lacking.",
        MemoryVerdict.DOES_NOT_FIT: f"are needed: it does not fit, {units.size(use.lacking)} are lacking.",
    }
    style = {MemoryVerdict.FITS: "", MemoryVerdict.TIGHT: "yellow", MemoryVerdict.DOES_NOT_FIT: "red"}
    return Text(text + verdict[use.verdict], style[use.verdict])


def _shares(advice: Advice) -> str:
    """What of the step is neither kernels nor next to nothing."""
    run = advice.present_run
    shares = {"the pipeline bubble": run.bubble}
    shares |= {
        f"exposed {axis} communication": run.exposed(axis)
        for axis in run.summary.get("exposed_communication_s", {})
    }
    shares["host and dispatch"] = run.host_share
    named = [f"{units.percent(share)} {name}" for name, share in shares.items() if share >= _LEAST_SHARE]
    return f"Of it: {', '.join(named)}." if named else "All of it is computation."


def _table(advice: Advice, tips: Sequence[Tip], width: int) -> RenderableType:
    rows = [[_changes(tip.trial, width), *_row(advice, tip.trial)] for tip in tips]
    columns = quantities("time", "against now", "memory", "against now")
    return text_table([Column("change".ljust(width), wraps=True), *columns], rows, indent=2)


def _changes(trial: Trial, width: int) -> Text:
    """The changes of one trial, those behind the first indented."""
    first, *others = trial.settings
    return Text("\n".join([first.ljust(width), *(f"  {setting}" for setting in others)]))


def _row(advice: Advice, trial: Trial) -> list[str | Text]:
    present = advice.present
    more = trial.use.needed - present.use.needed
    signed = f"{'+' if more >= 0 else '-'}{units.size(abs(more))}"
    memory = units.size(trial.use.needed)
    return [
        units.seconds(trial.step),
        f"{100 * (trial.step / present.step - 1):+.1f} %",
        memory if trial.fits else Text(memory, "red"),
        signed if trial.fits else Text(str(trial.use.verdict), "red"),
    ]


def _together(advice: Advice) -> Iterator[RenderableType]:
    best, present = advice.best, advice.present
    if best is present:
        return
    kinds = ", ".join(kind for kind, _ in groupby(best.kinds))
    yield ""
    yield Text(f"Together, as long as each one helps: {kinds}", "bold")
    yield _figures_line(present, best)
    yield _options(best.settings)


def _figures_line(present: Trial, best: Trial) -> Text:
    """What a plan takes in place of another one."""
    verdict = "" if best.fits else f" ({best.use.verdict})"
    faster = f"{100 * (best.step / present.step - 1):+.1f} %"
    return Text(
        f"{units.seconds(best.step)} in place of {units.seconds(present.step)} ({faster}), "
        f"{units.size(best.use.needed)} of memory in place of {units.size(present.use.needed)}{verdict}:"
    )


def _options(settings: Iterable[str]) -> Text:
    """Changes as options of a command line."""
    return Text(" \\\n".join(f"--set {shlex.quote(setting)}" for setting in settings))
