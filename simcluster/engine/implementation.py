"""Which implementation times a run: the reference, or the compiled loop where that pays."""

from __future__ import annotations

import enum
from pathlib import Path

from simcluster.machine_code import CompiledCode

ENTRY = 5e-6
"""Seconds that the reference takes for an entry, about."""

LOOP = CompiledCode(
    "engine",
    tuple(sorted((Path(__file__).parent / "compiled").glob("*.py"))),
    "simcluster.engine.compiled",
    seconds=7,
    by_reference=("Arrays",),
)
"""The compiled loop."""


class Implementation(enum.StrEnum):
    """How a Program is timed; both give the same times, to the nanosecond."""

    REFERENCE = "reference"
    COMPILED = "compiled"


def choose_implementation(num_entries: int) -> Implementation:
    """The faster one for so many entries."""
    return Implementation.COMPILED if LOOP.pays(num_entries * ENTRY) else Implementation.REFERENCE
