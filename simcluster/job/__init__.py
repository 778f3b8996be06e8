"""A run over days: how it starts, what it saves and loads, what breaks, and how it goes on. Knows no scenario
and no engine: what steps, saves and starts cost is handed in.
"""

from simcluster.job.checkpoints import (
    MERGED,
    CheckpointContent,
    CheckpointFiles,
    CheckpointIndex,
    SavedTensor,
    SourceSlices,
    TensorSlices,
    best_interval,
    common_elements,
    daly_interval,
    expected_wall_time,
    expected_waste,
    rank_file,
    slices_of,
    write_checkpoint,
    young_interval,
)
from simcluster.job.job_costs import JobPhase, LoadCost, SaveCost, StartUp
from simcluster.job.job_spec import JobSpec

__all__ = [
    "MERGED",
    "CheckpointContent",
    "CheckpointFiles",
    "CheckpointIndex",
    "JobPhase",
    "JobSpec",
    "LoadCost",
    "SaveCost",
    "SavedTensor",
    "SourceSlices",
    "StartUp",
    "TensorSlices",
    "best_interval",
    "common_elements",
    "daly_interval",
    "expected_wall_time",
    "expected_waste",
    "rank_file",
    "slices_of",
    "write_checkpoint",
    "young_interval",
]
