"""An explanation to read, and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.analysis import RULE, MemoryUse, MemoryVerdict
from simcluster.draw import Column, render_text, text_table
from simcluster.explain.explanation import Explanation
from simcluster.tuning import Trial

ROWS = 12
"""Entries of the live set that are shown."""


def explanation_text(found: Explanation, *, colour: bool = False) -> str:
    """The plan's memory by stage, what is alive at the peak of the fullest, and what would make it fit."""
    return render_text(*_parts(found), colour=colour)


def explanation_document(found: Explanation) -> dict[str, Any]:
    """The same as JSON-able data, SI units."""
    return {
        "name": found.run.documents["plan"]["name"],
        **_use(found.present),
        "rule": RULE,
        "step_time_s": found.present.step,
        "memory": found.run.documents["memory"],
        "changes": [_entry(found, each) for each in (*found.fitting, *found.failing)],
    }


def _entry(found: Explanation, each: Trial) -> dict[str, Any]:
    told: dict[str, Any] = {"kinds": list(each.kinds), "set": list(each.settings)}
    if each.refused:
        return told | {"fits": False, "refused": each.refused}
    slower = each.step / found.present.step - 1
    return told | _use(each) | {"step_time_s": each.step, "slower": slower}


def _use(each: Trial) -> dict[str, Any]:
    """What the device needs that decides, and the verdict."""
    return {"needed": each.use.needed, "capacity": each.use.capacity, **each.use.document()}


def _parts(found: Explanation) -> Iterator[RenderableType]:
    documents = found.run.documents
    yield Text(documents["plan"]["name"], "bold")
    yield _verdict(found)
    yield Text(f"The rule: {RULE}.", "dim")
    yield ""
    yield _stages(documents["memory"])
    fullest = max(documents["memory"], key=_share)
    yield ""
    yield _living(fullest)
    if found.fitting:
        yield ""
        yield Text("What would fit, each tried by simulation, what leaves most first", "bold")
        yield _fitting(found)
    if found.failing:
        yield ""
        yield Text("What would not", "bold")
        yield _failing(found)


def _verdict(found: Explanation) -> Text:
    use = found.present.use
    asked = f", {units.size(use.headroom)} are asked for (headroom)" if use.headroom else ""
    if use.verdict is MemoryVerdict.FITS:
        spare = units.size(use.left)
        return Text(f"It fits: {spare} of {units.size(use.capacity)} are left where it is tightest{asked}.")
    parts = f" ({units.size(use.fragments)} of it fragments)" if use.fragments else ""
    needed = f"a device needs {units.size(use.needed)}{parts} of {units.size(use.capacity)}"
    takes = f"{_whole(found)} would take {units.seconds(found.present.step)}"
    left = f"{units.size(use.left)} are left" if use.left >= 0 else f"{units.size(-use.left)} too much"
    if use.verdict is MemoryVerdict.TIGHT:
        return Text(f"It is tight: {needed}, {left}{asked}; {takes}.", "yellow")
    return Text(f"It does not fit: {needed}, {left}{asked}; {takes}.", "red")


def _whole(found: Explanation) -> str:
    """What takes the time that is told."""
    return "the answer" if "inference" in found.run.documents["plan"] else "the step"


def _share(entry: Mapping[str, Any]) -> float:
    return float((entry["reserved"] + entry["outside"]) / entry["capacity"])


def _stages(memory: list[Mapping[str, Any]]) -> RenderableType:
    titles = ("allocated", "reserved", "fragments", "outside", "capacity", "used")
    rows = [
        [
            f"stage {each['stage']}{_device(each, memory)}",
            units.size(each["allocated"]),
            units.size(each["reserved"]),
            units.percent((each["reserved"] - each["allocated"]) / each["reserved"]),
            units.size(each["outside"]),
            units.size(each["capacity"]),
            units.percent(_share(each)),
        ]
        for each in memory
    ]
    return text_table(
        [Column("Memory at its peak"), *(Column(title, quantity=True) for title in titles)], rows
    )


def _device(entry: Mapping[str, Any], memory: Sequence[Mapping[str, Any]]) -> str:
    """What a stage runs on, where not all run on the same."""
    return f", {entry['device']}" if len({each["device"] for each in memory}) > 1 else ""


def _living(entry: Mapping[str, Any]) -> RenderableType:
    rows = [
        [each["buffer"], each["category"], f"{each['buffers']:,}", units.size(each["bytes"])]
        for each in entry["alive"][:ROWS]
    ]
    head = f"Alive at the peak of stage {entry['stage']}, {units.seconds(entry['time_s'])} into the run"
    columns = [Column(head, wraps=True), Column("category")]
    return text_table([*columns, Column("buffers", quantity=True), Column("size", quantity=True)], rows)


def _fitting(found: Explanation) -> RenderableType:
    columns = [
        Column(title, quantity=True)
        for title in (_whole(found).partition(" ")[2], "against now", "needs", "of", "leaves")
    ]
    rows = [
        [
            " ".join(f"--set '{setting}'" for setting in each.settings),
            units.seconds(each.step),
            f"{100 * (each.step / found.present.step - 1):+.1f} %",
            units.size(each.use.needed),
            units.size(each.use.capacity),
            units.size(each.use.left),
        ]
        for each in found.fitting
    ]
    return text_table([Column("change", wraps=True), *columns], rows)


def _lacks(use: MemoryUse) -> str:
    """What is missing for it to fit."""
    if use.verdict is MemoryVerdict.TIGHT:
        needs = f"{units.size(use.needed)} of {units.size(use.capacity)}"
        return f"tight: needs {needs}, lacks {units.size(use.lacking)} with the headroom"
    return f"lacks {units.size(use.lacking)}"


def _failing(found: Explanation) -> RenderableType:
    rows = [
        [
            " ".join(f"--set '{setting}'" for setting in each.settings),
            each.refused or _lacks(each.use),
        ]
        for each in found.failing
    ]
    return text_table([Column(wraps=True), Column(wraps=True)], rows)
