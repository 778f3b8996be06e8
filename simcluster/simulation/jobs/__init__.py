"""A job of a scenario: its steps in every state of the cluster, and its run over days."""

from simcluster.simulation.jobs.job_documents import simulate_job
from simcluster.simulation.jobs.state_holders import replica_groups, state_buffers

__all__ = ["replica_groups", "simulate_job", "state_buffers"]
