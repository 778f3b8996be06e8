"""The README's table of accuracy: a summary of the tables of the guide, in one row each.

``--update-baselines`` writes it again; its name lets it run behind the tests that write those of the guide.
"""

from __future__ import annotations

from statistics import median

from tests.support.marked_tables import ACCURACY, ROOT, hold_marked_table, marked_table


def cells(name):
    lines = marked_table(ACCURACY, name).splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def row_of_all(name):
    return next(row for row in cells(name) if row[0] == "all")


def table():
    errors = {row[1] + row[0]: int(row[-1].rstrip("%")) for row in cells("published")}
    steps = [error for name, error in errors.items() if not name.startswith("allocated")]
    _, _, memory_rows, memory_median, memory_p90, memory_bias = row_of_all("memory")
    _, small_rows, small_median, small_bias, large_rows, large_median, large_bias = row_of_all("collectives")
    worst = f"{min(steps):+d} % to {max(steps):+d} %"
    rows = [
        (
            "step time or throughput of whole training runs",
            len(steps),
            f"{median(map(abs, steps)):.0f} %",
            worst,
        ),
        ("peak memory of training runs", memory_rows, memory_median, f"90 % of the rows within {memory_p90}"),
        ("collectives from 16 MiB", large_rows, large_median, f"bias {large_bias}"),
        ("collectives below 16 MiB", small_rows, small_median, f"bias {small_bias}"),
    ]
    lines = ["| compared with published figures | rows | median error | spread |", "|---|--:|--:|---|"]
    for what, number, middle, spread in rows:
        count = str(number).removesuffix(" rows")
        lines.append(f"| {what} | {count} | {middle.replace(' %', '%')} | {spread.replace(' %', '%')} |")
    return "\n".join(lines) + "\n"


def test_the_readme_shows_it(request):
    hold_marked_table(ROOT / "README.md", "accuracy", table(), request)
