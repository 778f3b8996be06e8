"""The scenario's ``run:`` section."""

from __future__ import annotations

from typing import Literal

from simcluster.document import Bytes, NonNegativeInt, PositiveInt, Section


class RunSpec(Section):
    """What is simulated."""

    steps: PositiveInt = 1
    """Number of training steps that run back to back; results are per step."""

    seed: NonNegativeInt = 0
    """Seed of all random draws: weights and batches of ``simcluster verify``, device speeds in
    ``cluster.changes``."""

    engine: Literal["reference", "compiled"] | None = None
    """Which engine times the Program: SimPy processes (reference), or the same compiled. Both give the same
    times. If absent, SimPy for short runs, and the compiled engine where compiling pays off."""

    headroom: Bytes | None = None
    """Memory that must stay free on every device for a plan to fit; with less, the verdict is tight. If
    absent, the value of the framework profile (``storage.headroom``)."""
