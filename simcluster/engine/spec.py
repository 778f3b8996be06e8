"""The scenario's ``run:`` section."""

from __future__ import annotations

from typing import Literal

from simcluster.document import Bytes, NonNegativeInt, PositiveInt, Section


class RunSpec(Section):
    """What is simulated."""

    steps: PositiveInt = 1
    """Training steps run back to back; results are per step."""

    seed: NonNegativeInt = 0
    """Seed of everything that is drawn: weights and batches in verify, speeds in ``cluster.changes``."""

    engine: Literal["reference", "compiled"] | None = None
    """What times the Program: SimPy processes, or the same compiled. Both give the same times; absent, SimPy
    for short runs and until compiling pays."""

    headroom: Bytes | None = None
    """What must be left free on every device for a plan to fit: with less it is tight. Absent: what the
    framework profile says (``storage.headroom``)."""
