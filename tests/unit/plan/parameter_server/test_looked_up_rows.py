"""How many different rows a batch looks up, and where they are."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.plan.parameter_server import looked_up_rows
from simcluster.plan.parameter_server.looked_up_rows import MULTIPLIER, LookupLaw, rows_per_shard


def test_uniform_lookups_leave_out_as_many_as_expected():
    """Of n lookups among R rows, R (1 - (1 - 1/R)^n) are different in the mean."""
    rows, count = 10_000, 15_000
    expected = rows * (1 - (1 - 1 / rows) ** count)
    assert len(LookupLaw(0, 0).draw(rows, count)) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("exponent", [0.8, 1.05, 1.5])
def test_zipf_lookups_are_those_of_the_law(exponent):
    rows, count = 5_000, 20_000
    shares = np.arange(1, rows + 1) ** -exponent
    expected = (1 - (1 - shares / shares.sum()) ** count).sum()
    assert len(LookupLaw(exponent, 1).draw(rows, count)) == pytest.approx(expected, rel=0.03)


def test_the_same_seed_gives_the_same_rows():
    first, again, other = (LookupLaw(1.1, seed).draw(1000, 300) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_large_tables_are_drawn_from_block_by_block(monkeypatch):
    """A table of two billion rows took 48 GB at once; the rows are the same."""
    whole = LookupLaw(1.05, 0).draw(1000, 300)
    monkeypatch.setattr(looked_up_rows, "BLOCK", 7)
    assert np.array_equal(LookupLaw(1.05, 0).draw(1000, 300), whole)


def test_popular_rows_are_spread_over_servers():
    popular = np.arange(100)
    counts = rows_per_shard(popular, 1000, [(0, 250), (250, 250), (500, 250), (750, 250)])
    assert sum(counts) == 100
    assert max(counts) < 40


def test_every_row_is_on_one_server():
    assert sum(rows_per_shard(np.arange(999), 999, [(0, 333), (333, 333), (666, 333)])) == 999


def test_rows_beyond_three_billion_lie_where_whole_numbers_put_them():
    """Products with the multiplier are beyond 64 bits: places were wrong, and rows on other servers."""
    rows, popular = 5_000_000_000, np.arange(3_000_000_000, 5_000_000_000, 19_999_999)
    places = [number * MULTIPLIER % rows for number in popular.tolist()]
    bounds = [(first, rows // 4) for first in range(0, rows, rows // 4)]
    expected = [sum(first <= place < first + count for place in places) for first, count in bounds]
    assert rows_per_shard(popular, rows, bounds) == expected
