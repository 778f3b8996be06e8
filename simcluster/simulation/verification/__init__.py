"""verify: a small form of a plan, run in values, against the same mathematics on one device."""

from simcluster.simulation.verification.recovered_training import (
    KilledRank,
    RecoveredTraining,
    TrainingInValues,
)
from simcluster.simulation.verification.single_device_comparison import Verification, verify

__all__ = ["KilledRank", "RecoveredTraining", "TrainingInValues", "Verification", "verify"]
