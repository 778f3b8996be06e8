"""JSON text built from columns: rows are concatenated column by column, without an object per number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray


def join_columns(*columns: bytes | Sequence[bytes]) -> bytes:
    """The rows of columns one after the other; a text by itself is the same in every row.

    At least one column is no single text; all have equal lengths.
    """
    count = next(len(column) for column in columns if not isinstance(column, bytes))
    first, last = columns[0], columns[-1]
    start = end = b""
    if isinstance(first, bytes) and isinstance(last, bytes) and count:
        columns, start, end = (last + first, *columns[1:-1]), first, last  # of one row and of the next
    pieces = [b""] * (count * len(columns))
    for at, column in enumerate(columns):
        pieces[at :: len(columns)] = [column] * count if isinstance(column, bytes) else column
    if start:
        pieces[0] = start
        pieces.append(end)
    return b"".join(pieces)


def texts_at(texts: Sequence[bytes], numbers: NDArray[np.integer[Any]]) -> list[bytes]:
    """A text for each number, its place among ``texts``."""
    chosen: list[bytes] = np.array(texts, dtype=np.object_)[numbers].tolist()
    return chosen


def json_numbers(numbers: NDArray[Any]) -> list[bytes]:
    """Every number as JSON."""
    return _dumped(numbers)[1:-1].split(b",") if numbers.size else []


def json_microseconds(nanoseconds: NDArray[Any]) -> list[bytes]:
    """Times as JSON numbers in microseconds, exact to the nanosecond."""
    return json_numbers(_microseconds(nanoseconds))


def json_spans(starts: NDArray[Any], ends: NDArray[Any]) -> tuple[list[bytes], bytes, list[bytes]]:
    """Columns that say when spans start and how long they take, in microseconds."""
    return json_microseconds(starts), b',"dur":', json_microseconds(ends - starts)


def _microseconds(nanoseconds: NDArray[Any]) -> NDArray[np.float64]:
    """Times in microseconds.

    Readers multiply by 1000 and cut off, which would make 1.001 one nanosecond too little; such numbers are
    written one ulp higher (1.0010000000000001), so that no slice ends after the one it lies in.
    """
    whole = nanoseconds.astype(np.int64)
    microseconds = whole / 1000.0
    short = (microseconds * 1000.0).astype(np.int64) < whole
    microseconds[short] = np.nextafter(microseconds[short], np.inf)
    return np.asarray(microseconds)


def _dumped(numbers: NDArray[Any]) -> bytes:
    return orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY)


def json_text(value: object) -> bytes:
    """A value as JSON."""
    return orjson.dumps(value)
