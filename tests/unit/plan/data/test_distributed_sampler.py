"""The rows of a dataset that shards read, against the reference's golden case and its formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster import shard_rows
from simcluster.plan.data.distributed_sampler import Epoch


def test_ten_rows_for_four_shards():
    found = [shard_rows(10, 4, shard).tolist() for shard in range(4)]
    assert found == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]


@given(rows=st.integers(1, 60), shards=st.integers(1, 9), seed=st.none() | st.integers(0, 5))
def test_everything_is_read_and_as_little_twice_as_possible(rows, shards, seed):
    found = [shard_rows(rows, shards, shard, shuffle=seed) for shard in range(shards)]
    assert len({len(each) for each in found}) == 1
    counts = np.bincount(np.concatenate(found), minlength=rows)
    assert counts.min() >= 1
    epoch = Epoch.of(rows, shards, 1)
    assert counts.sum() - rows == epoch.repeated < shards
    assert epoch.steps == epoch.rows_per_shard == len(found[0])


@given(rows=st.integers(1, 60), shards=st.integers(1, 9), data=st.data())
def test_with_an_offset_nothing_is_read_twice(rows, shards, data):
    """The i-th of shard d is row D i + d - o, as many as the reference counts."""
    offset = data.draw(st.integers(0, shards - 1))
    found = [shard_rows(rows, shards, shard, offset=offset) for shard in range(shards)]
    assert sorted(np.concatenate(found).tolist()) == list(range(rows))
    for shard, mine in enumerate(found):
        count = (rows + offset) // shards + (shard < (rows + offset) % shards) - (shard < offset)
        assert len(mine) == count
        assert all(row % shards == (shard - offset) % shards for row in mine.tolist())


def test_every_epoch_has_an_order_of_its_own():
    first, again, second = (shard_rows(50, 5, 2, shuffle=3, epoch=epoch).tolist() for epoch in (0, 0, 1))
    assert first == again != second


@pytest.mark.parametrize("asked", [(0, 1, 0), (5, 2, 2), (5, 2, -1)])
def test_there_is_no_such_shard(asked):
    with pytest.raises(ValueError, match="there is no shard"):
        shard_rows(*asked)


def test_a_step_takes_a_batch_of_every_shard():
    assert Epoch.of(1001, 8, 2) == Epoch(1001, 8, 126, 7, 63)
