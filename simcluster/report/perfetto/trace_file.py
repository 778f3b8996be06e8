"""The trace in Chrome's JSON format, for ui.perfetto.dev: a process per class, or per chosen
rank, and a thread per stream.

On the compute thread kernels lie in slices of their layer, and these in slices of the schedule's action. The
thread below says what compute waited for, arrows lead from sends to receives, and counters follow the memory
of every category, each change of it.

Format: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import orjson

from simcluster.report.perfetto.event_blocks import event_blocks_of
from simcluster.trace import Run, write_file

LEVEL = 1
"""Of compression: the next ones take far longer for little."""

_PACKED = 2**23
"""Bytes handed to the packing thread at a time: after each it has to wait for the interpreter, some ms."""

_GZIP = 31
"""zlib's window bits for a gzip stream. Its header holds no time: equal runs give equal bytes."""

_TABLE = 7
"""zlib's size of its tables: one below its default is a little faster on such text, and packs it alike."""


def write_perfetto(run: Run, path: str | Path, ranks: Iterable[int] | None = None) -> None:
    """Writes the trace of a run to a file, compressed if its name ends in ``.gz``; complete or not at all.

    One process per class, or one per rank that is named. Raises TraceError if there is no such rank or the
    file cannot be written.
    """
    pieces = trace_events(run, ranks)
    write_file(path, compressed(pieces) if Path(path).suffix == ".gz" else pieces)


def trace_events(run: Run, ranks: Iterable[int] | None = None) -> Iterator[bytes]:
    """The JSON document in pieces: an object whose ``traceEvents`` hold times in microseconds."""
    about = {"name": run.documents["plan"]["name"], **run.documents["provenance"]}
    yield b'{"displayTimeUnit":"ms","otherData":' + orjson.dumps(about) + b',"traceEvents":[\n'
    before_the_first = len(b",\n")
    for block in event_blocks_of(run, ranks):
        yield block[before_the_first:]
        before_the_first = 0
    yield b"\n]}\n"


def compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A gzip stream. It is packed on a thread of its own while the next pieces are made."""
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP, _TABLE)

    def pack(gathered: Iterable[bytes]) -> bytes:
        return compressor.compress(b"".join(gathered))

    with ThreadPoolExecutor(max_workers=1) as packer:
        packing: deque[Future[bytes]] = deque()
        for gathered in _gathered(pieces):
            packing.append(packer.submit(pack, gathered))
            if len(packing) > 2:
                yield packing.popleft().result()
        while packing:
            yield packing.popleft().result()
    yield compressor.flush()


def _gathered(pieces: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """The same bytes, as many at a time as are worth handing to another thread."""
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= _PACKED:
            yield gathered
            gathered, size = [], 0
    yield gathered
