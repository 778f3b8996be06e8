"""JSON text built from columns: rows are concatenated column by column, without an object per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray


def join_columns(*columns: str | Sequence[str]) -> str:
    """The rows of columns one after the other; a text by itself is the same in every row.

    At least one column is no single text; all have equal lengths.
    """
    count = next(len(column) for column in columns if not isinstance(column, str))
    pieces = [""] * (count * len(columns))
    for at, column in enumerate(columns):
        pieces[at :: len(columns)] = [column] * count if isinstance(column, str) else column
    return "".join(pieces)


def texts_at(texts: Sequence[str], numbers: NDArray[np.integer[Any]]) -> list[str]:
    """A text for each number, its place among ``texts``."""
    chosen: list[str] = np.array(texts, dtype=np.object_)[numbers].tolist()
    return chosen


def json_numbers(numbers: NDArray[Any]) -> list[str]:
    """Every number as JSON."""
    if not numbers.size:
        return []
    text = orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY)
    return text[1:-1].decode().split(",")


def json_microseconds(nanoseconds: NDArray[Any]) -> list[str]:
    """Times as JSON numbers in microseconds, exact to the nanosecond.

    Readers multiply by 1000 and cut off, which would make 1.001 one nanosecond too little; such numbers are
    written one ulp higher (1.0010000000000001), so that no slice ends after the one it lies in.
    """
    whole = nanoseconds.astype(np.int64)
    microseconds = whole / 1000.0
    short = (microseconds * 1000.0).astype(np.int64) < whole
    microseconds[short] = np.nextafter(microseconds[short], np.inf)
    return json_numbers(microseconds)


def json_text(value: object) -> str:
    """A value as JSON."""
    return orjson.dumps(value).decode()
