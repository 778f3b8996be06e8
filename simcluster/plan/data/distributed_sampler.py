"""Which rows of a dataset each shard reads: MindSpore's distributed sampler.

Source: ``distributed_sampler.cc`` of MindSpore r1.0 (minddata engine): strided, wrapping around to the start.
"""

from __future__ import annotations

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints


def shard_rows(
    rows: int,
    num_shards: int,
    shard_id: int,
    *,
    shuffle: int | None = None,
    epoch: int = 0,
    offset: int | None = None,
) -> Ints:
    """The rows that a shard reads in an epoch, in order: every ``num_shards``-th, starting at its own number.

    Without an ``offset`` all shards read equally many rows, the last ones some from the beginning again. With
    one, shard ``offset`` starts and no row is read twice. ``shuffle`` is the seed of a permutation common to
    all shards, different in every epoch. Raises ValueError for a shard number out of range.
    """
    if rows < 1 or not 0 <= shard_id < num_shards:
        raise ValueError(f"there is no shard {shard_id} of {num_shards} of {rows} rows")
    order = np.arange(rows, dtype=np.int64)
    if shuffle is not None:
        order = np.random.Generator(np.random.Philox(key=shuffle + epoch)).permutation(order)
    if offset is None:
        places = (num_shards * np.arange(-(-rows // num_shards)) + shard_id) % rows
        return order[places]
    if not 0 <= offset < num_shards:
        raise ValueError(f"an offset is one of {num_shards} shards, not {offset}")
    return order[(shard_id - offset) % num_shards :: num_shards]


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over a dataset by ``num_shards`` shards; rows after the last whole step are dropped."""

    rows: int
    """Rows of the dataset."""
    num_shards: int
    """Shards that read it."""
    rows_per_shard: int
    """Rows that each shard reads."""
    repeated: int
    """Rows that are read twice so that all shards read equally many."""
    steps: int
    """Whole steps."""

    @classmethod
    def of(cls, rows: int, num_shards: int, batch: int) -> Epoch:
        """An epoch in which every shard takes ``batch`` rows per step."""
        rows_per_shard = -(-rows // num_shards)
        return cls(
            rows, num_shards, rows_per_shard, rows_per_shard * num_shards - rows, rows_per_shard // batch
        )
