"""Which implementation of the engine times a run: the reference, or the compiled loop where that ends sooner.

Nothing here imports the compiler: small runs never load it.
"""

from __future__ import annotations

import enum
import sys
from pathlib import Path

from simcluster.machine_code import CodeFolder

MANY_ENTRIES = 100_000
"""Entries from which on loading the compiled loop (.3 s) costs less than processes do."""

COMPILATION = 1_500_000
"""Entries that the reference times while the loop is compiled for the first time (15 s)."""

LOOP_CODE = CodeFolder(tuple(sorted((Path(__file__).parent / "compiled").glob("*.py"))))
"""Where the loop is kept."""


class Implementation(enum.StrEnum):
    """How a Program is timed; both give the same times, to the nanosecond."""

    REFERENCE = "reference"
    COMPILED = "compiled"


def choose_implementation(num_entries: int) -> Implementation:
    """The faster one for so many entries."""
    if "simcluster.engine.compiled" in sys.modules:
        return Implementation.COMPILED
    fewest = MANY_ENTRIES if LOOP_CODE.is_ready else COMPILATION
    return Implementation.COMPILED if num_entries >= fewest else Implementation.REFERENCE
