"""The critical path of a run as plain data: what it is made of, per stage, with slack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.critical_path.critical_entries import CriticalEntries
from simcluster.critical_path.entry_graph import EntryGraph
from simcluster.critical_path.path_parts import PartKind, PathParts
from simcluster.critical_path.path_spans import spans_document
from simcluster.critical_path.stage_slack import stage_slacks
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import NOTHING, Timing
from simcluster.number_arrays import Ints
from simcluster.program import PlacedProgram, charged_to

MOST_OPERATORS = 40
"""Operators and collectives of the path that are listed, those that take longest."""


def critical_path_document(placed: PlacedProgram, timing: Timing, steps: int) -> dict[str, Any]:
    """The critical path of a run of so many ``steps``, JSON-able; seconds are per step.

    ``kinds`` sum to ``step_time_s``, and so do the ``seconds`` of the ``stages``; of each stage ``slack``
    says by how much its kernels and its communication could be later, where that is worked out.
    ``operators`` are those that take longest, ``spans`` the path in time, over all steps. TraceError where
    there are too many entries.
    """
    graph = EntryGraph.of(placed.program, placed.classes, timing)
    path = CriticalEntries.of(graph)
    return _PathDocument(placed, graph, path, PathParts.of(graph, path), steps).document()


@dataclass(frozen=True)
class _PathDocument:
    placed: PlacedProgram
    graph: EntryGraph
    path: CriticalEntries
    parts: PathParts
    steps: int

    def document(self) -> dict[str, Any]:
        slacks = stage_slacks(self.placed, self.graph, self.steps)
        stages = []
        for stage in range(int(self._stage_of_class.max(initial=0)) + 1):
            own = self._stage == stage
            seconds = self._seconds(self.parts.spent[own])
            stages.append(
                {"stage": stage, "seconds": seconds, "share": self._share(seconds), "kinds": self._kinds(own)}
                | ({} if slacks is None else {"slack": slacks[stage]})
            )
        return {
            "step_time_s": self._seconds(self.parts.spent),
            "steps": self.steps,
            "kinds": self._kinds(np.ones(len(self.parts.spent), dtype=np.bool_)),
            "stages": stages,
            "operators": self._operators(),
            "spans": spans_document(self.placed, self.graph, self.path),
        }

    def _seconds(self, spent: Ints) -> float:
        return int(spent.sum()) * 1e-9 / self.steps

    def _share(self, seconds: float) -> float:
        return seconds / (self.graph.end * 1e-9 / self.steps) if self.graph.end else 0.0

    def _figures(self, own: NDArray[np.bool_]) -> dict[str, Any]:
        """What some parts take, and of how many entries they are."""
        seconds, times = self._seconds(self.parts.spent[own]), len(np.unique(self.parts.position[own]))
        return {"seconds": seconds, "share": self._share(seconds), "times": times}

    def _kinds(self, chosen: NDArray[np.bool_]) -> list[dict[str, Any]]:
        """The kinds of some parts, those that take longest first."""
        entries: list[dict[str, Any]] = []
        labels, labelled = self._axes
        for number in np.unique(labelled[chosen]).tolist():
            kind, axis = labels[number]
            own = chosen & (labelled == number)
            entries.append({"kind": kind.name.lower(), "axis": axis} | self._figures(own))
        return sorted(entries, key=lambda entry: (-entry["seconds"], entry["kind"], entry["axis"]))

    def _operators(self) -> list[dict[str, Any]]:
        """Instructions of the path, those that take longest first; kernels with their launches."""
        codes = self.placed.program.codes
        known: dict[tuple[str, str, str, str], int] = {}
        rows = np.stack([self.parts.code, self.parts.place])
        pairs, which = np.unique(rows, axis=1, return_inverse=True)
        number = np.full(pairs.shape[1], NOTHING, dtype=np.int64)
        for pair, (code, place) in enumerate(pairs.T.tolist()):
            if code != NOTHING:
                instruction = codes[code].instructions[place]
                axis = "+".join(charged_to(instruction.stream, self.placed.program.stage_axis))
                key = codes[code].name, instruction.name, str(instruction.action), axis
                number[pair] = known.setdefault(key, len(known))
        of_part = number[which.reshape(-1)]
        entries: list[dict[str, Any]] = []
        for (block, name, action, axis), own_number in known.items():
            named = {"block": block, "name": name, "action": action}
            axis = "" if action == "compute" else axis
            entries.append(named | {"axis": axis} | self._figures(of_part == own_number))
        entries.sort(key=lambda entry: (-entry["seconds"], entry["block"], entry["name"]))
        return entries[:MOST_OPERATORS]

    @cached_property
    def _axes(self) -> tuple[Sequence[tuple[PartKind, str]], Ints]:
        """The different (kind, axis) of parts, and by part which one it is."""
        codes, stage_axis = self.placed.program.codes, self.placed.program.stage_axis
        rows = np.stack([self.parts.kind, self.parts.code, self.parts.place])
        different, which = np.unique(rows, axis=1, return_inverse=True)
        known: dict[tuple[PartKind, str], int] = {}
        number = []
        for kind, code, place in different.T.tolist():
            moves = kind in (PartKind.COMMUNICATION, PartKind.CONTENTION)
            axis = "+".join(charged_to(codes[code].instructions[place].stream, stage_axis)) if moves else ""
            number.append(known.setdefault((PartKind(kind), axis), len(known)))
        return list(known), np.array(number, dtype=np.int64)[which.reshape(-1)]

    @cached_property
    def _stage_of_class(self) -> Ints:
        return np.array(self.placed.stages, dtype=np.int64)

    @cached_property
    def _stage(self) -> Ints:
        """By part its stage."""
        return self._stage_of_class[self.graph.classes_of(self.path.entries)][self.parts.position]
