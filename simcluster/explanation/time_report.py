"""Why a step takes its time, to read: operators, collectives, the critical path, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.analysis import MemoryVerdict
from simcluster.draw import Column, quantities, text_table
from simcluster.explanation.bottleneck import bottleneck_text
from simcluster.explanation.explanation import Explanation
from simcluster.explanation.speed_changes import untried_text
from simcluster.report import stage_titles
from simcluster.trace import RunDocument
from simcluster.tuning import DIVIDED_ANEW

OPERATORS, COLLECTIVES, TIPS = 8, 6, 8
"""Rows that are shown of each."""

_LEAST = 0.001
"""The share of a step from which on a collective, or a part of the path, is shown."""

_PARTS: Mapping[str, str] = {
    "arithmetic": "kernels bound by arithmetic",
    "memory": "kernels bound by memory",
    "launch": "launches and dispatch",
    "slowed": "kernels slowed by communication",
}


def time_parts(explanation: Explanation) -> Iterator[RenderableType]:
    """The sections about time, a blank line between them."""
    documents = explanation.run.documents
    yield Text(_headline(explanation))
    yield Text(bottleneck_text(documents), "bold")
    yield ""
    yield from _operators(documents["time_use"])
    yield from _collectives(documents["time_use"])
    yield from _path(documents)
    yield from _tips(explanation)
    yield from _better_hardware(explanation)


def _headline(explanation: Explanation) -> str:
    what = "The answer" if "inference" in explanation.run.documents["plan"] else "A step"
    step = units.seconds(explanation.present.step)
    if explanation.present.use.verdict is MemoryVerdict.DOES_NOT_FIT:
        return f"{what} would take {step}, but the plan does not fit: memory, and what would fit, is below."
    return f"{what} takes {step}."


def _operators(use: RunDocument) -> Iterator[RenderableType]:
    """Kernels of a kind, then the operators that take longest."""
    if not use["operators"]:
        return
    titles = quantities("time", "of step", "of peak", "of bandwidth")
    heads = [Column("Kernels"), Column("bound by"), *titles]
    yield text_table(heads, [[entry["kernel"], *_kernel_figures(entry)] for entry in use["kernels"]])
    yield ""
    rows = [
        [f"{entry['block']} {entry['name']}", entry["kernel"], *_kernel_figures(entry)]
        for entry in use["operators"][:OPERATORS]
    ]
    title = f"Operators{_more(len(use['operators']) - OPERATORS)}"
    yield text_table([Column(title, wraps=True), Column("kernel"), Column("bound by"), *titles], rows)
    yield ""


def _kernel_figures(entry: Mapping[str, Any]) -> list[str]:
    return [
        entry["bound"],
        units.seconds(entry["seconds"]),
        *(units.percent(entry[name]) for name in ("share", "of_peak", "of_bandwidth")),
    ]


def _more(count: int) -> str:
    return f" (and {count:,} more)" if count > 0 else ""


def _collectives(use: RunDocument) -> Iterator[RenderableType]:
    """What kernels wait for, by name."""
    exposed = [entry for entry in use["collectives"] if entry["share"] >= _LEAST]
    if not exposed:
        return
    rows = [
        [
            f"{entry['block']} {entry['name']}",
            entry["axis"],
            entry["operation"],
            units.seconds(entry["exposed_s"]),
            units.percent(entry["share"]),
            units.seconds(entry["seconds"]),
        ]
        for entry in exposed[:COLLECTIVES]
    ]
    title = f"Exposed communication{_more(len(exposed) - COLLECTIVES)}"
    heads = [Column(title, wraps=True), Column("over"), Column("operation")]
    yield text_table([*heads, *quantities("exposed", "of step", "under way")], rows)
    yield ""


def _path(documents: RunDocument) -> Iterator[RenderableType]:
    """What the critical path is made of, and its stages."""
    path = documents.get("critical_path")
    if path is None:
        return
    rows = [
        [part_text(entry), units.seconds(entry["seconds"]), units.percent(entry["share"])]
        for entry in path["kinds"]
        if entry["share"] >= _LEAST
    ]
    yield text_table([Column("Critical path"), *quantities("time", "of step")], rows)
    yield ""
    if len(path["stages"]) > 1:
        yield text_table(
            [
                Column("by stage"),
                *quantities("on the path", "of step", "kernels", "without slack", "median slack"),
            ],
            list(_stages(path["stages"], stage_titles(documents))),
        )
        yield ""


def part_text(entry: Mapping[str, Any]) -> str:
    """A part of the critical path in words."""
    if entry["kind"] in _PARTS:
        return _PARTS[entry["kind"]]
    where = {"offload": "copies to and from the host", "input": "inputs", "host_work": "work on the host"}
    name = where.get(entry["axis"], f"{entry['axis']} communication")
    return name if entry["kind"] == "communication" else f"{name}, slower than alone"


def _stages(stages: Sequence[Mapping[str, Any]], titles: Mapping[int, str]) -> Iterator[list[str]]:
    """A row for each stage; equal ones that follow one another are one.

    Stages are numbers, and what is none (a parameter server, a program written by hand) has its title.
    """

    def figures(entry: Mapping[str, Any]) -> tuple[str, ...]:
        slack = next((own for own in entry.get("slack", ()) if not own["axis"]), None)
        known = ["", "", ""]
        if slack is not None:
            without = slack["critical_s"] / slack["seconds"]
            median = units.seconds(slack["median_slack_s"])
            known = [units.seconds(slack["seconds"]), units.percent(without), median]
        return units.seconds(entry["seconds"]), units.percent(entry["share"]), *known

    for row, alike in groupby(stages, figures):
        names = [titles[entry["stage"]].removeprefix("stage ") for entry in alike]
        called = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}, each"
        yield [called, *row]


def _tips(explanation: Explanation) -> Iterator[RenderableType]:
    """The changes that help most, and what was left out."""
    helping = (*explanation.helping, *explanation.too_large)[:TIPS]
    present = explanation.present
    if explanation.tips and not helping:
        number = len(explanation.tips)
        kinds = ", ".join(dict.fromkeys(tip.kind for tip in explanation.tips))
        tried = f"Of {number} changes that were tried" if number > 1 else "The change that was tried"
        yield Text(f"{tried} ({kinds}) {'none gains anything' if number > 1 else 'gains nothing'}.")
    if helping:
        rows: list[list[str | Text]] = [
            [
                Text("\n".join(tip.trial.settings)),
                tip.kind,
                units.seconds(tip.trial.step),
                f"{100 * (tip.trial.step / present.step - 1):+.1f} %",
                f"{units.size(tip.trial.use.needed)}{'' if tip.trial.fits else f', {tip.trial.use.verdict}'}",
            ]
            for tip in helping
        ]
        heads = [Column("What would help most, each tried", wraps=True), Column("", wraps=True)]
        yield text_table([*heads, *quantities("time", "against now", "memory")], rows)
    if explanation.untried and explanation.present.fits:
        yield Text(untried_text(explanation.untried), "dim")
    if any(tip.trial.divides_anew for tip in helping):
        yield Text(DIVIDED_ANEW, "dim")
    if explanation.tips or explanation.untried:
        yield ""


def _better_hardware(explanation: Explanation) -> Iterator[RenderableType]:
    """What better hardware would buy, in one line."""
    if not explanation.better:
        yield Text("What better hardware would buy: simcluster whatif.", "dim")
        return
    gains = {figure: step / explanation.present.step - 1 for figure, step in explanation.better.items()}
    largest = sorted((gain, figure) for figure, gain in gains.items() if gain <= -_LEAST)[:4]
    told = ", ".join(f"{figure} {100 * gain:+.1f} %" for gain, figure in largest)
    yield Text(f"With 10 % better figures, one at a time: {told or 'no change'} (simcluster whatif).")
