"""What a format of check reports is, and all of them by kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from simcluster.baseline.causes import cause_lines
from simcluster.baseline.compare import CheckOutcome, DriftVerdict
from simcluster.baseline.figure import figure_texts, short_name
from simcluster.baseline.report import CheckReport, remarks
from simcluster.registry import kinds


class CheckFormat(ABC):
    """A format of check reports; ``kind`` is what ``check --report`` calls it."""

    kind: ClassVar[str]

    @abstractmethod
    def render(self, report: CheckReport) -> str:
        """The report as text that ends with a newline."""


def check_formats() -> dict[str, CheckFormat]:
    """Every format by its kind: those of ``simcluster.baseline.formats``, and of installed packages."""
    return {kind: style() for kind, style in kinds("simcluster.baseline.formats", CheckFormat).items()}


def statements(outcome: CheckOutcome, report: CheckReport) -> Iterator[str]:
    """A scenario in plain sentences: what moved and by how much, why, which bounds broke, what is wrong."""
    if outcome.error is not None:
        yield from map(str, outcome.error.problems)
    for drift in sorted(outcome.drifts, key=lambda drift: drift.verdict is not DriftVerdict.WORSE):
        if drift.judged:
            old, new = figure_texts(drift.figure, drift.old, drift.new)
            yield f"{short_name(drift.figure)} {old} -> {new} ({drift.change}), {drift.verdict}"
    for heading, causes in cause_lines(outcome.causes):
        yield f"{heading}: {causes}"
    for remark in remarks(outcome, report):
        if not remark.startswith("("):
            yield remark
    for bound in outcome.broken:
        yield f"expect: {bound}"
