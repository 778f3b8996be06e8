"""The trace in Chrome's JSON format, for ui.perfetto.dev: a process per class, a thread per stream.

On the compute thread kernels lie in slices of their layer, and these in slices of the schedule's action. The
thread below says what compute waited for, arrows lead from sends to receives, and counters follow the memory
of every category, each change of it.

Format: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from simcluster.errors import TraceError
from simcluster.report.events import blocks
from simcluster.trace import Run
from simcluster.trace.atomic import atomic

LEVEL = 1
"""Of compression: the next ones take far longer for little."""

_GZIP = 31
"""zlib's window bits for a gzip stream. Its header holds no time: equal runs give equal bytes."""


def write_perfetto(run: Run, path: str | Path) -> None:
    """Writes the trace of a run to a file, compressed if its name ends in ``.gz``; complete or not at all.

    Raises TraceError if the file cannot be written.
    """
    pieces = trace_events(run)
    if Path(path).suffix == ".gz":
        pieces = _compressed(pieces)
    try:
        with atomic(path) as partial, partial.open("wb") as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror or error}") from error


def trace_events(run: Run) -> Iterator[bytes]:
    """The JSON document in pieces: an object whose ``traceEvents`` hold times in microseconds."""
    about = {"name": run.documents["plan"]["name"], **run.documents["provenance"]}
    yield b'{"displayTimeUnit":"ms","otherData":' + orjson.dumps(about) + b',"traceEvents":[\n'
    separator = ""
    for block in blocks(run):
        if block:
            yield (separator + ",\n".join(block)).encode()
            separator = ",\n"
    yield b"\n]}\n"


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()
