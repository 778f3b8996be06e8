"""A Run: what a simulation recorded, as tables and documents, saved in one file on request.

Reports are made from a Run and nothing else, so any of them can be made again later.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused, check_readable
from simcluster.errors import TraceError
from simcluster.trace.atomic_files import atomic_path
from simcluster.trace.lazy_recording import LazyRecording
from simcluster.trace.recording import COMPUTE, Recording
from simcluster.trace.table import Table

RunDocument = Mapping[str, Any]
"""One of a run's documents, or a part of it: plain data in SI units."""

FORMAT = 4

MOST_BYTES = 2**32
"""The largest saved run that is read, packed or not: beyond it a machine's memory may end."""

WALL_TIME = "wall_s"
"""The figure of the summary that is another one every time: how long simulating took."""


@dataclass(frozen=True)
class Run:
    """A recording, tables ``memory, waits, ranks``, documents ``scenario, summary, layouts, classes, ...``.

    Times in tables are integer nanoseconds, sizes bytes; documents are JSON-able, in SI units, and
    ``critical_path`` and ``time_use`` are made when they are first read. ``ranks`` has
    a row per rank: its class, and the next rank along the pipeline (-1: none). Where classes are very many,
    what is recorded of a class is made when it is asked for.
    """

    recording: Recording | LazyRecording
    memory: Table
    waits: Table
    ranks: Table
    documents: Mapping[str, Any]

    @cached_property
    def spans(self) -> Table:
        """The spans of all classes, of each sorted by start and stream.

        Raises TraceError where they are too many for one table; ``recording.spans`` gives those of one class.
        """
        return self.recording.table()

    @property
    def repeatable(self) -> Run:
        """The run without its wall time: what is the same whenever and wherever it is simulated."""
        summary = {name: value for name, value in self.documents["summary"].items() if name != WALL_TIME}
        return replace(self, documents={**self.documents, "summary": summary})

    @property
    def transfers(self) -> Table:
        """The spans that move data between devices."""
        return self.spans.where(moves_data(self.spans))

    def classes_of(self, ranks: Iterable[int]) -> dict[int, int]:
        """Each of these ranks with its class, in order; TraceError if there is no such rank."""
        chosen = np.unique(np.fromiter(ranks, dtype=np.int64))
        wrong = chosen[(chosen < 0) | (chosen >= len(self.ranks))]
        if wrong.size:
            raise TraceError(f"there is no rank {wrong[0]}; the run has {len(self.ranks):,}, from 0 on")
        return dict(zip(chosen.tolist(), self.ranks["class"][chosen].tolist(), strict=True))

    @property
    def storable(self) -> bool:
        """Whether a file holds the whole run: not where very many classes are recorded when asked for."""
        return not (isinstance(self.recording, LazyRecording) and self.recording.too_many)

    def save(self, path: str | Path) -> None:
        """Writes the whole run to one file, complete or not at all; equal runs give equal bytes.

        Raises TraceError if it is too large, or cannot be written.
        """
        whole = self.recording.whole
        try:
            with (
                atomic_path(path) as partial,
                zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            ):
                _put(archive, "format.json", orjson.dumps({"simcluster_run": FORMAT}))
                _put(archive, "documents.json", orjson.dumps(dict(self.documents)))
                for name in _TABLES:
                    _write(archive, name, getattr(self, name))
                for name in _RECORDED:
                    _write(archive, f"recording.{name}", getattr(whole, name))
        except OSError as error:
            raise TraceError(f"cannot write {path}: {error.strerror or error}") from error

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Reads a saved run; TraceError if the file is none."""
        try:
            check_readable(path, MOST_BYTES)
            with zipfile.ZipFile(path) as archive:
                content = sum(entry.file_size for entry in archive.infolist())
                if content > MOST_BYTES:
                    raise Refused(
                        f"it holds {units.size(content)}; at most {units.size(MOST_BYTES)} are read"
                    )
                saved = orjson.loads(archive.read("format.json"))
                if not isinstance(saved, dict) or saved.get("simcluster_run") != FORMAT:
                    raise TraceError(f"{path} was saved in another format: {saved}")
                tables = {name: _read(archive, name) for name in _TABLES}
                recording = Recording(**{name: _read(archive, f"recording.{name}") for name in _RECORDED})
                return cls(recording, **tables, documents=orjson.loads(archive.read("documents.json")))
        except zipfile.BadZipFile as error:
            raise TraceError(
                f"{path} is not a saved run; simcluster run SCENARIO --out DIR saves one in DIR"
            ) from error
        except _UNREADABLE as error:
            raise TraceError(f"{path} is not a saved run: {error}") from error


_UNREADABLE = (
    *(OSError, EOFError, KeyError, ValueError, zlib.error),
    # What zipfile says of members that are compressed, or encrypted, as those of no run are.
    *(NotImplementedError, RuntimeError),
)
_TABLES = ("memory", "waits", "ranks")
_RECORDED = tuple(field.name for field in fields(Recording))


def moves_data(spans: Table) -> NDArray[np.bool_]:
    """Which of the spans move data between devices."""
    moves: NDArray[np.bool_] = spans["kind"] != spans.index("kind", COMPUTE)
    return moves


def _write(archive: zipfile.ZipFile, name: str, table: Table) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **table.columns)
    _put(archive, f"{name}.npz", buffer.getvalue())
    _put(archive, f"{name}.json", orjson.dumps({key: list(value) for key, value in table.names.items()}))


def _put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Adds a file to an archive, without the time of day that ``writestr`` would give it by itself."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = archive.compression
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content, compresslevel=archive.compresslevel)


def _read(archive: zipfile.ZipFile, name: str) -> Table:
    with np.load(io.BytesIO(archive.read(f"{name}.npz")), allow_pickle=False) as columns:
        return Table({key: columns[key] for key in columns.files}, orjson.loads(archive.read(f"{name}.json")))
