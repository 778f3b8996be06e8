"""The first instant at which kernels run beside communication, against a search by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.beside import first_beside

GAPS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=5)


def spans(gaps):
    """Starts and ends of what follows one another: (a gap, a length) each."""
    edges = np.cumsum(np.array(gaps, dtype=np.int64).reshape(-1, 2).ravel())
    return edges[0::2], edges[1::2]


def columns(classes):
    """Arrays [entries, classes], the shorter filled up with what takes no time."""
    most = max((len(starts) for starts, _ in classes), default=0)

    def padded(each):
        return np.concatenate([each, np.full(most - len(each), each[-1] if len(each) else 0)])

    return tuple(
        np.stack([padded(part[ends]) for part, ends in ((each, side) for each in classes)], axis=1)
        for side in (0, 1)
    )


@given(st.lists(st.tuples(GAPS, GAPS), min_size=1, max_size=4))
def test_it_is_the_first_of_all_classes(classes):
    kernels = [spans(each) for each, _ in classes]
    moves = [spans(each) for _, each in classes]
    found = []
    for (begun, over), (starts, ends) in zip(kernels, moves, strict=True):
        for a, b in zip(begun.tolist(), over.tolist(), strict=True):
            for c, d in zip(starts.tolist(), ends.tolist(), strict=True):
                if a < b and c < d and max(a, c) < min(b, d):
                    found.append(max(a, c))
    assert first_beside(*columns(kernels), *columns(moves)) == min(found, default=None)
