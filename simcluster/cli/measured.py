"""Which rows of a file of measurements a command line asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from simcluster.accuracy import MeasuredRow, RunRow
from simcluster.document.pattern import matches
from simcluster.errors import Problem, ScenarioError, nearest

Row = TypeVar("Row")


def chosen(rows: Sequence[MeasuredRow], hardware: str | None, op: str | None) -> list[MeasuredRow]:
    """The rows of this operation whose hardware matches the pattern, whatever its case.

    Raises ScenarioError for an operation that no row has, and where nothing matches.
    """
    operations = sorted({row.operation for row in rows})
    if op is not None and op not in operations:
        hint = nearest(op, operations)
        raise ScenarioError(Problem(f"no row is of operation '{op}'", hint=hint, where="--op"))
    found = [row for row in rows if op is None or row.operation == op]
    return _matching(found, hardware, lambda row: row.hardware)


def chosen_runs(rows: Sequence[RunRow], hardware: str | None) -> list[RunRow]:
    """The runs whose hardware matches the pattern, whatever its case; ScenarioError where none does."""
    return _matching(list(rows), hardware, lambda row: row.text("hardware"))


def _matching(rows: list[Row], hardware: str | None, words: Callable[[Row], str]) -> list[Row]:
    if hardware is None:
        return rows
    found = [row for row in rows if matches(hardware.lower(), words(row).lower())]
    if not found:
        hint = f"the file has: {'; '.join(sorted({words(row) for row in rows}))}"
        message = f"no hardware matches '{hardware}'"
        raise ScenarioError(Problem(message, hint=hint, where="--hardware"))
    return found
