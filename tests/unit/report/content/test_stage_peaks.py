import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.report.content.stage_peaks import bar_scale, capacity_marks, row_labels, stage_memory


def entry(stage, total, ranks=8, capacity=100, index=0, device="gpu"):
    return {
        "class": index,
        "stage": stage,
        "rank": 0,
        "ranks": ranks,
        "device": device,
        "total": total,
        "capacity": capacity,
    }


def test_classes_of_a_stage_are_one_row_with_the_fullest():
    (row,) = stage_memory([entry(0, 10), entry(0, 30, ranks=1, index=1)], 8)
    assert (row.ranks, row.worst["class"], row.label) == (9, 1, "stage 0")
    assert row_labels([row]) == ["all ranks"]


def test_fullest_is_by_capacity():
    (row,) = stage_memory([entry(0, 60, capacity=100), entry(0, 50, capacity=60, index=1)], 8)
    assert row.worst["class"] == 1
    assert capacity_marks([row]) == "against 60 B per device"


def test_few_stages_stay_apart_even_if_equal():
    assert [row.label for row in stage_memory([entry(s, 10) for s in range(8)], 8)] == [
        f"stage {s}" for s in range(8)
    ]


def test_many_equal_neighbours_become_one_row():
    rows = stage_memory([entry(0, 40), *(entry(s, 30) for s in range(1, 15)), entry(15, 20)], 8)
    assert [row.label for row in rows] == ["stage 0", "stage 1-14", "stage 15"]
    assert [row.ranks for row in rows] == [8, 112, 8]
    assert "fullest" in capacity_marks(rows)


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


def test_devices_of_a_stage_are_rows_of_their_own_each_against_its_own_memory():
    rows = stage_memory([entry(0, 73, device="large"), entry(0, 57, capacity=60, device="small")], 8)
    assert [row.label for row in rows] == ["stage 0, large", "stage 0, small"]
    assert capacity_marks(rows) == "each against its own device: 100 B of large, 60 B of small"
    assert bar_scale(rows) == 1.0
    assert bar_scale(stage_memory([entry(0, 90, capacity=60)], 8)) == 1.5


SIZES = {"large": 100, "small": 60}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(SIZES)), st.integers(1, 60)), min_size=1, max_size=40),
    st.integers(2, 10),
)
def test_of_every_sort_of_devices_the_fullest_stays_visible(held, most):
    peaks = [
        entry(index // 2, total, capacity=SIZES[device], device=device)
        for index, (device, total) in enumerate(held)
    ]
    rows = stage_memory(peaks, most)
    assert len(rows) <= most
    assert sum(row.ranks for row in rows) == 8 * len(held)
    for device in {device for device, _ in held}:
        top = max(total for other, total in held if other == device)
        mine = [row for row in rows if row.worst["device"] == device]
        assert max(row.worst["total"] for row in mine) == top
