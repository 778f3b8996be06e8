"""What the page's script needs for a timeline: groups of tracks, names, colours, and the packed columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from simcluster.draw import (
    GREY,
    OLIVE,
    ORANGE,
    PINK,
    RED,
    TEAL,
    TONES,
    YELLOW,
    Tone,
    chunk_of,
    schedule_layout,
)
from simcluster.report.content import stage_title
from simcluster.report.html.packing import packed_bytes, packed_columns
from simcluster.report.html.span_tracks import (
    PATH,
    PATH_KERNELS,
    PATH_TRANSFERS,
    ClassTracks,
    SpanTrack,
    Timeline,
)
from simcluster.trace import Run, Table

_COLLECTIVES: Mapping[str, Tone] = {
    "all_gather": YELLOW,
    "reduce_scatter": PINK,
    "all_reduce": RED,
    "all_to_all": OLIVE,
    "all_to_all_v": OLIVE,
}
_INDIGO = "#8f98e6"
_KINDS: Mapping[str, str] = {
    "collective": ORANGE.colour,
    "send": _INDIGO,
    "receive": _INDIGO,
    "push": _INDIGO,
    "pull": _INDIGO,
    "gate": GREY.colour,
    "copy": TEAL.colour,
    "wait": GREY.colour,
}
_LEGEND: Mapping[str, str] = {
    "send": "send, receive",
    "receive": "send, receive",
    "push": "push, pull",
    "pull": "push, pull",
    "gate": "waits at a gate",
    "copy": "copies over the host",
}
_ACTIONS: Mapping[str, str] = {
    "F": "forward",
    "B": "backward",
    "I": "backward of inputs",
    "W": "weight gradients",
    "R": "recompute",
    "begin": "begin",
    "end": "reduce and update",
}

Pieces = Iterator[tuple[str, str]]
"""Names of the page's pieces of data, and their text."""


class Palette:
    """Colours by number, each once; with what the legend says of them."""

    def __init__(self) -> None:
        self.colours: list[str] = []
        self.legend: dict[str, str] = {}

    def number(self, name: str, colour: str) -> int:
        """The number of a colour that stands for something with a name."""
        self.legend.setdefault(name, colour)
        return self.number_of(colour)

    def number_of(self, colour: str) -> int:
        """The number of a colour."""
        if colour not in self.colours:
            self.colours.append(colour)
        return self.colours.index(colour)


def timeline_pieces(run: Run) -> Pieces:
    """The pieces of the run's own timeline: ``timeline``, and ``spans.0`` ... one for each class."""
    timeline = Timeline.of(run)
    palette = Palette()
    kinds, contexts = timeline.kinds, timeline.contexts
    document = {
        "end": run.recording.end,
        "unit": "ns",
        "groups": [_group(tracks) for tracks in timeline.classes],
        "operators": list(kinds.names["operator"]),
        "kinds": list(kinds.names["kind"]),
        "graphs": list(kinds.names["graph"]),
        "actions": list(contexts.names["action"]),
        "sizes": [_numbers(kinds[name]) for name in ("bytes", "flops")],
        "kind_colours": _kind_colours(kinds, palette),
        "context_colours": [_action_colour(name, palette) for name in _texts(contexts, "action")],
        "steps": int(contexts["step"].max(initial=0)) + 1,
        "left_out": list(timeline.left_out),
    }
    document["palette"], document["legend"] = palette.colours, palette.legend
    document["num_ranks"] = len(run.ranks)
    yield "timeline", packed_bytes(orjson.dumps(document))
    yield "timeline.kinds", packed_columns([kinds[name] for name in ("operator", "kind", "graph")])
    yield "timeline.contexts", packed_columns([contexts[name] for name in ("action", "micro_batch", "step")])
    yield "ranks", packed_columns([run.ranks["class"]])
    for number, tracks in enumerate(timeline.classes):
        yield f"spans.{number}", tracks.packed()


