from __future__ import annotations

import numpy as np

from simcluster.trace import Table, join_tables


def test_a_deferred_table_is_made_once_and_only_when_it_is_looked_at():
    made = []

    def make():
        made.append(1)
        return Table({"kind": np.array([1, 0, 1])}, {"kind": ["a", "b"]})

    def one(number):
        return Table({"class": np.array([number])})

    table = Table.deferred(make, one)
    assert table.among("class", 7)["class"].tolist() == [7]
    assert not made
    assert len(table) == 3
    assert table.text("kind").tolist() == ["b", "a", "b"]
    assert table.index("kind", "b") == 1
    assert table.where(table["kind"] == 1).text("kind").tolist() == ["b", "b"]
    assert len(made) == 1


def test_tables_are_joined_whatever_their_numbers_stand_for():
    first = Table({"kind": np.array([1, 0]), "size": np.array([5, 6])}, {"kind": ["a", "b"]})
    second = Table({"kind": np.array([0, 1]), "size": np.array([7, 8])}, {"kind": ["c", "b"]})
    table = join_tables([first, second])
    assert table.text("kind").tolist() == ["b", "a", "c", "b"]
    assert table["size"].tolist() == [5, 6, 7, 8]
