"""The tables of a run as files: comma-separated values, or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from simcluster.draw import csv_text
from simcluster.errors import Problem, SimclusterError, TraceError, nearest
from simcluster.report.tables import memory_table, spans_table, transfers_table, waits_table
from simcluster.trace import Run, Table, atomic_path, write_file

TABLES: Mapping[str, Callable[[Run, Iterable[int] | None], Table]] = {
    "spans": spans_table,
    "transfers": transfers_table,
    "memory": memory_table,
    "waits": waits_table,
}
"""The tables of ``Result`` by name: each is a file."""

KINDS = ("csv", "parquet")


def write_tables(
    run: Run, folder: str | Path, kind: str, ranks: Iterable[int] | None = None
) -> tuple[Path, ...]:
    """Writes ``spans.csv``, ``transfers.csv``, ``memory.csv`` and ``waits.csv`` into a folder, or Parquet.

    Those of one rank of every class, or of ``ranks``. Names stand as text; floats as Python writes them, so
    they are read back exactly. Raises TraceError for another kind and for ranks that do not exist, and
    SimclusterError where Parquet is asked for and polars is not installed.
    """
    if kind not in KINDS:
        raise TraceError(f"tables are not written as '{kind}'", hint=nearest(kind, KINDS))
    if kind == "parquet":
        _check_polars()
    Path(folder).mkdir(parents=True, exist_ok=True)
    chosen = None if ranks is None else list(ranks)
    paths = []
    for name, make in TABLES.items():
        table, path = make(run, chosen), Path(folder, f"{name}.{kind}")
        if kind == "csv":
            columns = [
                table.text(column).tolist() if column in table.names else table[column].tolist()
                for column in table.columns
            ]
            text = csv_text(list(table.columns), *zip(*columns, strict=True))
            write_file(path, [text.encode(), b"\n"])
        else:
            import polars

            frame = polars.DataFrame(
                {
                    column: table.text(column).tolist() if column in table.names else values
                    for column, values in table.columns.items()
                },
                schema_overrides=dict.fromkeys(table.names, polars.String),
            )
            with atomic_path(path) as partial:
                frame.write_parquet(partial)
        paths.append(path)
    return tuple(paths)


def _check_polars() -> None:
    try:
        import polars  # noqa: F401
    except ImportError:
        hint = "install it: pip install 'simcluster[notebook]'; or write csv"
        raise SimclusterError(
            Problem("Parquet needs polars, which is not installed", hint=hint, extra="notebook")
        ) from None
