from __future__ import annotations

import numpy as np
import pytest

from simcluster.cluster import Level, Span
from simcluster.collectives import Wire


def test_it_counts_bytes_out_of_devices_and_network_cards():
    wire = Wire((2, 3), rails=2)
    data = np.ones(4)
    wire.send(0, 1, data)
    wire.send(0, 1, data)
    wire.send(1, 4, data)
    wire.send(3, 0, data, rail=1)
    assert wire.moved(Level.HOST) == 64
    assert wire.moved(Level.NETWORK) == 32
    assert wire.span == Span(5, 2, 3, 2, 2)
    assert [wire.rail_of(rank) for rank in range(5)] == [0, 1, 0, 0, 1]


def test_what_arrives_is_a_copy():
    data = np.zeros(3)
    received = Wire((2,)).send(0, 1, data)
    received += 1
    assert data.sum() == 0


def test_rails_are_at_most_the_fewest_ranks_of_a_host():
    with pytest.raises(ValueError, match="3 rails"):
        Wire((4, 2), rails=3)
