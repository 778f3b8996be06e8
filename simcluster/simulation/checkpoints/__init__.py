"""Checkpoints of scenarios: what they hold, what saving and loading them takes, and small ones on values."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.simulation.checkpoints.checkpoint_costs import (
        CheckpointCosts,
        price_checkpoints,
        source_slices_of,
        transform_document,
    )
    from simcluster.simulation.checkpoints.loaded_inference import load_for_inference
    from simcluster.simulation.checkpoints.mindspore_files import group_file_of, strategy_file_of
    from simcluster.simulation.checkpoints.plan_content import content_of
    from simcluster.simulation.checkpoints.saved_training import (
        resume_checkpoint,
        save_small_run,
        transform_checkpoint,
    )
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "checkpoint_costs": "CheckpointCosts price_checkpoints source_slices_of transform_document",
            "loaded_inference": "load_for_inference",
            "mindspore_files": "group_file_of strategy_file_of",
            "plan_content": "content_of",
            "saved_training": "resume_checkpoint save_small_run transform_checkpoint",
        },
    )

__all__ = [
    "CheckpointCosts",
    "content_of",
    "group_file_of",
    "load_for_inference",
    "price_checkpoints",
    "resume_checkpoint",
    "save_small_run",
    "source_slices_of",
    "strategy_file_of",
    "transform_checkpoint",
    "transform_document",
]
