"""The tracks of the page's timeline: per class its schedule, its streams, and what was waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints
from simcluster.report.content import action_slices, distinct_rows, kernel_slices, stage_title
from simcluster.report.html.packing import differences, packed_columns
from simcluster.trace import COMPUTE, Run, RunDocument, Table

MOST_SPANS = 1_000_000
"""Spans of a page; classes beyond are left out, and the page says so."""

SCHEDULE, WAITS = "schedule", "waits of compute"
"""The tracks that are no streams: actions of the schedule, and why kernels stood still."""

PATH, PATH_KERNELS, PATH_TRANSFERS = "critical path", "critical kernels", "critical transfers"
"""The track of the critical path, and what is on it."""

_OF_KINDS = ("operator", "kind", "graph", "bytes", "flops")


@dataclass(frozen=True)
class SpanTrack:
    """A row of blocks that do not overlap: when each starts and ends (ns), what it is, and where it belongs.

    ``kinds`` [blocks] are rows of ``SpanKinds``, ``contexts`` [blocks] rows of contexts.
    """

    name: str
    starts: Ints
    ends: Ints
    kinds: Ints
    contexts: Ints

    def columns(self) -> tuple[Ints, ...]:
        """What is written of it: gaps to the block before, durations, and changes of kind and context."""
        gaps = self.starts - np.append(np.int64(0), self.ends[:-1])
        return gaps, self.ends - self.starts, differences(self.kinds), differences(self.contexts)


@dataclass(frozen=True)
class ClassTracks:
    """The tracks of one class, and its entry in the run's classes; without one, that of the critical path."""

    entry: Mapping[str, Any] | None
    tracks: Sequence[SpanTrack]

    def packed(self) -> str:
        """All tracks: column by column of each."""
        return packed_columns([column for track in self.tracks for column in track.columns()])


@dataclass(frozen=True)
class Timeline:
    """What the page shows of a run's spans.

    ``kinds`` has a row for every different thing that is done: operator, kind, graph, bytes, flops;
    ``contexts`` one for every place in the schedule: action, micro_batch, step. ``left_out`` counts classes
    that are not among ``classes``, and their spans.
    """

    classes: Sequence[ClassTracks]
    kinds: Table
    contexts: Table
    left_out: tuple[int, int]

    @classmethod
    def of(cls, run: Run, most: int = MOST_SPANS) -> Timeline:
        """One class of each stage first, then the others, until there are ``most`` spans."""
        sizes = run.recording.sizes
        chosen = _chosen(run.documents["classes"], sizes, most)
        spans = run.recording.table(chosen)
        rows, kinds = distinct_rows(spans["operator"], spans["instruction"], spans["code"])
        places, contexts = distinct_rows(spans["action"], spans["micro_batch"] + 1, spans["step"])
        known = _Numbering(
            spans.where(rows), [*spans.names["operator"]], [*spans.names["kind"]], spans.where(places)
        )
        classes = list(_critical_path(run.documents, known))
        for index in chosen:
            own = slice(*np.searchsorted(spans["class"], [index, index + 1]).tolist())
            tracks = list(_tracks(run, index, spans.where(own), kinds[own], contexts[own], known))
            classes.append(ClassTracks(run.documents["classes"][index], tracks))
        others = np.setdiff1d(np.arange(len(sizes)), chosen)
        return cls(classes, known.table(), known.contexts, (len(others), int(sizes[others].sum())))


class _Numbering:
    """Rows of what is done: those of spans, and behind them the actions and the causes of waits."""

    def __init__(self, kinds: Table, operators: list[str], names: list[str], contexts: Table) -> None:
        self._kinds, self._operators, self._names = kinds, operators, names
        self._more: dict[tuple[str, str], int] = {}
        self.contexts = contexts

    def of(self, kind: str, name: str) -> int:
        """The row of an action or of a cause."""
        return self._more.setdefault((kind, name), len(self._kinds) + len(self._more))

    def table(self) -> Table:
        """All rows."""
        kinds = [*self._names, *dict.fromkeys(kind for kind, _ in self._more)]
        more = {
            "operator": [len(self._operators) + place for place in range(len(self._more))],
            "kind": [kinds.index(kind) for kind, _ in self._more],
        }
        columns = {
            name: np.concatenate(
                [
                    self._kinds[name].astype(np.int64),
                    np.array(more.get(name, [0] * len(self._more)), dtype=np.int64),
                ]
            )
            for name in _OF_KINDS
        }
        operators = [*self._operators, *(name for _, name in self._more)]
        return Table(columns, {"operator": operators, "kind": kinds, "graph": self._kinds.names["graph"]})


