"""``--report md``: a table and a paragraph per scenario that moved, for a comment or a job's summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from simcluster.baseline.check_format import CheckFormat, statements
from simcluster.baseline.compare import CheckOutcome, CheckStatus
from simcluster.baseline.figure import figure_texts, short_name
from simcluster.baseline.report import CheckReport

_SHOWN = ("step_time_s", "ttft_s", "tpot_s", "tokens_per_s_per_device", "mfu", "peak_memory_bytes_max")
"""Figures of the table; of each scenario those that it has and that moved."""


class MarkdownFormat(CheckFormat):
    """Markdown: what fails first, then what moved; unchanged scenarios are counted, not listed."""

    kind: ClassVar[str] = "md"

    def render(self, report: CheckReport) -> str:
        """The report as Markdown."""
        result = "passed" if report.passed else "failed"
        lines = [f"### simcluster check {result}", "", _plain(report.summary), ""]
        told = [outcome for outcome in report.outcomes if outcome.status is not CheckStatus.SAME]
        told.sort(key=lambda outcome: not report.is_failure(outcome))
        if told:
            lines += ["| scenario | result | figure | was | is | change |", "|---|---|---|--:|--:|--:|"]
            lines += [row for outcome in told for row in _rows(outcome)]
            lines.append("")
        for outcome in told:
            reasons = list(statements(outcome, report))
            if reasons:
                lines += [f"**{_plain(outcome.key)}**: {outcome.status}", ""]
                lines += [*(f"- {_plain(reason)}" for reason in reasons), ""]
        return "\n".join(lines)


def _rows(outcome: CheckOutcome) -> Iterator[str]:
    name, status = _plain(outcome.key), str(outcome.status)
    for drift in outcome.drifts:
        if drift.figure in _SHOWN:
            old, new = figure_texts(drift.figure, drift.old, drift.new)
            yield f"| {name} | {status} | {short_name(drift.figure)} | {old} | {new} | {drift.change} |"
            name = status = ""
    if name:
        yield f"| {name} | {status} | | | | |"


def _plain(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    words = " ".join(text.split())
    for sign in "\\`*_|<[":
        words = words.replace(sign, f"\\{sign}")
    return words
