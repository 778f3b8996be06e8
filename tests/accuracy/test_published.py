"""Published runs against their simulation: the error stays within its recorded bound, in the open.

What is simulated stands in the goldens, which their tests hold to it: no run is made twice. The guide
shows the table; ``--update-baselines`` writes it again, behind that of the goldens.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from simcluster import units
from simcluster.document import Document
from tests.support.marked_tables import ACCURACY, ROOT, hold_marked_table

ROWS = Document.read(Path(__file__).with_name("published.yaml")).data["runs"]
SHOWN = {
    "step_time_s": ("step", units.seconds),
    "tokens_per_s_per_device": ("tokens/s per device", lambda value: f"{value:,.0f}"),
    "allocated_memory_bytes_max": ("allocated memory", units.size),
}


@cache
def summary(name):
    found = json.loads((ROOT / "tests/golden" / f"{name}.json").read_text(encoding="utf-8"))
    return found | {"name": Document.read(ROOT / "scenarios" / f"{name}.yaml").data["name"]}


def error(row):
    return summary(row["scenario"])[row["figure"]] / row["measured"] - 1


def table():
    lines = ["| run | figure | measured | simulated | error |", "|---|---|--:|--:|--:|"]
    for row in ROWS:
        found = summary(row["scenario"])
        figure, shown = SHOWN[row["figure"]]
        name = f"[{found['name']}](../../scenarios/{row['scenario']}.yaml)"
        values = f"{shown(row['measured'])} | {shown(found[row['figure']])}"
        lines.append(f"| {name} | {figure} | {values} | {units.signed_percent(error(row), 0)} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['scenario']}: {row['figure']}")
def test_the_error_stays_within_its_bound(row):
    assert abs(error(row)) <= row["within"], f"{error(row):+.1%}"


def test_the_guide_shows_it(request):
    hold_marked_table(ACCURACY, "published", table(), request)
