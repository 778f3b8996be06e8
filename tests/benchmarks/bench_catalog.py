"""How long the catalog takes, with Python's own start: ``pytest tests/benchmarks/bench_catalog.py``."""

from __future__ import annotations

import subprocess
import sys

ALL = """
from simcluster.listings import FAMILIES
for section in FAMILIES.values():
    for name in section.entries():
        section.load(name)
"""


def python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def test_the_list_as_a_command(benchmark):
    benchmark(python, "-m", "simcluster", "catalog")


def test_every_entry_in_a_fresh_process(benchmark):
    benchmark(python, "-c", ALL)
