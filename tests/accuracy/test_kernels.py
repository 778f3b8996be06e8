"""Measured kernels against their prediction from device files: medians by kernel and size stay within bounds.

``kernels.csv`` holds figures with their source, of the notes only what says how a row was measured.
``--update-baselines`` writes the bounds and the guide's table again: each bound is the median of today, in
whole percent upwards. A bound that rises needs a reason in the commit.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

from simcluster import units
from simcluster.accuracy import KernelGrouping, predict_kernels, read_kernels
from simcluster.accuracy.kernels import kernel_errors
from simcluster.document import Document

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "simcluster" / "guide" / "calibration.md"
BOUNDS = HERE / "kernels.yaml"
START, END = "<!-- kernels -->\n", "<!-- /kernels -->\n"
ASKED = {
    "gemm from 10 GFLOP": 0.07,
    "gemm 1 to 10 GFLOP": 0.12,
    "attention_fwd": 0.10,
    "attention_bwd": 0.10,
    "memory-bound from 64 MiB": 0.12,
    "grouped_gemm": 0.15,
}
"""Median errors that the fits are made for."""


@cache
def predictions():
    return predict_kernels(read_kernels(HERE / "kernels.csv"))


def medians():
    """Percent by class of kernel and size, and by device."""
    return {
        name: errors.median * 100
        for by in (KernelGrouping.SIZE, KernelGrouping.DEVICE)
        for name, errors in kernel_errors(predictions(), by).items()
    }


def table():
    lines = ["| kernels | rows | median | p90 | bias |", "|---|--:|--:|--:|--:|"]
    for name, errors in kernel_errors(predictions()).items():
        sizes = f"{units.percent(errors.median)} | {units.percent(errors.p90, 0)}"
        lines.append(f"| {name} | {errors.rows:,} | {sizes} | {units.signed_percent(errors.bias)} |")
    return "\n".join(lines) + "\n"


def test_the_medians_stay_within_their_bounds(request):
    today = medians()
    if request.config.getoption("--update-baselines"):
        lines = ["# Bounds of median errors in percent; written by pytest tests/accuracy --update-baselines."]
        lines += [f'"{name}": {math.ceil(median)}' for name, median in today.items()]
        BOUNDS.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    bounds = Document.read(BOUNDS).data
    assert bounds.keys() == today.keys()
    assert not [f"{name}: {median:.1f} %" for name, median in today.items() if median > bounds[name]]


def test_the_fits_reach_what_they_are_made_for():
    errors = kernel_errors(predictions())
    assert not {name: errors[name].median for name, most in ASKED.items() if errors[name].median > most}


def test_nearly_all_rows_are_predicted_and_the_others_say_why():
    missing = [one.reason for one in predictions() if one.reason]
    assert len(missing) < 0.07 * len(predictions())
    assert all(missing)


def test_the_guide_has_the_table(request):
    text = GUIDE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    old, _, after = rest.partition(END)
    if request.config.getoption("--update-baselines"):
        GUIDE.write_text(before + START + table() + END + after, encoding="utf-8")
        return
    assert old == table(), "run pytest tests/accuracy/test_kernels.py --update-baselines"
