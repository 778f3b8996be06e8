"""Errors of many rows: medians and their like, by class, and nothing lost on the way."""

from __future__ import annotations

import csv
import io

import pytest

from simcluster.accuracy import (
    SizeClass,
    accuracy_csv,
    accuracy_text,
    by_operation,
    errors_by_key,
    overall,
    unsupported,
    worst,
)
from simcluster.accuracy.prediction import Prediction
from simcluster.accuracy.row import COLUMNS, MeasuredRow


def made(name, size, ratio=None, operation="all_reduce"):
    row = MeasuredRow(2, name, "lab", operation, "H100", 8, 1, size, 1e-3, None, None, "so, it is")
    if ratio is None:
        return Prediction(row, reason="not known")
    return Prediction(row, "dgx-h100", "ring simple", measured=1e-3, predicted=ratio * 1e-3)


SMALL = [made(f"s{index}", 2**10, ratio) for index, ratio in enumerate((0.5, 0.9, 1.0, 1.1, 1.8))]
LARGE = [made("exact", 16 << 20, 1.0), made("late", 2**30, 1.2, "all_gather")]
NONE = [made("none", 2**30)] * 2


def test_the_classes_and_their_figures():
    (sizes,) = errors_by_key([*SMALL, *LARGE, *NONE], overall).values()
    below, above = sizes[SizeClass.BELOW], sizes[SizeClass.FROM]
    assert (below.rows, above.rows) == (5, 2)
    assert (below.median, below.worst) == pytest.approx((0.1, 0.8))
    assert below.bias == pytest.approx(0.0)
    assert below.p90 == pytest.approx(0.68)
    assert (above.median, above.bias) == pytest.approx((0.1, 0.1))


def test_keys_are_sorted_and_absent_classes_absent():
    found = errors_by_key([*LARGE, *SMALL], by_operation)
    assert list(found) == [("all_gather",), ("all_reduce",)]
    assert list(found["all_gather",]) == [SizeClass.FROM]


def test_the_worst_are_those_of_the_largest_ratio():
    """Half and twice the time are equally wrong, though -50% looks smaller than +100%."""
    rows = [made("half", 1, 0.5), made("more", 1, 1.9), made("exact", 1, 1.0)]
    assert [each.row.name for each in worst([*rows, *NONE], 2)] == ["half", "more"]


def test_rows_without_a_prediction_are_counted_aloud():
    assert unsupported([*SMALL, *NONE]) == [("not known", 2)]
    text = accuracy_text([*SMALL, *NONE], 1)
    assert text.splitlines()[0] == "5 of 7 rows predicted, 2 not"
    assert "Not predicted" in text and "2  not known" in text
    assert "The row farthest off" in text
    assert "Not predicted" not in accuracy_text(SMALL)
    assert accuracy_text(NONE).splitlines()[0] == "0 of 2 rows predicted, 2 not"


def test_csv_holds_every_row():
    found = list(csv.DictReader(io.StringIO(accuracy_csv([*SMALL, *NONE]))))
    assert len(found) == 7
    assert list(found[0])[: len(COLUMNS)] == list(COLUMNS)
    assert (found[0]["error"], found[0]["predicted_us"], found[0]["notes"]) == ("-0.5", "500", "so, it is")
    assert (found[-1]["not_predicted"], found[-1]["predicted_us"]) == ("not known", "")
