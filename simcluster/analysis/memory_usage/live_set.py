"""Live buffers at a moment, by name; those of all layers count as one: ``layers.*.mlp.up.out``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcluster.document import generalised_name

Numbers = NDArray[Any]


class LiveBytes(NamedTuple):
    """The bytes of the buffers of one name, how many there are, and the number of the first."""

    size: int
    num_buffers: int
    first: int


def live_bytes_by_name(
    buffers: Numbers, sizes: Numbers, micro_batches: Numbers, names: Sequence[str]
) -> dict[str, LiveBytes]:
    """What is alive after some rows of an allocation table, by name.

    Those of one name over layers are together: ``layers.*.mlp.up.out`` stands for that buffer of every layer.
    """
    width = int(micro_batches.max(initial=0)) + 2
    first = int(buffers.min(initial=len(names)))
    keys = (buffers.astype(np.int64) - first) * width + micro_batches + 1
    # Sums of floats are exact here: what is held of one buffer is less than 2^53 bytes at any row.
    level = np.bincount(keys, weights=sizes)
    living = np.flatnonzero(level > 0)
    numbers, begins, counts = np.unique(living // width + first, return_index=True, return_counts=True)
    held = np.add.reduceat(level[living], begins) if len(begins) else level[living]
    by_name: dict[str, LiveBytes] = {}
    for number, count, size in zip(numbers.tolist(), counts.tolist(), held.tolist(), strict=True):
        name = generalised_name(names[number])
        known = by_name.get(name, LiveBytes(0, 0, number))
        by_name[name] = LiveBytes(known.size + int(size), known.num_buffers + count, known.first)
    return by_name
