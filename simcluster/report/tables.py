"""The tables of ``Result``: times in seconds, names as text, and the rank and class of every row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.trace import Run, Table, join_tables, moves_data

Column = NDArray[Any]


Ranks = Iterable[int] | None
"""Whose rows a table has: these ranks', or one rank's of every class."""


def spans_table(run: Run, ranks: Ranks = None) -> Table:
    """One row per kernel, collective, send and receive; transfers' ``bytes`` are those moved.

    Columns: class, stage, rank, ranks (how many its class has), stream, kind, operator, graph (the piece of
    its layer, launched as one, that it is a part of; empty: dispatched by itself), action, micro_batch (-1:
    once per step), step, start_s, end_s, duration_s, bytes, flops. Raises TraceError if there is no such
    rank, or if there are too many rows for one table.
    """
    table, rank = _spans(run, ranks)
    return _shown(run, table, rank, "bytes", "flops")


def transfers_table(run: Run, ranks: Ranks = None) -> Table:
    """One row per collective, send and receive.

    Columns as in ``spans_table`` less flops, and ready_s: when this rank could have started, were all others
    ready.
    """
    table, rank = _spans(run, ranks)
    moving = moves_data(table)
    shown = _shown(run, table.where(moving), rank[moving], "bytes")
    return Table({**shown.columns, "ready_s": table["arrival"][moving] * 1e-9}, shown.names)


def memory_table(run: Run, ranks: Ranks = None) -> Table:
    """One row per allocation and release, in order.

    Columns: class, stage, rank, ranks, time_s, category, buffer, micro_batch, bytes (negative: released),
    held_bytes (of all categories, after the change).
    """
    table, rank = _chosen(run, run.memory, ranks)
    columns = {
        **_whose(run, table, rank),
        "time_s": table["time"] * 1e-9,
        **{name: table[name] for name in ("category", "buffer", "micro_batch", "bytes")},
        "held_bytes": _running(rank, table["bytes"]),
    }
    return Table(columns, table.names)


def waits_table(run: Run, ranks: Ranks = None) -> Table:
    """One row per time the kernels of a rank stood still.

    Columns: class, stage, rank, ranks, cause (a mesh axis, whose communication was waited for; ``pipeline
    wait``; ``idle``), start_s, end_s, duration_s.
    """
    table, rank = _chosen(run, run.waits, ranks)
    columns = {**_whose(run, table, rank), "cause": table["cause"], **_times(table)}
    return Table(columns, table.names)


def _spans(run: Run, ranks: Ranks) -> tuple[Table, Column]:
    """The spans, and for each the rank it is of."""
    if ranks is None:
        return run.spans, _representatives(run)[run.spans["class"]]
    chosen = run.classes_of(ranks)
    classes = list(chosen.values())
    sizes = run.recording.sizes[np.array(classes, dtype=np.int64)]
    return run.recording.table(classes), np.repeat(np.array(list(chosen), dtype=np.int32), sizes)


def _chosen(run: Run, table: Table, ranks: Ranks) -> tuple[Table, Column]:
    """The rows of a table that is sorted by class, and for each the rank it is of."""
    if ranks is None:
        return table, _representatives(run)[table["class"]]
    chosen = run.classes_of(ranks)
    parts = [table.among("class", index) for index in chosen.values()]
    rank = np.repeat(np.array(list(chosen), dtype=np.int32), [len(part) for part in parts])
    return join_tables(parts or [table.where(slice(0, 0))]), rank


def _representatives(run: Run) -> Column:
    return np.array([entry["representative"] for entry in run.documents["classes"]], dtype=np.int32)


def _shown(run: Run, table: Table, rank: Column, *more: str) -> Table:
    names = ("stream", "kind", "operator", "graph", "action", "micro_batch", "step")
    columns = {**_whose(run, table, rank), **{name: table[name] for name in names}, **_times(table)}
    return Table({**columns, **{name: table[name] for name in more}}, table.names)


def _times(table: Table) -> dict[str, Column]:
    start, end = table["start"], table["end"]
    return {"start_s": start * 1e-9, "end_s": end * 1e-9, "duration_s": (end - start) * 1e-9}


def _whose(run: Run, table: Table, rank: Column) -> dict[str, Column]:
    """The class of every row, with its stage and its size, and the rank."""
    classes: list[Mapping[str, Any]] = run.documents["classes"]
    number = table["class"]
    stage, ranks = (np.array([entry[key] for entry in classes], dtype=np.int32) for key in ("stage", "ranks"))
    return {"class": number, "stage": stage[number], "rank": rank, "ranks": ranks[number]}


def _running(ranks: Column, changes: Column) -> Column:
    """The sum of changes so far, from zero for every rank; rows of a rank are neighbours."""
    level: Column = np.cumsum(changes)
    new = np.append(True, ranks[1:] != ranks[:-1]) if len(ranks) else np.zeros(0, dtype=np.bool_)
    first = np.flatnonzero(new)[np.cumsum(new) - 1]
    total: Column = level - (level[first] - changes[first])
    return total
