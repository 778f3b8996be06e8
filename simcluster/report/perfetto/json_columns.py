"""JSON text built from columns: rows are concatenated column by column, without an object per number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

_MARK = b"\x02"
"""Stands between rows until they are written; JSON holds no such character."""


def join_columns(*columns: bytes | Sequence[bytes]) -> bytes:
    """The rows of columns one after the other; a text by itself is the same in every row.

    At least one column is no single text; all have equal lengths.
    """
    count = next(len(column) for column in columns if not isinstance(column, bytes))
    pieces = [b""] * (count * len(columns))
    for at, column in enumerate(columns):
        pieces[at :: len(columns)] = [column] * count if isinstance(column, bytes) else column
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


def json_spans(starts: NDArray[Any], ends: NDArray[Any], between: bytes) -> list[bytes]:
    """The start of every span, the text ``between``, and how long it takes, in microseconds."""
    if not len(starts):
        return []
    return _rows(starts, _microseconds(ends - starts), b"],[", between).split(_MARK)


def json_levels(
    times: NDArray[Any], levels: NDArray[Any], before: bytes, between: bytes, after: bytes
) -> bytes:
    """Rows of a time in microseconds and a whole number below 2^53, with these texts around them."""
    if not len(times):
        return b""
    # Floats of whole numbers end with a zero.
    return before + _rows(times, levels, b".0],[", between).replace(_MARK, after + before) + after


def _rows(times: NDArray[Any], numbers: NDArray[Any], end: bytes, between: bytes) -> bytes:
    """Rows of a time in microseconds and a number that ``end`` like this in JSON, with marks between them."""
    rows = np.stack([_microseconds(times), numbers], axis=1)
    # A few passes over the text take less time than an object for every number.
    return _dumped(rows)[2 : 1 - len(end)].replace(end, _MARK).replace(b",", between)


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
