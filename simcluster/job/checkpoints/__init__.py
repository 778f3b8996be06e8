"""Checkpoints: what they hold, in which files, which slices another plan needs, and how often to save."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.job.checkpoints.checkpoint_content import CheckpointContent, SavedTensor
    from simcluster.job.checkpoints.checkpoints_spec import (
        CheckpointsSpec,
        DisksSpec,
        LoadSpec,
        ObjectStoreSpec,
        ReplicasSpec,
        SharedSpec,
    )
    from simcluster.job.checkpoints.group_file import GroupFile, restore_ranks
    from simcluster.job.checkpoints.intervals import (
        best_interval,
        daly_interval,
        expected_wall_time,
        expected_waste,
        young_interval,
    )
    from simcluster.job.checkpoints.shard_files import (
        INDEX,
        MERGED,
        CheckpointFiles,
        CheckpointIndex,
        rank_file,
        write_checkpoint,
    )
    from simcluster.job.checkpoints.source_slices import SourceSlices
    from simcluster.job.checkpoints.strategy_file import ParameterLayout, StrategyFile, merge_strategy_files
    from simcluster.job.checkpoints.tensor_slices import TensorSlices, common_elements, slices_of
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "checkpoint_content": "CheckpointContent SavedTensor",
            "checkpoints_spec": "CheckpointsSpec DisksSpec LoadSpec ObjectStoreSpec ReplicasSpec SharedSpec",
            "group_file": "GroupFile restore_ranks",
            "intervals": "best_interval daly_interval expected_wall_time expected_waste young_interval",
            "shard_files": "INDEX MERGED CheckpointFiles CheckpointIndex rank_file write_checkpoint",
            "source_slices": "SourceSlices",
            "strategy_file": "ParameterLayout StrategyFile merge_strategy_files",
            "tensor_slices": "TensorSlices common_elements slices_of",
        },
    )

__all__ = [
    "INDEX",
    "MERGED",
    "CheckpointContent",
    "CheckpointFiles",
    "CheckpointIndex",
    "CheckpointsSpec",
    "DisksSpec",
    "GroupFile",
    "LoadSpec",
    "ObjectStoreSpec",
    "ParameterLayout",
    "ReplicasSpec",
    "SavedTensor",
    "SharedSpec",
    "SourceSlices",
    "StrategyFile",
    "TensorSlices",
    "best_interval",
    "common_elements",
    "daly_interval",
    "expected_wall_time",
    "expected_waste",
    "merge_strategy_files",
    "rank_file",
    "restore_ranks",
    "slices_of",
    "write_checkpoint",
    "young_interval",
]
