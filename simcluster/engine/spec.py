"""The scenario's ``run:`` section."""

from __future__ import annotations

from simcluster.document import NonNegativeInt, PositiveInt, Section


class RunSpec(Section):
    """What is simulated."""

    steps: PositiveInt = 1
    """Training steps run back to back; results are per step."""

    seed: NonNegativeInt = 0
    """Seed of everything that is drawn: weights and batches in verify, speeds in ``cluster.changes``."""
