"""The baseline file: one record per scenario, as JSON that is meant to be committed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from simcluster.analysis import INFERENCE_METRICS, METRICS, MemoryVerdict
from simcluster.baseline.composition import Composition
from simcluster.document import Document, Name, Section, real_path, validate
from simcluster.trace import Run, atomic_path

FORMAT = 1


class Record(Section):
    """The figures of one scenario when the baseline was written."""

    name: Name
    """What the scenario was called."""

    program: Name
    """The digest of its Program: equal digests are equal plans."""

    fits: bool
    """Whether it fitted into memory."""

    verdict: MemoryVerdict | None = None
    """Whether it fitted, was tight or did not; files of earlier versions do not tell tight plans apart."""

    metrics: dict[Name, int | float]
    """Its figures by full name, in SI units."""

    composition: Composition | None = None
    """What its step and its memory were made of; files of earlier versions do not tell."""

    @classmethod
    def of(cls, run: Run) -> Record:
        """The record of a run."""
        documents = run.documents
        summary = documents["summary"]
        return cls(
            name=documents["plan"]["name"],
            program=documents["provenance"]["program"],
            fits=summary["fits"],
            verdict=summary.get("verdict"),
            metrics={
                figure: summary[figure] for figure in (*METRICS, *INFERENCE_METRICS) if figure in summary
            },
            composition=Composition.of(run),
        )

    def lost(self, old: Record) -> int:
        """How much worse the verdict on memory is than that of an older record; below zero where better."""
        if old.verdict is None and old.fits and self.verdict is MemoryVerdict.TIGHT:
            return 0  # that it fitted may have meant this
        return self.said.severity - old.said.severity

    @property
    def said(self) -> MemoryVerdict:
        """The verdict, or what a file of an earlier version says in its place."""
        return self.verdict or (MemoryVerdict.FITS if self.fits else MemoryVerdict.DOES_NOT_FIT)


class Baseline(Section):
    """A baseline file: records by scenario, each named by its path from the baseline's folder."""

    simcluster_baseline: Literal[1]
    """Version of the format."""

    scenarios: dict[Name, Record]
    """The records."""


def load(path: Path) -> dict[str, Record]:
    """The records of a baseline file; ScenarioError, with its place, if it is none."""
    return dict(validate(Document.read(path), Baseline).scenarios)


def save(path: Path, records: Mapping[str, Record]) -> None:
    """Writes a baseline file, complete or not at all; sorted, one figure per line: short diffs."""
    content = {
        "simcluster_baseline": FORMAT,
        "scenarios": {name: records[name].model_dump(mode="json", exclude_none=True) for name in records},
    }
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def key_of(scenario: Path, baseline: Path) -> str:
    """The name of a scenario in a baseline: its path from the baseline's folder, the same from everywhere."""
    return Path(os.path.relpath(real_path(scenario), real_path(baseline).parent)).as_posix()
