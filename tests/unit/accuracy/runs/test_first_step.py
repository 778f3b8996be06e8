"""Peaks of a first step: no moments before the update, whose copies of shards come on top of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from simcluster.accuracy.runs.first_step import first_step_peaks

BUFFERS = ("runtime", "w", "w.master", "w.moment1", "w.moment2", "activations", "w.update (scratch)")
CATEGORIES = ("parameters", "optimizer_states", "activations", "temporary", "runtime")


class Table(dict):
    """Columns, and the names of those that are numbers of names."""

    def __init__(self, names, rows):
        super().__init__({column: np.array(values) for column, values in rows.items()})
        self.names = names


def run_with(activations, scratch):
    """A weight of 2 bytes, 12 of states; activations from 10 to 20, the update from 30 to 40."""
    memory = Table(
        {"buffer": BUFFERS, "category": CATEGORIES},
        {
            "time": [0, 0, 0, 0, 0, 10, 20, 30, 40],
            "bytes": [100, 2, 4, 4, 4, activations, -activations, scratch, -scratch],
            "buffer": [0, 1, 2, 3, 4, 5, 5, 6, 6],
            "category": [4, 0, 1, 1, 1, 2, 2, 3, 3],
            "class": [0] * 9,
        },
    )
    spans = Table({"action": ("F0", "end")}, {"start": [10, 30], "class": [0, 0], "action": [0, 1]})
    return SimpleNamespace(memory=memory, spans=spans, documents={"memory": [{"class": 0}]})


@pytest.mark.parametrize(("activations", "scratch", "peak"), [(50, 4, 56), (5, 4, 18), (5, 0, 14)])
def test_moments_come_with_the_update(activations, scratch, peak):
    assert list(first_step_peaks(run_with(activations, scratch))) == [peak]
