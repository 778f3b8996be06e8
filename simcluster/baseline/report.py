"""The report of a check."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from simcluster.analysis import MemoryVerdict
from simcluster.baseline.causes import cause_lines
from simcluster.baseline.compare import CheckOutcome, CheckStatus, Drift, DriftVerdict
from simcluster.baseline.figure import figure_texts, short_name
from simcluster.baseline.record import Record
from simcluster.deferred_dataclass import dataclass
from simcluster.draw import Cell, Column, render_text, renderables_html, screen_width, text_table
from simcluster.printable import printable_text

WIDE = 80
"""Columns of a screen that has room for the tolerances."""

_STYLES = {
    CheckStatus.WORSE: "bold red",
    CheckStatus.WRONG: "bold red",
    CheckStatus.MISSING: "bold red",
    CheckStatus.OUT_OF_BOUNDS: "bold red",
    CheckStatus.BETTER: "green",
    CheckStatus.NEW: "yellow",
    CheckStatus.DRIFTED: "yellow",
    CheckStatus.SAME: "",
}
_WIDEST = max(map(len, CheckStatus))
_ACCEPTED = frozenset(CheckStatus) - {CheckStatus.SAME, CheckStatus.OUT_OF_BOUNDS}
"""What an update of the baseline would accept."""
_VERDICTS = {DriftVerdict.WORSE: "bold red", DriftVerdict.BETTER: "green", DriftVerdict.MOVED: ""}


@dataclass(frozen=True, repr=False)
class CheckReport:
    """The outcome of every scenario of a check. A report is true if it passed."""

    reference: str
    """The name of the baseline file, or of the commit."""

    paths: tuple[Path, ...]
    """Files and folders that were to be checked."""

    outcomes: tuple[CheckOutcome, ...]
    """Every scenario."""

    unseen: int = 0
    """Records of the baseline that lie outside of the paths."""

    update: bool = False
    """Whether a new baseline was asked for."""

    written: bool = False
    """Whether it was written."""

    allow_new: bool = False
    """Whether a scenario that the baseline does not have is no failure."""

    ref: str = ""
    """What the user called the commit; empty: it is about a baseline."""

    has_unfiled: bool = False
    """Whether some scenarios are no files, so that no command could check them again."""

    def __bool__(self) -> bool:
        return self.passed

    @property
    def wrong(self) -> tuple[CheckOutcome, ...]:
        """The scenarios that could not be run."""
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)

    @property
    def passed(self) -> bool:
        """Whether no scenario fails."""
        return not any(map(self.is_failure, self.outcomes))

    def is_failure(self, outcome: CheckOutcome) -> bool:
        """Whether a scenario is worse, new, missing or wrong, or breaks a bound; an update accepts what moved
        and what is new, and against a commit what only one side has is no failure.
        """
        failing = {CheckStatus.WRONG}
        if not self.update:
            failing |= {CheckStatus.WORSE}
            failing |= set() if self.ref else {CheckStatus.MISSING}
            failing |= set() if self.allow_new or self.ref else {CheckStatus.NEW}
        return outcome.status in failing or bool(outcome.broken)

    def text(self, *, width: int | None = None, colour: bool = False, errors: bool = True) -> str:
        """A line per scenario, a paragraph for what moved or broke, and the sum of it.

        Without ``errors`` it is left to the caller to say why a scenario could not be run.
        """
        parts = []
        for outcome in self.outcomes:
            lines = _outcome_text(outcome, self, wide=screen_width(width) >= WIDE)
            parts.append(render_text(*lines, width=width, colour=colour))
            if outcome.error is not None and errors:
                parts.append(textwrap.indent(str(outcome.error), "  "))
        return "\n".join([*parts, "", *map(printable_text, (self.summary, *self._hints()))])

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        parts: list[RenderableType] = []
        for outcome in self.outcomes:
            parts += _outcome_text(outcome, self, wide=True)
            parts += [] if outcome.error is None else [Padding(Text(str(outcome.error)), (0, 0, 0, 2))]
        return renderables_html(*parts, "", *map(printable_text, (self.summary, *self._hints())))

    @property
    def summary(self) -> str:
        """``3 scenarios: 1 worse, 2 unchanged``, and what was left out."""
        counts = Counter(outcome.status for outcome in self.outcomes)
        listed = ", ".join(f"{counts[status]} {status}" for status in _STYLES if counts[status])
        noun = "scenario" if len(self.outcomes) == 1 else "scenarios"
        worse = sum(bool(outcome.broken) for outcome in self.outcomes if outcome.status is CheckStatus.WORSE)
        bounds = f"; {worse} of the worse also out of bounds" if worse else ""
        unseen = f"; {self.unseen} more in {self.reference} not checked" if self.unseen else ""
        against = f", against {self.reference}" if self.ref else ""
        return f"{len(self.outcomes)} {noun}{against}: {listed or 'none'}{bounds}{unseen}"

    def _hints(self) -> Iterator[str]:
        if self.ref:
            return
        if self.written:
            yield f"{self.reference} is written"
        elif self.update:
            yield f"{self.reference} is left as it was: every scenario must run first"
        elif not self.wrong and any(outcome.status in _ACCEPTED for outcome in self.outcomes):
            again = "the same with update=True" if self.has_unfiled else None
            yield f"to accept: {again or update_command(self.reference, self.paths)}"
        may_be_new = self.update or self.allow_new
        if not may_be_new and any(outcome.status is CheckStatus.NEW for outcome in self.outcomes):
            yield "to pass without a baseline for what is new: --allow-new"


def update_command(baseline: str, paths: Sequence[Path]) -> str:
    """The command that writes a baseline anew."""
    return shlex.join(["simcluster", "check", *map(str, paths), "--baseline", baseline, "--update"])


def _outcome_text(outcome: CheckOutcome, report: CheckReport, *, wide: bool) -> Iterator[RenderableType]:
    yield _headline(outcome)
    if outcome.drifts:
        yield _drift_table(outcome.drifts, wide=wide)
    for heading, causes in cause_lines(outcome.causes):
        yield Padding(Text.assemble((f"{heading}: ", "bold"), causes), (0, 0, 0, 2))
    for line in remarks(outcome, report):
        style = "bold" if line in _MEMORY.values() else "dim"
        yield Padding(Text(line, style), (0, 0, 0, 2))
    for bound in outcome.broken:
        yield Padding(Text.assemble(("expect: ", "bold red"), str(bound)), (0, 0, 0, 2))


def _headline(outcome: CheckOutcome) -> Text:
    record = outcome.new or outcome.old
    name = f"  {record.name}" if record is not None else ""
    return Text.assemble(
        (f"{outcome.status:<{_WIDEST}}", _STYLES[outcome.status]), "  ", (outcome.key, "bold"), (name, "dim")
    )


def _drift_table(drifts: tuple[Drift, ...], *, wide: bool) -> RenderableType:
    columns: list[Column | str] = [
        Column(wraps=True),
        Column("was", quantity=True),
        Column("is", quantity=True),
        Column("change", quantity=True),
        *([Column("tolerance", quantity=True)] if wide else []),
        "",
    ]
    moved = {drift.figure for drift in drifts}
    # The largest of any class says little more where the mean moved too.
    shown = [
        drift
        for drift in drifts
        if drift.judged or drift.figure.removesuffix("_max") not in moved - {drift.figure}
    ]
    shown.sort(key=lambda drift: not drift.judged)
    return text_table(columns, [_row(drift, wide=wide) for drift in shown], indent=2)


def _row(drift: Drift, *, wide: bool) -> list[Cell]:
    old, new = figure_texts(drift.figure, drift.old, drift.new)
    verdict = (
        Text(drift.verdict, _VERDICTS[drift.verdict]) if drift.judged else Text(f"({drift.verdict})", "dim")
    )
    tolerance = [drift.tolerance.shown(drift.figure)] if wide else []
    return [short_name(drift.figure), old, new, drift.change, *tolerance, verdict]


_MEMORY = {
    MemoryVerdict.FITS: "it fits into memory now",
    MemoryVerdict.TIGHT: "memory is tight now",
    MemoryVerdict.DOES_NOT_FIT: "it no longer fits into memory",
}


def remarks(outcome: CheckOutcome, report: CheckReport) -> Iterator[str]:
    """What is to be said of a scenario beside its figures, a sentence each."""
    old, new = outcome.old, outcome.new
    if outcome.old_error is not None:
        yield f"at {report.ref} it cannot be run: {outcome.old_error.problems[0]}"
    if outcome.error is not None:
        return
    if new is None:
        yield from _gone(report)
    elif old is None:
        yield from _unknown(new, report)
    else:
        if new.lost(old):
            yield _MEMORY[new.said]
        if not all(drift.judged for drift in outcome.drifts):
            yield "(in brackets: explains the rest, judged only with a tolerance of its own)"
        if outcome.edits:
            yield f"changed in the file: {'; '.join(outcome.edits)}"
        elif outcome.drifts and old.program == new.program:
            yield "the Program is the same: what it costs on this hardware changed"
        elif old.program != new.program:
            yield "the Program changed: the scenario, or how it is planned"


def _gone(report: CheckReport) -> Iterator[str]:
    if report.ref:
        yield f"{report.ref} has it, but there is no such file here"
    else:
        yield (
            "taken out of the baseline"
            if report.written
            else "the baseline has it, but there is no such file"
        )


def _unknown(new: Record, report: CheckReport) -> Iterator[str]:
    known = f"not in {report.ref}: nothing to compare it with"
    if not report.ref:
        known = "added to the baseline" if report.written else "not in the baseline yet"
    yield known if new.fits else f"{known}; its memory: {new.said}"