def schedule_pieces(schedule: str, places: Sequence[tuple[int, int]]) -> Pieces:
    """The pieces of a schedule as a grid: stages, and their actions in units of time.

    ``places`` are the pieces of the model as (stage, chunk), in the order of the forward pass.
    """
    rows = schedule_layout(schedule, places=places)
    palette = Palette()
    labels: dict[str, int] = {}
    groups, columns = [], []
    for stage, row in enumerate(rows):
        starts = np.array([slot.start for slot in row], dtype=np.int64)
        ends = np.array([slot.end for slot in row], dtype=np.int64)
        kinds = np.array([labels.setdefault(slot.label, len(labels)) for slot in row], dtype=np.int64)
        track = SpanTrack("schedule", starts, ends, kinds, np.full(len(row), -1, dtype=np.int64))
        groups.append({"title": f"stage {stage}", "tracks": [["schedule", len(row)]]})
        columns.append(packed_columns(track.columns()))
    count = np.arange(len(labels))
    document = {
        "end": max((row[-1].end for row in rows if row), default=0),
        "unit": "units",
        "groups": groups,
        "operators": list(labels),
        "kinds": ["action"],
        "graphs": [""],
        "actions": [],
        "sizes": [[0] * len(labels)] * 2,
        "kind_colours": [_action_colour(label, palette) for label in labels],
        "context_colours": [],
        "steps": 1,
        "left_out": [0, 0],
    }
    document["palette"], document["legend"] = palette.colours, palette.legend
    yield "schedule", packed_bytes(orjson.dumps(document))
    yield "schedule.kinds", packed_columns([count, count * 0, count * 0])
    yield "schedule.contexts", packed_columns([count[:0]] * 3)
    for stage, text in enumerate(columns):
        yield f"slots.{stage}", text


def _group(tracks: ClassTracks) -> dict[str, Any]:
    entry = tracks.entry
    if entry is None:
        return {"title": PATH, "tracks": [[track.name, len(track.starts)] for track in tracks.tracks]}
    return {
        "title": stage_title(entry),
        "class": entry["class"],
        "ranks": entry["ranks"],
        "members": entry["members"],
        "device": entry["device"],
        "tracks": [[track.name, len(track.starts)] for track in tracks.tracks],
    }


def _numbers(column: Any) -> list[int]:
    return [int(value) for value in column.tolist()]


def _texts(table: Table, column: str) -> list[str]:
    return [table.names[column][number] for number in table[column].tolist()]


def _kind_colours(kinds: Table, palette: Palette) -> list[int]:
    """The colour of everything that has its own; -1: that of its place in the schedule."""
    return [
        _kind_colour(kind, operator, palette)
        for kind, operator in zip(_texts(kinds, "kind"), _texts(kinds, "operator"), strict=True)
    ]


def _kind_colour(kind: str, operator: str, palette: Palette) -> int:
    if kind in ("action", PATH_KERNELS):
        return _action_colour(operator.partition(",")[0].rpartition(" ")[2], palette)
    if kind == PATH_TRANSFERS:
        return palette.number("transfers of the critical path", ORANGE.colour)
    if kind == "collective":
        name = operator.rpartition(".")[2].rstrip("0123456789")
        if name in _COLLECTIVES:
            return palette.number(name.replace("_v", "").replace("_", "-"), _COLLECTIVES[name].colour)
        return palette.number("other collectives", _KINDS[kind])
    if kind in _KINDS:
        return palette.number(_LEGEND.get(kind, kind), _KINDS[kind])
    return -1


def _action_colour(action: str, palette: Palette) -> int:
    """That of what the action does; chunks of a stage in lighter and darker shades of it."""
    kind = action if action in TONES else action[:1]
    tone = TONES.get(kind, GREY)
    name = _ACTIONS.get(kind, "other actions")
    palette.legend.setdefault(name, tone.colour)
    return palette.number_of(tone.shaded(chunk_of(action)).colour)
