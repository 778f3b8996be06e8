"""Published collectives against their prediction: medians by host and operation stay within recorded bounds.

``collectives.csv`` holds figures with their source, of the notes only what says how a row was measured.
``--update-baselines`` writes the bounds and the guide's table again: each bound is the median of today, in
whole percent upwards. A bound that rises needs a reason in the commit.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from simcluster.accuracy import (
    SizeClass,
    accuracy_markdown,
    by_cluster,
    by_operation,
    errors_by_key,
    overall,
    predict,
    read_rows,
    unsupported,
)
from simcluster.document import Document
from tests.support.marked_tables import ACCURACY, hold_marked_table

HERE = Path(__file__).parent
BOUNDS = HERE / "collectives.yaml"
SHOWN_FROM = 20
"""Hosts of fewer rows stand together in the guide's table."""


@cache
def predictions():
    return predict(read_rows(HERE / "collectives.csv"))


def medians():
    """Percent by group and size class."""
    found = {}
    for key in (overall, by_operation, by_cluster):
        for name, sizes in errors_by_key(predictions(), key).items():
            found[", ".join(name)] = {str(size): errors.median * 100 for size, errors in sizes.items()}
    return found


def table():
    rows = Counter(each.cluster for each in predictions())
    few = f"{sum(count < SHOWN_FROM for count in rows.values())} hosts of fewer rows each"

    def by_host(each):
        return by_cluster(each) if rows[each.cluster] >= SHOWN_FROM else (few,)

    return accuracy_markdown(errors_by_key(predictions(), key) for key in (overall, by_operation, by_host))


def test_the_medians_stay_within_their_bounds(request):
    found = medians()
    if request.config.getoption("--update-baselines"):
        lines = ["# Bounds of median errors in percent; written by pytest tests/accuracy --update-baselines."]
        for name, sizes in found.items():
            bounds = ", ".join(f"{size}: {math.ceil(median)}" for size, median in sizes.items())
            lines.append(f"{name}: {{{bounds}}}")
        BOUNDS.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    bounds = Document.read(BOUNDS).data
    assert {name: list(sizes) for name, sizes in bounds.items()} == {
        name: list(sizes) for name, sizes in found.items()
    }
    worse = [
        f"{name}, {size}: {median:.1f} % is more than {bounds[name][size]} %"
        for name, sizes in found.items()
        for size, median in sizes.items()
        if median > bounds[name][size]
    ]
    assert not worse, "\n".join(worse)


@pytest.mark.parametrize(("size", "most"), [(SizeClass.FROM, 0.10), (SizeClass.BELOW, 0.30)])
def test_the_medians_of_all_rows_are_as_promised(size, most):
    (sizes,) = errors_by_key(predictions(), overall).values()
    assert sizes[size].median <= most
    for errors in errors_by_key(predictions(), by_operation).values():
        if size in errors and errors[size].rows >= SHOWN_FROM:
            assert errors[size].median <= most


def test_only_disks_are_not_predicted():
    assert all("nvme" in reason for reason, _ in unsupported(predictions()))


def test_the_guide_shows_it(request):
    hold_marked_table(ACCURACY, "collectives", table(), request)
