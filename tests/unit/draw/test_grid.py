import pytest

from simcluster.draw import schedule_grid

TEXT = "F0 F1 B0 B1\nF0 B0 F1 B1"


def test_a_row_per_stage_and_a_column_per_unit():
    lines = [line.rstrip() for line in schedule_grid(TEXT, 80).plain.split("\n")]
    assert lines == ["stage 0  F0 F1 ·  ·  B0─── ·  B1───", "stage 1  ·  F0 B0─── F1 B1─── ·  ·"]


def test_rows_may_be_named():
    assert schedule_grid("F0", 80, labels=["first"]).plain.rstrip() == "first  F0"


@pytest.mark.parametrize("width", [30, 40, 80])
def test_long_schedules_are_cut_in_the_middle_at_whole_units(width):
    words = " ".join(f"F{b} B{b}" for b in range(40))
    (line,) = schedule_grid(words, width).plain.split("\n")
    assert len(line) <= width
    head, tail = line.split(" … ")
    assert head.startswith("stage 0  F0─")
    assert tail.rstrip().endswith("B39────" if width > 30 else "───")


def test_nothing():
    assert schedule_grid("", 80).plain == ""
