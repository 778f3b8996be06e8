"""Rows that hold the same have one number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.report.content import distinct_rows


@pytest.mark.parametrize("most", [3, 10**6])
@given(data=st.data())
def test_rows_have_one_number_exactly_where_their_values_are_equal(most, data):
    pairs = data.draw(st.lists(st.tuples(st.integers(0, most), st.integers(0, most))))
    columns = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    rows, numbers = distinct_rows(*columns)
    assert sorted(set(numbers.tolist())) == list(range(len(rows)))
    assert len(rows) == len(set(pairs))
    assert [pairs[row] for row in rows[numbers].tolist()] == pairs
