"""What entries wait for, and which of these waits their streams do not know to be over already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.number_arrays import Ints, offsets


def needed_waits(kinds: Sequence[Ints], begins: Ints) -> tuple[Ints, Ints]:
    """Those waits which are for more of a stream than the waiting one has waited for before.

    ``kinds`` are arrays [2, waits]: the entry that waits, and the one that it waits for, of those of all
    streams, which begin as ``begins`` says. An entry has its waits in this order, of those for one stream the
    last. Gives where the waits of every entry begin, and where the last end; and the awaited entries.
    """
    count, num_streams = int(begins[-1]), len(begins) - 1
    stream_of = np.repeat(np.arange(num_streams), np.diff(begins))
    entry, awaited = np.concatenate(kinds, axis=1)
    pairs = stream_of[entry] * num_streams + stream_of[awaited]
    # Streams do not wait for themselves. Waits of a stream are in a few ordered runs: sorting these is fast.
    order = np.flatnonzero(pairs % (num_streams + 1))
    order = order[_grouped(pairs[order])]
    pair = pairs[order] * count
    order = order[np.argsort(pair + entry[order], kind="stable")]
    known = np.maximum.accumulate(pair + awaited[order])
    needed = order[np.diff(known, prepend=-1) > 0]
    another = (np.diff(pairs[needed], append=-1) != 0) | (np.diff(entry[needed], append=-1) != 0)
    kept = needed[another]
    kept = kept[np.lexsort((kept, entry[kept]))]
    return offsets(np.bincount(entry[kept], minlength=count)), awaited[kept]


def _grouped(numbers: Ints) -> NDArray[np.intp]:
    """The order that brings equal numbers together and keeps it among them; small ones are sorted fast."""
    return np.argsort(numbers.astype(np.min_scalar_type(int(numbers.max(initial=0)))), kind="stable")
