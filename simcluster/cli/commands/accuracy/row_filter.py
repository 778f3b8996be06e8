"""What a command line asks for of a file of measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from simcluster.accuracy import (
    CollectiveGrouping,
    KernelGrouping,
    MeasuredKernel,
    MeasuredRow,
    MeasuredRun,
    RunGrouping,
)
from simcluster.document import matches
from simcluster.errors import Problem, ScenarioError, nearest

Row = TypeVar("Row", MeasuredRow, MeasuredRun, MeasuredKernel)
Grouping = TypeVar("Grouping", RunGrouping, KernelGrouping, CollectiveGrouping)


def select_rows(
    rows: Sequence[Row],
    hardware: str | None,
    op: str | None,
    name: str | None,
    refused: Sequence[Problem],
    *,
    option: str = "--id",
) -> list[Row]:
    """The rows of this operation whose hardware and id match the patterns, whatever their case.

    Raises ScenarioError for an operation that no row has, and where nothing matches: with what is wrong with
    the row that was meant, if it is among those ``refused``, or else with the problems of all of them.
    ``option`` is the one that gave the id.
    """
    try:
        chosen = _matching(rows, hardware, op)
    except ScenarioError as error:
        raise ScenarioError(*error.problems, *refused) from None
    if name is None:
        return chosen
    if named := [row for row in chosen if matches(name.lower(), row.name.lower())]:
        return named
    if unread := [problem for problem in refused if matches(name.lower(), problem.path.lower())]:
        raise ScenarioError(Problem(f"the row '{name}' cannot be read", where=option), *unread)
    none = Problem(f"no id matches '{name}'", hint=f"one is {rows[0].name}", where=option)
    raise ScenarioError(none, *refused)


def _matching(rows: Sequence[Row], hardware: str | None, op: str | None) -> list[Row]:
    operations = sorted({row.operation for row in rows})
    if op is not None and op not in operations:
        hint = nearest(op, operations)
        raise ScenarioError(Problem(f"no row is of operation '{op}'", hint=hint, where="--op"))
    chosen = [row for row in rows if op is None or row.operation == op]
    if hardware is not None:
        names = sorted({row.hardware for row in chosen})
        chosen = [row for row in chosen if matches(hardware.lower(), row.hardware.lower())]
        if not chosen:
            hint = f"the file has: {'; '.join(names)}"
            message = f"no hardware matches '{hardware}'"
            raise ScenarioError(Problem(message, hint=hint, where="--hardware"))
    return chosen


def run_grouping(by: str | None) -> RunGrouping:
    """What ``--by`` names, sources if nothing; ScenarioError for anything else."""
    return _grouping(by, RunGrouping, RunGrouping.SOURCE)


def kernel_grouping(by: str | None) -> KernelGrouping:
    """What ``--by`` names for kernels, sizes if nothing; ScenarioError for anything else."""
    return _grouping(by, KernelGrouping, KernelGrouping.SIZE)


def collective_grouping(by: str | None) -> CollectiveGrouping:
    """What ``--by`` names for collectives, hardware if nothing; ScenarioError for anything else."""
    return _grouping(by, CollectiveGrouping, CollectiveGrouping.HARDWARE)


def _grouping(by: str | None, groupings: type[Grouping], otherwise: Grouping) -> Grouping:
    names = [str(grouping) for grouping in groupings]
    if by is None:
        return otherwise
    if by not in names:
        hint = nearest(by, names) or f"it is one of {', '.join(names)}"
        raise ScenarioError(Problem(f"errors cannot be put together by '{by}'", hint=hint, where="--by"))
    return groupings(by)


def refuse_options_of_runs(holds: str, **asked: bool) -> None:
    """Raises ScenarioError if a file of ``holds`` (collectives) is asked for what only one of runs has."""
    if any(asked.values()):
        where = "--" + next(name for name, given in asked.items() if given)
        raise ScenarioError(
            Problem(f"the file holds {holds}, not training runs", hint="leave it out", where=where)
        )