def _critical_path(documents: RunDocument, known: _Numbering) -> Iterator[ClassTracks]:
    """The track of the critical path, where the run has one."""
    path = documents.get("critical_path")
    spans = path and path["spans"]
    if not spans or not spans["start_ns"]:
        return
    titles = [stage_title(entry) for entry in documents["classes"]]
    rows = []
    for index, stream, name in zip(spans["class"], spans["stream"], spans["name"], strict=True):
        on = spans["streams"][stream]
        kind = PATH_KERNELS if on == COMPUTE else PATH_TRANSFERS
        rows.append(known.of(kind, f"{spans['names'][name]}, {on}, {titles[index]}"))
    starts, ends = (np.array(spans[key], dtype=np.int64) for key in ("start_ns", "end_ns"))
    nowhere = np.full(len(rows), -1, dtype=np.int64)
    yield ClassTracks(None, [SpanTrack(PATH, starts, ends, np.array(rows, dtype=np.int64), nowhere)])


def _chosen(classes: Sequence[Mapping[str, Any]], sizes: Ints, most: int) -> list[int]:
    """Classes in their order: of each stage the first, then others, as long as their spans fit."""
    firsts: dict[str, int] = {}
    for entry in classes:
        firsts.setdefault(str(entry.get("program") or entry["stage"]), entry["class"])
    first = list(firsts.values())
    others = [entry["class"] for entry in classes if entry["class"] not in set(first)]
    chosen: list[int] = []
    count = 0
    for index in [*first, *others]:
        if count + int(sizes[index]) <= most or not chosen:
            chosen.append(index)
            count += int(sizes[index])
    return sorted(chosen)


def _tracks(
    run: Run, index: int, spans: Table, kinds: Ints, contexts: Ints, known: _Numbering
) -> Iterator[SpanTrack]:
    """Those of a class: the schedule, kernels, waits, then the other streams by their first use."""
    compute = spans.index("stream", COMPUTE)
    is_kernel = spans["stream"] == compute
    kernels = kernel_slices(spans, index)
    actions = action_slices(kernels)
    if len(actions):
        names = [spans.names["action"][number] for number in kernels["action"][actions.rows].tolist()]
        rows = np.array([known.of("action", name) for name in names], dtype=np.int64)
        yield SpanTrack(SCHEDULE, actions.starts, actions.ends, rows, contexts[is_kernel][actions.rows])
    yield from _stream(COMPUTE, spans, kinds, contexts, is_kernel)
    yield from _waits(run, index, known)
    for stream in dict.fromkeys(spans["stream"].tolist()):
        if stream != compute:
            name = spans.names["stream"][stream]
            yield from _stream(name, spans, kinds, contexts, spans["stream"] == stream)


def _stream(
    name: str, spans: Table, kinds: Ints, contexts: Ints, chosen: NDArray[np.bool_]
) -> Iterator[SpanTrack]:
    if chosen.any():
        starts, ends = spans["start"][chosen], spans["end"][chosen]
        yield SpanTrack(name, starts, ends, kinds[chosen], contexts[chosen])


def _waits(run: Run, index: int, known: _Numbering) -> Iterator[SpanTrack]:
    waits = run.waits.among("class", index)
    if not len(waits):
        return
    order = np.lexsort((waits["end"], waits["start"]))
    rows = np.array([known.of("wait", cause) for cause in waits.names["cause"]], dtype=np.int64)
    nowhere = np.full(len(order), -1, dtype=np.int64)
    yield SpanTrack(WAITS, waits["start"][order], waits["end"][order], rows[waits["cause"][order]], nowhere)
