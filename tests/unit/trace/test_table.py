from __future__ import annotations

import numpy as np

from simcluster.trace import Table


def test_a_deferred_table_is_made_once_and_only_when_it_is_looked_at():
    made = []

    def make():
        made.append(1)
        return Table({"kind": np.array([1, 0, 1])}, {"kind": ["a", "b"]})

    table = Table.deferred(make)
    assert not made
    assert len(table) == 3
    assert table.text("kind").tolist() == ["b", "a", "b"]
    assert table.index("kind", "b") == 1
    assert table.where(table["kind"] == 1).text("kind").tolist() == ["b", "b"]
    assert len(made) == 1
