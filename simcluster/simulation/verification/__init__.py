"""verify: a small form of a plan, run in values, against the same mathematics on one device."""

from simcluster.simulation.verification.recovered_training import (
    KilledRank,
    RecoveredTraining,
    TrainingInValues,
)
from simcluster.simulation.verification.single_device_comparison import (
    STEPS,
    TOLERANCES,
    Verification,
    compare_generation,
    verify,
)
from simcluster.simulation.verification.value_run import ShrunkPlan, oracle_of, replay_plan

__all__ = [
    "STEPS",
    "TOLERANCES",
    "KilledRank",
    "RecoveredTraining",
    "ShrunkPlan",
    "TrainingInValues",
    "Verification",
    "compare_generation",
    "oracle_of",
    "replay_plan",
    "verify",
]
