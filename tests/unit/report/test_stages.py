import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.report.stages import against, labels, stage_memory


def entry(stage, total, ranks=8, capacity=100, index=0):
    return {"class": index, "stage": stage, "rank": 0, "ranks": ranks, "total": total, "capacity": capacity}


def test_classes_of_a_stage_are_one_row_with_the_fullest():
    (row,) = stage_memory([entry(0, 10), entry(0, 30, ranks=1, index=1)], 8)
    assert (row.ranks, row.worst["class"], row.label) == (9, 1, "stage 0")
    assert labels([row]) == ["all ranks"]


def test_fullest_is_by_capacity():
    (row,) = stage_memory([entry(0, 60, capacity=100), entry(0, 50, capacity=60, index=1)], 8)
    assert row.worst["class"] == 1
    assert against([row]) == "against 60 B per device"


def test_few_stages_stay_apart_even_if_equal():
    assert [row.label for row in stage_memory([entry(s, 10) for s in range(8)], 8)] == [
        f"stage {s}" for s in range(8)
    ]


def test_many_equal_neighbours_become_one_row():
    rows = stage_memory([entry(0, 40), *(entry(s, 30) for s in range(1, 15)), entry(15, 20)], 8)
    assert [row.label for row in rows] == ["stage 0", "stage 1-14", "stage 15"]
    assert [row.ranks for row in rows] == [8, 112, 8]
    assert "fullest" in against(rows)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=70), st.integers(1, 10))
def test_nothing_is_left_out_and_the_worst_stays_visible(totals, most):
    rows = stage_memory([entry(stage, total) for stage, total in enumerate(totals)], most)
    assert len(rows) <= most
    assert [row.first for row in rows] == [0, *(row.last + 1 for row in rows[:-1])]
    assert rows[-1].last == len(totals) - 1
    assert sum(row.ranks for row in rows) == 8 * len(totals)
    for row in rows:
        assert row.worst["total"] == max(totals[row.first : row.last + 1])


@pytest.mark.parametrize("most", [6, 8])
def test_sixteen_different_stages_are_taken_together_in_order(most):
    rows = stage_memory([entry(stage, 90 - 5 * stage) for stage in range(16)], most)
    assert len(rows) <= most and rows[0].worst["total"] == 90
