"""Live buffers at a moment, by name; those of all layers count as one: ``layers.*.mlp.up.out``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]

_NUMBERED = re.compile(r"(?<=\.)\d+(?=[.:])")


def largest_live_buffers(
    buffers: Numbers, sizes: Numbers, micro_batches: Numbers, names: Sequence[str], count: int = 8
) -> list[dict[str, Any]]:
    """The largest of ``live_bytes_by_name``, as entries of a document."""
    sizes_by_name = {
        name: size for name, (size, _) in live_bytes_by_name(buffers, sizes, micro_batches, names).items()
    }
    largest = sorted(sizes_by_name.items(), key=lambda entry: -entry[1])[:count]
    return [{"buffer": name, "bytes": size} for name, size in largest]


def live_bytes_by_name(
    buffers: Numbers, sizes: Numbers, micro_batches: Numbers, names: Sequence[str]
) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    """Name -> bytes and (buffer, micro-batch) of all buffers alive after some rows of an allocation table.

    Those of one name over layers are together: ``layers.*.mlp.up.out`` stands for that buffer of every layer.
    """
    width = int(micro_batches.max(initial=0)) + 2
    first = int(buffers.min(initial=len(names)))
    keys = (buffers.astype(np.int64) - first) * width + micro_batches + 1
    # Sums of floats are exact here: what is held of one buffer is less than 2^53 bytes at any row.
    level = np.bincount(keys, weights=sizes)
    living = np.flatnonzero(level > 0)
    by_name: dict[str, tuple[int, list[tuple[int, int]]]] = {}
    for key, size in zip(living.tolist(), level[living].astype(np.int64).tolist(), strict=True):
        number, batch = divmod(key + first * width, width)
        name = _NUMBERED.sub("*", names[number])
        known, members = by_name.get(name, (0, []))
        by_name[name] = (known + size, [*members, (number, batch - 1)])
    return by_name
