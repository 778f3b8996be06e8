"""Columns of whole numbers and texts in few characters, as the page's script reads them.

A number is zigzag-coded (0, -1, 1, -2 ... as 0, 1, 2, 3) and written in groups of seven bits, the lowest
first; all groups but the last have the eighth bit. What results is compressed as zlib does, which browsers
call ``deflate``, and written in base64. Spans take one to three bytes each: gaps are mostly
nothing, and durations of equal layers repeat.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.number_arrays import Ints

BLOCK = 2**16
"""Numbers that are written at a time."""


def packed_columns(columns: Sequence[NDArray[Any]]) -> str:
    """The columns one after the other; their lengths are the reader's to know."""
    return packed_bytes(b"".join(_written(column.astype(np.int64)) for column in columns))


def packed_bytes(content: bytes) -> str:
    """Any bytes, compressed, in base64."""
    return b64encode(zlib.compress(content, 6)).decode()


def differences(column: NDArray[Any]) -> Ints:
    """Each value less the one before it, the first less 0: small where a column rises slowly."""
    values: Ints = column.astype(np.int64)
    return values - np.append(np.int64(0), values[:-1])


def _written(values: Ints) -> bytes:
    return b"".join(_groups(values[start : start + BLOCK]) for start in range(0, len(values), BLOCK))


def _groups(values: Ints) -> bytes:
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    most = max(1, -(-int(zigzag.max(initial=0)).bit_length() // 7))
    rest = zigzag[:, np.newaxis] >> (np.arange(most + 1, dtype=np.uint64) * np.uint64(7))
    further = rest[:, 1:] > 0
    groups = (rest[:, :-1] & np.uint64(127)).astype(np.uint8) | (further.astype(np.uint8) << 7)
    there = np.concatenate([np.ones((len(values), 1), dtype=np.bool_), further[:, :-1]], axis=1)
    return bytes(groups[there].tobytes())
