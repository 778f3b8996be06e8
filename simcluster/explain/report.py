"""An explanation to read, and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.draw import Column, shown, table
from simcluster.explain.explanation import Explanation
from simcluster.explain.trial import Trial

ROWS = 12
"""Entries of the live set that are shown."""


def explanation_text(found: Explanation, *, colour: bool = False) -> str:
    """The plan's memory by stage, what is alive at the peak of the fullest, and what would make it fit."""
    return shown(*_parts(found), colour=colour)


def explanation_document(found: Explanation) -> dict[str, Any]:
    """The same as JSON-able data, SI units."""
    return {
        "name": found.run.documents["plan"]["name"],
        "fits": found.present.fits,
        "step_time_s": found.present.step,
        "memory": found.run.documents["memory"],
        "changes": [_entry(found, each) for each in (*found.fitting, *found.failing)],
    }


def _entry(found: Explanation, each: Trial) -> dict[str, Any]:
    told: dict[str, Any] = {"kinds": list(each.kinds), "set": list(each.settings), "fits": each.fits}
    if each.refused:
        return told | {"refused": each.refused}
    return told | {
        "step_time_s": each.step,
        "slower": each.step / found.present.step - 1,
        "needed": each.needed,
        "capacity": each.capacity,
    }


def _parts(found: Explanation) -> Iterator[RenderableType]:
    documents = found.run.documents
    yield Text(documents["plan"]["name"], "bold")
    yield _verdict(found)
    yield ""
    yield _stages(documents["memory"])
    fullest = max(documents["memory"], key=_use)
    yield ""
    yield _living(fullest)
    if found.fitting:
        yield ""
        yield Text("What would fit, each tried by simulation", "bold")
        yield _fitting(found)
    if found.failing:
        yield ""
        yield Text("What would not", "bold")
        yield _failing(found)


def _verdict(found: Explanation) -> Text:
    present = found.present
    if present.fits:
        spare = units.size(present.capacity - present.needed)
        return Text(f"It fits: {spare} of {units.size(present.capacity)} are left where it is tightest.")
    over = units.size(present.needed - present.capacity)
    needed = f"{units.size(present.needed)} of {units.size(present.capacity)}"
    step = units.seconds(present.step)
    told = f"It does not fit: a device needs {needed}, {over} too much; {_whole(found)} would take {step}."
    return Text(told, "red")


def _whole(found: Explanation) -> str:
    """What takes the time that is told."""
    return "the answer" if "inference" in found.run.documents["plan"] else "the step"


def _use(entry: Mapping[str, Any]) -> float:
    return float((entry["allocated"] + entry["outside"]) / entry["capacity"])


def _stages(memory: list[Mapping[str, Any]]) -> RenderableType:
    titles = ("allocated", "reserved", "fragments", "outside", "capacity", "used")
    rows = [
        [
            f"stage {each['stage']}",
            units.size(each["allocated"]),
            units.size(each["reserved"]),
            units.percent((each["reserved"] - each["allocated"]) / each["reserved"]),
            units.size(each["outside"]),
            units.size(each["capacity"]),
            units.percent(_use(each)),
        ]
        for each in memory
    ]
    return table([Column("Memory at its peak"), *(Column(title, quantity=True) for title in titles)], rows)


def _living(entry: Mapping[str, Any]) -> RenderableType:
    rows = [
        [each["buffer"], each["category"], f"{each['buffers']:,}", units.size(each["bytes"])]
        for each in entry["alive"][:ROWS]
    ]
    head = f"Alive at the peak of stage {entry['stage']}, {units.seconds(entry['time_s'])} into the run"
    columns = [Column(head, wraps=True), Column("category")]
    return table([*columns, Column("buffers", quantity=True), Column("size", quantity=True)], rows)


def _fitting(found: Explanation) -> RenderableType:
    columns = [
        Column(title, quantity=True)
        for title in (_whole(found).partition(" ")[2], "against now", "needs", "of")
    ]
    rows = [
        [
            " ".join(f"--set '{setting}'" for setting in each.settings),
            units.seconds(each.step),
            f"{100 * (each.step / found.present.step - 1):+.1f} %",
            units.size(each.needed),
            units.size(each.capacity),
        ]
        for each in found.fitting
    ]
    return table([Column("change", wraps=True), *columns], rows)


def _failing(found: Explanation) -> RenderableType:
    rows = [
        [
            " ".join(f"--set '{setting}'" for setting in each.settings),
            each.refused or f"lacks {units.size(each.needed - each.capacity)}",
        ]
        for each in found.failing
    ]
    return table([Column(wraps=True), Column(wraps=True)], rows)
