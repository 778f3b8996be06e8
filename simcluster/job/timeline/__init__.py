"""The run over days: intervals of equal steps between incidents, and where the time goes."""

from simcluster.job.timeline.cluster_state import NOMINAL_STATE, ClusterState, SlowDevice, StepSummary
from simcluster.job.timeline.job_ledger import (
    PROGRESS,
    SLOWER,
    TRAINING,
    JobLedger,
    StepInterval,
    TimelineEntry,
    training_time,
)
from simcluster.job.timeline.job_record import Job, JobRecord
from simcluster.job.timeline.job_run import run_job
from simcluster.job.timeline.members import KeyMoves, KeysMoved, MemberChange
from simcluster.job.timeline.trainer import SaveRhythm, Trainer

__all__ = [
    "NOMINAL_STATE",
    "PROGRESS",
    "SLOWER",
    "TRAINING",
    "ClusterState",
    "Job",
    "JobLedger",
    "JobRecord",
    "KeyMoves",
    "KeysMoved",
    "MemberChange",
    "SaveRhythm",
    "SlowDevice",
    "StepInterval",
    "StepSummary",
    "TimelineEntry",
    "Trainer",
    "run_job",
    "training_time",
]
