import zlib
from base64 import b64decode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from simcluster.report.html.packing import BLOCK, differences, packed_columns
from tests.support.page_data import numbers

LARGEST = 2**62


@given(
    st.lists(arrays.arrays(np.int64, st.integers(0, 40), elements=st.integers(-LARGEST, LARGEST)), max_size=4)
)
def test_what_is_packed_is_read_again(columns):
    packed = zlib.decompress(b64decode(packed_columns(columns)))
    assert numbers(packed).tolist() == [value for column in columns for value in column.tolist()]


@pytest.mark.parametrize("count", [BLOCK - 1, BLOCK, BLOCK + 1])
def test_long_columns_are_written_in_blocks(count):
    column = np.arange(count) * 37 - 1000
    assert np.array_equal(numbers(zlib.decompress(b64decode(packed_columns([column])))), column)


def test_equal_durations_take_no_room():
    gaps, durations = np.zeros(100_000, dtype=np.int64), np.tile([812_345, 40_112, 7_000], 33_334)[:100_000]
    assert len(packed_columns([gaps, durations])) < 2000


def test_differences_sum_to_the_column():
    column = np.array([5, 5, 9, 2])
    assert differences(column).tolist() == [5, 0, 4, -7]
    assert np.cumsum(differences(column)).tolist() == column.tolist()
