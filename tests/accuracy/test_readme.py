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


def time_error(row):
    """The error of the step time, in percent, also where a throughput was published."""
    error = int(row[-1].rstrip(" %"))
    return error if row[1] == "step" else round(100 * (1 / (1 + error / 100) - 1))


def table():
    steps = [time_error(row) for row in cells("published") if row[1] != "allocated memory"]
    memory = row_of_all("memory")
    small, large = row_of_all("collectives")[1:4], row_of_all("collectives")[4:]
    lines = [
        "| compared with published figures | rows | median error | spread |",
        "|---|--:|--:|---|",
        f"| step time of whole training runs | {len(steps)} | {median(map(abs, steps)):.0f} %"
        f" | {min(steps):+d} % to {max(steps):+d} % |",
        f"| peak memory of training runs | {memory[2]} | {memory[3]} | 90 % of the rows within {memory[4]} |",
        f"| time of collectives from 16 MiB | {large[0].split()[0]} | {large[1]} | bias {large[2]} |",
        f"| time of collectives below 16 MiB | {small[0].split()[0]} | {small[1]} | bias {small[2]} |",
    ]
    return "\n".join(lines) + "\n"


def test_the_readme_shows_it(request):
    hold_marked_table(ROOT / "README.md", "accuracy", table(), request)
