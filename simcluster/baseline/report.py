"""The report of a check."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from simcluster.analysis import MemoryVerdict
from simcluster.baseline.compare import CheckOutcome, CheckStatus, Drift, DriftVerdict
from simcluster.baseline.figure import figure_texts, short_name
from simcluster.draw import Cell, Column, render_text, screen_width, text_table
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
    """The outcome of every scenario of a check.

    ``paths`` are those that were given; ``unseen`` counts the records outside them, ``update`` says whether a
    new baseline was asked for and ``written`` whether it was written; with ``allow_new`` a scenario that the
    baseline does not have is no failure. A report is true if it passed.
    """

    baseline: Path
    paths: tuple[Path, ...]
    outcomes: tuple[CheckOutcome, ...]
    unseen: int = 0
    update: bool = False
    written: bool = False
    allow_new: bool = False

    def __bool__(self) -> bool:
        return self.passed

    @property
    def wrong(self) -> tuple[CheckOutcome, ...]:
        """The scenarios that could not be run."""
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)

    @property
    def passed(self) -> bool:
        """Whether nothing is worse, new, missing or wrong and every bound holds; an update accepts what
        moved and what is new.
        """
        failing = {CheckStatus.WRONG}
        if not self.update:
            failing |= {CheckStatus.WORSE, CheckStatus.MISSING}
            failing |= set() if self.allow_new else {CheckStatus.NEW}
        return not any(outcome.status in failing or outcome.broken for outcome in self.outcomes)

    def text(self, *, width: int | None = None, colour: bool = False, errors: bool = True) -> str:
        """A line per scenario, a paragraph for what moved or broke, and the sum of it.

        Without ``errors`` it is left to the caller to say why a scenario could not be run.
        """
        parts = []
        for outcome in self.outcomes:
            lines = _outcome_text(outcome, wide=screen_width(width) >= WIDE, written=self.written)
            parts.append(render_text(*lines, width=width, colour=colour))
            if outcome.error is not None and errors:
                parts.append(textwrap.indent(str(outcome.error), "  "))
        return "\n".join([*parts, "", *map(printable_text, (self._sum(), *self._hints()))])

    def __repr__(self) -> str:
        return self.text()

    def _sum(self) -> str:
        counts = Counter(outcome.status for outcome in self.outcomes)
        listed = ", ".join(f"{counts[status]} {status}" for status in _STYLES if counts[status])
        noun = "scenario" if len(self.outcomes) == 1 else "scenarios"
        worse = sum(bool(outcome.broken) for outcome in self.outcomes if outcome.status is CheckStatus.WORSE)
        bounds = f"; {worse} of the worse also out of bounds" if worse else ""
        unseen = f"; {self.unseen} more in {self.baseline} not checked" if self.unseen else ""
        return f"{len(self.outcomes)} {noun}: {listed or 'none'}{bounds}{unseen}"

    def _hints(self) -> Iterator[str]:
        if self.written:
            yield f"{self.baseline} is written"
        elif self.update:
            yield f"{self.baseline} is left as it was: every scenario must run first"
        elif not self.wrong and any(outcome.status in _ACCEPTED for outcome in self.outcomes):
            yield f"to accept: {update_command(self.baseline, self.paths)}"
        may_be_new = self.update or self.allow_new
        if not may_be_new and any(outcome.status is CheckStatus.NEW for outcome in self.outcomes):
            yield "to pass without a baseline for what is new: --allow-new"


def update_command(baseline: Path, paths: Sequence[Path]) -> str:
    """The command that writes a baseline anew."""
    return shlex.join(["simcluster", "check", *map(str, paths), "--baseline", str(baseline), "--update"])


def _outcome_text(outcome: CheckOutcome, *, wide: bool, written: bool) -> Iterator[RenderableType]:
    yield _headline(outcome)
    if outcome.drifts:
        yield _drift_table(outcome.drifts, wide=wide)
    for line in _remarks(outcome, written=written):
        yield Padding(line, (0, 0, 0, 2))


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


def _remarks(outcome: CheckOutcome, *, written: bool) -> Iterator[Text]:
    old, new = outcome.old, outcome.new
    if outcome.error is not None:
        return
    if new is None:
        yield Text(
            "taken out of the baseline" if written else "the baseline has it, but there is no such file"
        )
    elif old is None:
        known = "added to the baseline" if written else "not in the baseline yet"
        yield Text(known if new.fits else f"{known}; its memory: {new.said}")
    else:
        if new.lost(old):
            yield Text(_MEMORY[new.said], "bold")
        if not all(drift.judged for drift in outcome.drifts):
            yield Text("(in brackets: explains the rest, judged only with a tolerance of its own)", "dim")
        if outcome.drifts and old.program == new.program:
            yield Text("the Program is the same: what it costs on this hardware changed", "dim")
        elif old.program != new.program:
            yield Text("the Program changed: the scenario, or how it is planned", "dim")
    for bound in outcome.broken:
        yield Text.assemble(("expect: ", "bold red"), str(bound))
