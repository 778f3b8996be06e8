"""A job of a scenario: how it starts, its steps in every state of the cluster, and its run over days."""

from simcluster.simulation.jobs.job_documents import simulate_job
from simcluster.simulation.jobs.job_setup import Checkpointing, JobPartCosts
from simcluster.simulation.jobs.start_up import (
    launch_document,
    launch_setting,
    launcher_file,
    rejoin_phases,
    restart_phases,
    start_timeline,
    start_up_document,
)
from simcluster.simulation.jobs.state_holders import replica_groups, state_buffers

__all__ = [
    "Checkpointing",
    "JobPartCosts",
    "launch_document",
    "launch_setting",
    "launcher_file",
    "rejoin_phases",
    "replica_groups",
    "restart_phases",
    "simulate_job",
    "start_timeline",
    "start_up_document",
    "state_buffers",
]
