"""Which implementation of the engine times a run: the reference, or the compiled loop where that ends sooner.

Nothing here imports the compiler: small runs never load it.
"""

from __future__ import annotations

import enum
from pathlib import Path

from simcluster.machine_code import CompiledCode

ENTRY = 1e-5
"""Seconds that the reference takes for an entry, at most."""

LOOP = CompiledCode(
    "engine",
    tuple(sorted((Path(__file__).parent / "compiled").glob("*.py"))),
    "simcluster.engine.compiled",
    seconds=15,
    by_reference=("Arrays", "Lanes"),
)
"""The compiled loop."""


class Implementation(enum.StrEnum):
    """How a Program is timed; both give the same times, to the nanosecond."""

    REFERENCE = "reference"
    COMPILED = "compiled"


def choose_implementation(num_entries: int) -> Implementation:
    """The faster one for so many entries."""
    return Implementation.COMPILED if LOOP.pays(num_entries * ENTRY) else Implementation.REFERENCE
