"""Checkpoints of scenarios: what they hold, what saving and loading them takes, and small ones on values."""

from simcluster.simulation.checkpoints.checkpoint_costs import (
    CheckpointCosts,
    checkpoint_costs,
    transform_document,
)
from simcluster.simulation.checkpoints.plan_content import content_of
from simcluster.simulation.checkpoints.saved_training import (
    resume_checkpoint,
    save_small_run,
    transform_checkpoint,
)

__all__ = [
    "CheckpointCosts",
    "checkpoint_costs",
    "content_of",
    "resume_checkpoint",
    "save_small_run",
    "transform_checkpoint",
    "transform_document",
]
