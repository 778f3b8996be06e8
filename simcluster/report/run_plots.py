"""Plots of a run as methods: plotly's figures, to zoom and hover in. They need the extra ``notebook``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from simcluster import units
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
    TONES,
    YELLOW,
    BarPart,
    Interval,
    Tone,
    areas_plot,
    intervals_plot,
    stacked_bars_plot,
)
from simcluster.errors import TraceError
from simcluster.report.content import (
    action_slices,
    kernel_slices,
    memory_category,
    stage_title,
    stage_titles,
    step_parts,
)
from simcluster.trace import COMPUTE, Run, Table

MOST_STAGES = 16
"""Stages of a timeline, if no ranks are named."""

_PIXELS = 2000
"""Transfers that are nearer to each other than one of so many parts of the run are drawn as one."""

_MOVING = (ORANGE, YELLOW, RED, PINK, PURPLE)
_WORDS = {"F": "forward", "B": "backward", "I": "backward", "W": "weight gradients", "R": "recompute"}
_PATH = {"arithmetic": BLUE, "memory": GREEN, "launch": TEAL, "slowed": OLIVE}


class RunPlots:
    """What shows a run in pictures; whoever extends it has the run in ``run``."""

    @property
    def run(self) -> Run:
        """The run."""
        raise NotImplementedError

    def timeline(self, *, streams: bool = True) -> Any:
        """When every stage did what: a row for its kernels, by action, and one for each stream of transfers.

        Of every stage one class of ranks is shown. Transfers that are nearer than a pixel are drawn as one.
        Without ``streams`` kernels alone. Raises SimclusterError where plotly is not installed.
        """
        intervals = [
            interval
            for title, index in _stages(self.run)
            for interval in _intervals(self.run.recording.spans(index), index, title, self.run, streams)
        ]
        name = self.run.documents["plan"]["name"]
        return intervals_plot(intervals, f"Timeline: {name}", x="seconds", reading=units.seconds)

    def memory_plot(self, stage: int | None = None) -> Any:
        """What a stage holds over time, by category, under its capacity; by default the fullest device's.

        Raises TraceError for a stage that there is not, SimclusterError where plotly is not installed.
        """
        entries = self.run.documents["summary"]["peak_memory_bytes"]
        chosen = [entry for entry in entries if stage in (None, entry["stage"])]
        if not chosen:
            stages = ", ".join(str(number) for number in sorted({entry["stage"] for entry in entries}))
            raise TraceError(f"there is no stage {stage}", hint=f"stages: {stages}")
        entry = max(chosen, key=lambda entry: entry["total"] / entry["capacity"])
        rows = self.run.memory.among("class", entry["class"])
        kinds = rows.names["category"]
        levels = np.cumsum(
            np.where(rows["category"] == np.arange(len(kinds))[:, None], rows["bytes"], 0),
            axis=1,
            dtype=np.float64,
        )
        return areas_plot(
            rows["time"] * 1e-9,
            levels,
            [memory_category(kind) for kind in kinds],
            units.size,
            f"Memory of {stage_title(entry)}, rank {entry['rank']}",
            end=self.run.recording.end * 1e-9,
            limit=entry["capacity"],
        )

    def breakdown(self) -> Any:
        """What a step is made of: the mean over ranks, and a bar for every stage.

        Raises SimclusterError where plotly is not installed.
        """
        documents = self.run.documents
        summary = documents["summary"]
        mean = [part for part, _ in step_parts(summary)]
        bars = [("mean over ranks", mean)]
        stages = _stages(self.run)
        if len(stages) > 1:
            tones = {part.name: part.tone for part in mean}
            bars += [(title, _waits(self.run, index, tones)) for title, index in stages]
        return stacked_bars_plot(bars, units.seconds, f"A step of {documents['plan']['name']}", x="seconds")

    def critical_path(self) -> Any:
        """The chain of kernels and transfers that decides the step, by kind: the whole, and every stage.

        What is recorded of it is the document ``run.documents["critical_path"]``. Raises TraceError for a run
        without one (saved by an earlier version, or very large), SimclusterError where plotly is missing.
        """
        path = self.run.documents.get("critical_path")
        if not path or not path["kinds"]:
            raise TraceError(
                "this run has no critical path: it is too large, or was saved by an earlier version"
            )
        tones = dict(_path_tones(path["kinds"]))
        bars = [("the step", _path_parts(path["kinds"], tones))]
        titles = stage_titles(self.run.documents)
        bars += [(titles[stage["stage"]], _path_parts(stage["kinds"], tones)) for stage in path["stages"]]
        return stacked_bars_plot(bars, units.seconds, "Critical path", x="seconds of the step")


def _stages(run: Run) -> list[tuple[str, int]]:
    """(title, class) of one class of every stage, of many stages some."""
    first: dict[int, Mapping[str, Any]] = {}
    for entry in run.documents["classes"]:
        first.setdefault(entry["stage"], entry)
    stages = [first[stage] for stage in sorted(first)]
    places = np.unique(np.linspace(0, len(stages) - 1, min(MOST_STAGES, len(stages))).astype(int))
    return [(stage_title(stages[place]), stages[place]["class"]) for place in places]


def _intervals(spans: Table, index: int, title: str, run: Run, streams: bool) -> Iterator[Interval]:
    kernels = kernel_slices(spans, index)
    slices = action_slices(kernels)
    for start, end, row in zip(
        slices.starts.tolist(), slices.ends.tolist(), slices.rows.tolist(), strict=True
    ):
        label = kernels.names["action"][kernels["action"][row]]
        tone = TONES.get(label) or TONES.get(label[:1], GREY)
        kind = _WORDS.get(label[:1], "begin and end of the step")
        yield Interval(title, start * 1e-9, end * 1e-9, label, kind, tone)
    if not streams:
        return
    names = spans.names["stream"]
    used = [number for number in np.unique(spans["stream"]).tolist() if names[number] != COMPUTE]
    for place, number in enumerate(sorted(used, key=lambda number: names[number])):
        rows = spans.where(spans["stream"] == number)
        tone = _MOVING[place % len(_MOVING)]
        for start, end, label in _joined(rows, run.recording.end / _PIXELS):
            yield Interval(f"{title}, {names[number]}", start * 1e-9, end * 1e-9, label, names[number], tone)


def _joined(rows: Table, gap: float) -> Iterator[tuple[int, int, str]]:
    """(start, end, label) of transfers, in order; those with less than ``gap`` between them are one."""
    order = np.argsort(rows["start"], kind="stable")
    starts, ends = rows["start"][order], np.maximum.accumulate(rows["end"][order])
    first = np.flatnonzero(np.append(True, starts[1:] - ends[:-1] > gap))
    names = rows.names["operator"]
    for begin, stop in pairwise([*first.tolist(), len(starts)]):
        name = names[rows["operator"][order[begin]]]
        label = name if stop - begin == 1 else f"{stop - begin} transfers, the first: {name}"
        yield int(starts[begin]), int(ends[stop - 1]), label


def _waits(run: Run, index: int, tones: Mapping[str, Tone]) -> list[BarPart]:
    """The kernels of a class, and what they waited for, per step."""
    rows = run.waits.among("class", index)
    steps = max(1, round(run.recording.end * 1e-9 / run.documents["summary"]["step_time_s"]))
    spent = (rows["end"] - rows["start"]) * 1e-9 / steps
    waits: dict[str, float] = {}
    for number, cause in enumerate(rows.names["cause"]):
        name = f"{cause} communication" if f"{cause} communication" in tones else cause
        waits[name] = waits.get(name, 0.0) + float(spent[rows["cause"] == number].sum())
    kernels = run.documents["summary"]["step_time_s"] - sum(waits.values())
    parts = [BarPart("kernels and their dispatch", kernels, tones.get("compute", BLUE))]
    return parts + [BarPart(name, value, tones.get(name, GREY)) for name, value in waits.items() if value > 0]


def _path_tones(kinds: list[Mapping[str, Any]]) -> Iterator[tuple[str, Tone]]:
    moving = iter(_MOVING)
    for kind in kinds:
        yield _path_name(kind), _PATH.get(kind["kind"]) or next(moving, GREY)


def _path_parts(kinds: list[Mapping[str, Any]], tones: Mapping[str, Tone]) -> list[BarPart]:
    return [BarPart(_path_name(kind), kind["seconds"], tones.get(_path_name(kind), GREY)) for kind in kinds]


def _path_name(kind: Mapping[str, Any]) -> str:
    return f"{kind['kind']} ({kind['axis']})" if kind["axis"] else str(kind["kind"])
