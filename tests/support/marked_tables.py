"""Tables of the README and the guide that tests write, between ``<!-- name -->`` and ``<!-- /name -->``."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
ACCURACY = ROOT / "simcluster" / "guide" / "accuracy.md"


def marked_table(file, name):
    """The text between the marks of this name."""
    return _parts(file, name)[1]


def hold_marked_table(file, name, table, request):
    """Asserts that the file shows this table; with ``--update-baselines`` writes it there."""
    before, shown, after = _parts(file, name)
    if request.config.getoption("--update-baselines"):
        file.write_text(before + table + after, encoding="utf-8")
        return
    assert shown == table, f"{file.name}: run this test with --update-baselines"


def _parts(file, name):
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, rest = file.read_text(encoding="utf-8").split(start)
    shown, after = rest.split(end)
    return before + start, shown, end + after
