"""Shares of the batch by speed: the last rank is done as soon as can be."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from simcluster.search.bounds.share_balance import shares_by_speed


@given(st.lists(st.sampled_from([1.0, 1.5, 2.0, 3.3]), min_size=1, max_size=3), st.integers(0, 6))
def test_no_other_shares_are_done_sooner(slowness, more):
    total = len(slowness) + more
    counts = shares_by_speed(slowness, total)
    assert sum(counts) == total and min(counts) >= 1

    def end(shares):
        return max(share * slow for share, slow in zip(shares, slowness, strict=True))

    others = product(range(1, total + 1), repeat=len(slowness))
    assert end(counts) == min(end(shares) for shares in others if sum(shares) == total)


def test_equal_ranks_have_equal_shares():
    assert shares_by_speed([1.0, 1.0, 1.0], 6) == (2, 2, 2)
