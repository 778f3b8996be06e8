"""Which rows of a file of measurements a command line asks for."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.accuracy import MeasuredRow
from simcluster.document.pattern import matches
from simcluster.errors import Problem, ScenarioError, nearest


def chosen(rows: Sequence[MeasuredRow], hardware: str | None, op: str | None) -> list[MeasuredRow]:
    """The rows of this operation whose hardware matches the pattern, whatever its case.

    Raises ScenarioError for an operation that no row has, and where nothing matches.
    """
    operations = sorted({row.operation for row in rows})
    if op is not None and op not in operations:
        hint = nearest(op, operations)
        raise ScenarioError(Problem(f"no row is of operation '{op}'", hint=hint, where="--op"))
    found = [row for row in rows if op is None or row.operation == op]
    if hardware is not None:
        names = sorted({row.hardware for row in found})
        found = [row for row in found if matches(hardware.lower(), row.hardware.lower())]
        if not found:
            hint = f"the file has: {'; '.join(names)}"
            message = f"no hardware matches '{hardware}'"
            raise ScenarioError(Problem(message, hint=hint, where="--hardware"))
    return found
