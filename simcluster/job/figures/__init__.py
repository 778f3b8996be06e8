"""What records of jobs mean: goodput, time lost by cause, closed forms, replications."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.job.figures.job_figures import figures_of_job, goodput_of, training_ratio_of
    from simcluster.job.figures.replications import (
        ReplicationFigures,
        replication_document,
        replication_figures,
    )
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "job_figures": "figures_of_job goodput_of training_ratio_of",
            "replications": "ReplicationFigures replication_document replication_figures",
        },
    )

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
