"""``job.recovery``: what is done when something breaks; one file per policy."""

from simcluster.job.recovery.recovery_costs import STOP, RecoveryCosts
from simcluster.job.recovery.recovery_policy import (
    Loss,
    RecoveryPlan,
    RecoveryPolicy,
    StateSource,
    Survivors,
    policy_kinds,
)
from simcluster.job.recovery.recovery_spec import MemorySaveSpec, RecoverySpec, SimpleCheckpointSpec

__all__ = [
    "STOP",
    "Loss",
    "MemorySaveSpec",
    "RecoveryCosts",
    "RecoveryPlan",
    "RecoveryPolicy",
    "RecoverySpec",
    "SimpleCheckpointSpec",
    "StateSource",
    "Survivors",
    "policy_kinds",
]
