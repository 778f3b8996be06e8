"""What records of jobs mean: goodput, time lost by cause, closed forms, replications."""

from simcluster.job.figures.job_figures import figures_of_job, goodput_of, training_ratio_of
from simcluster.job.figures.replications import ReplicationFigures, replication_document, replication_figures

JOB_METRICS = ("goodput", "effective_training_time_ratio")
"""Figures that the summary of a run with a job has besides; of the first run of the job."""

__all__ = [
    "JOB_METRICS",
    "ReplicationFigures",
    "figures_of_job",
    "goodput_of",
    "replication_document",
    "replication_figures",
    "training_ratio_of",
]
