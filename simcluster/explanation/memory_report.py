"""What a plan's memory is made of, and what would make it fit, to read and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.analysis import RULE, MemoryUse, MemoryVerdict
from simcluster.draw import Column, quantities, text_table
from simcluster.explanation.explanation import Explanation
from simcluster.explanation.speed_changes import untried_text
from simcluster.report import stage_titles
from simcluster.tuning import DIVIDED_ANEW, Trial

ROWS = 12
"""Entries of the live set that are shown."""


def memory_document(explanation: Explanation) -> dict[str, Any]:
    """The memory that decides, its peaks, and the changes that were tried for it."""
    return {
        **_use(explanation.present),
        "rule": RULE,
        "memory": explanation.run.documents["memory"],
        "changes": [_entry(explanation, trial) for trial in (*explanation.fitting, *explanation.failing)],
    }


def _entry(explanation: Explanation, trial: Trial) -> dict[str, Any]:
    entry: dict[str, Any] = {"kinds": list(trial.kinds), "set": list(trial.settings)}
    if trial.refused:
        return entry | {"fits": False, "refused": trial.refused}
    slower = trial.step / explanation.present.step - 1
    return entry | _use(trial) | {"step_time_s": trial.step, "slower": slower}


def _use(trial: Trial) -> dict[str, Any]:
    """What the device needs that decides, and the verdict."""
    return {"needed": trial.use.needed, "capacity": trial.use.capacity, **trial.use.document()}


def memory_parts(explanation: Explanation) -> Iterator[RenderableType]:
    """The verdict, memory by stage, what is alive at the peak of the fullest, and what would make it fit."""
    documents = explanation.run.documents
    yield _verdict(explanation)
    yield Text(f"The rule: {RULE}.", "dim")
    yield ""
    titles = stage_titles(documents)
    yield _stages(documents["memory"], titles)
    fullest = max(documents["memory"], key=_share)
    yield ""
    yield _live_tensors(fullest, titles[fullest["stage"]])
    if explanation.fitting:
        yield ""
        yield Text("What would fit, each tried by simulation, what leaves most first", "bold")
        yield _fitting(explanation)
    if explanation.failing:
        yield ""
        yield Text("What would not", "bold")
        yield _failing(explanation)
    if any(trial.divides_anew for trial in (*explanation.fitting, *explanation.failing)):
        yield Text(DIVIDED_ANEW, "dim")
    if explanation.untried and not explanation.present.fits:
        yield ""
        yield Text(untried_text(explanation.untried), "dim")


def _verdict(explanation: Explanation) -> Text:
    use = explanation.present.use
    asked = f", {units.size(use.headroom)} are asked for (headroom)" if use.headroom else ""
    if use.verdict is MemoryVerdict.FITS:
        spare = units.size(use.left)
        return Text(f"It fits: {spare} of {units.size(use.capacity)} are left where it is tightest{asked}.")
    parts = f" ({units.size(use.fragments)} of it fragments)" if use.fragments else ""
    needed = f"a device needs {units.size(use.needed)}{parts} of {units.size(use.capacity)}"
    takes = f"{_whole(explanation)} would take {units.seconds(explanation.present.step)}"
    if use.verdict is MemoryVerdict.TIGHT:
        left = f"{units.size(use.left)} are left" if use.left >= 0 else f"{units.size(-use.left)} too much"
        return Text(f"It is tight: {needed}, {left}{asked}; {takes}.", "yellow")
    with_it = f" with {units.size(use.headroom)} of headroom" if use.headroom else ""
    return Text(f"It does not fit: {needed}, {units.size(use.lacking)} are lacking{with_it}; {takes}.", "red")


def _whole(explanation: Explanation) -> str:
    """What takes the time that is told."""
    return "the answer" if "inference" in explanation.run.documents["plan"] else "the step"


def _share(entry: Mapping[str, Any]) -> float:
    return float((entry["reserved"] + entry["outside"]) / entry["capacity"])


def _stages(memory: list[Mapping[str, Any]], titles_of: Mapping[int, str]) -> RenderableType:
    titles = ("allocated", "reserved", "fragments", "outside", "capacity", "used")
    rows = [
        [
            f"{titles_of[stage['stage']]}{_device(stage, memory)}",
            units.size(stage["allocated"]),
            units.size(stage["reserved"]),
            units.percent((stage["reserved"] - stage["allocated"]) / (stage["reserved"] or 1)),
            units.size(stage["outside"]),
            units.size(stage["capacity"]),
            units.percent(_share(stage)),
        ]
        for stage in memory
    ]
    return text_table(["Memory at its peak", *quantities(*titles)], rows)


def _device(entry: Mapping[str, Any], memory: Sequence[Mapping[str, Any]]) -> str:
    """What a stage runs on, where not all run on the same."""
    return f", {entry['device']}" if len({stage["device"] for stage in memory}) > 1 else ""


def _live_tensors(entry: Mapping[str, Any], title: str) -> RenderableType:
    rows = [
        [tensor["buffer"], tensor["category"], f"{tensor['buffers']:,}", units.size(tensor["bytes"])]
        for tensor in entry["alive"][:ROWS]
    ]
    head = f"Alive at the peak of {title}, {units.seconds(entry['time_s'])} into the run"
    return text_table([Column(head, wraps=True), "category", *quantities("buffers", "size")], rows)


def _fitting(explanation: Explanation) -> RenderableType:
    timed = _whole(explanation).partition(" ")[2]
    columns = quantities(timed, "against now", "needs", "of", "leaves")
    rows = [
        [
            " ".join(f"--set '{setting}'" for setting in trial.settings),
            units.seconds(trial.step),
            f"{100 * (trial.step / explanation.present.step - 1):+.1f} %",
            units.size(trial.use.needed),
            units.size(trial.use.capacity),
            units.size(trial.use.left),
        ]
        for trial in explanation.fitting
    ]
    return text_table([Column("change", wraps=True), *columns], rows)


def _lacks(use: MemoryUse) -> str:
    """What is missing for it to fit."""
    if use.verdict is MemoryVerdict.TIGHT:
        needs = f"{units.size(use.needed)} of {units.size(use.capacity)}"
        return f"tight: needs {needs}, lacks {units.size(use.lacking)} with the headroom"
    return f"lacks {units.size(use.lacking)}"


def _failing(explanation: Explanation) -> RenderableType:
    rows = [
        [
            " ".join(f"--set '{setting}'" for setting in trial.settings),
            trial.refused or _lacks(trial.use),
        ]
        for trial in explanation.failing
    ]
    return text_table([Column(wraps=True), Column(wraps=True)], rows)
