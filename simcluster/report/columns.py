"""A run's tables as users read them: times in seconds, names as text, and whose rows they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.trace import Run, Table

Column = NDArray[Any]


def spans(run: Run) -> Table:
    """One row per kernel, collective, send and receive of every class; transfers' ``bytes`` are those moved.

    Columns: class, stage, rank (the one that was simulated), ranks (how many it stands for), stream, kind,
    operator, action, micro_batch (-1: once per step), step, start_s, end_s, duration_s, bytes, flops.
    """
    return _spans(run, run.spans, "bytes", "flops")


def transfers(run: Run) -> Table:
    """One row per collective, send and receive of every class.

    Columns as in ``spans`` less flops, and ready_s: when this rank could have started, were all others ready.
    """
    return _spans(run, run.transfers, "bytes", "arrival")


def memory(run: Run) -> Table:
    """One row per allocation and release of every class, in order.

    Columns: class, stage, rank, ranks, time_s, category, buffer, micro_batch, bytes (negative: released),
    held_bytes (of all categories, after the change).
    """
    table = run.memory
    columns = {
        **_whose(run, table),
        "time_s": table["time"] * 1e-9,
        **{name: table[name] for name in ("category", "buffer", "micro_batch", "bytes")},
        "held_bytes": _running(table["class"], table["bytes"]),
    }
    return Table(columns, table.names)


def waits(run: Run) -> Table:
    """One row per time the kernels of a class stood still.

    Columns: class, stage, rank, ranks, cause (a mesh axis, whose communication was waited for; ``pipeline
    wait``; ``idle``), start_s, end_s, duration_s.
    """
    table = run.waits
    columns = {**_whose(run, table), "cause": table["cause"], **_times(table)}
    return Table(columns, table.names)


def _spans(run: Run, table: Table, *more: str) -> Table:
    names = ("stream", "kind", "operator", "action", "micro_batch", "step")
    columns = {**_whose(run, table), **{name: table[name] for name in names}, **_times(table)}
    for name in more:
        if name == "arrival":
            columns["ready_s"] = table[name] * 1e-9
        else:
            columns[name] = table[name]
    return Table(columns, table.names)


def _times(table: Table) -> dict[str, Column]:
    start, end = table["start"], table["end"]
    return {"start_s": start * 1e-9, "end_s": end * 1e-9, "duration_s": (end - start) * 1e-9}


def _whose(run: Run, table: Table) -> dict[str, Column]:
    """The class of every row, with its stage, its representative and its size."""
    classes: list[Mapping[str, Any]] = run.documents["classes"]
    number = table["class"]
    found = {"class": number}
    for name, key in (("stage", "stage"), ("rank", "representative"), ("ranks", "ranks")):
        found[name] = np.array([each[key] for each in classes], dtype=np.int32)[number]
    return found


def _running(classes: Column, changes: Column) -> Column:
    """The sum of changes so far, from zero for every class; rows are sorted by class."""
    level: Column = np.cumsum(changes)
    first = np.searchsorted(classes, classes, side="left")
    found: Column = level - (level[first] - changes[first])
    return found
