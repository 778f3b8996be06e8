"""A run over days: how it starts, what it saves and loads, what breaks, and how it goes on. Knows no scenario
and no engine: what steps, saves and starts cost is handed in.
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.job.failures import Fleet, Incident, incidents
    from simcluster.job.figures import JOB_METRICS
    from simcluster.job.job_costs import JobPhase, LoadCost, SaveCost, StartUp
    from simcluster.job.job_spec import JobSpec
    from simcluster.job.recovery import RecoveryCosts, RecoverySpec, Survivors
    from simcluster.job.timeline import ClusterState, Job, JobRecord, SaveRhythm, StepSummary, run_job
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "figures": "JOB_METRICS",
            "failures": "Fleet Incident incidents",
            "job_costs": "JobPhase LoadCost SaveCost StartUp",
            "job_spec": "JobSpec",
            "recovery": "RecoveryCosts RecoverySpec Survivors",
            "timeline": "ClusterState Job JobRecord SaveRhythm StepSummary run_job",
        },
    )

__all__ = [
    "JOB_METRICS",
    "ClusterState",
    "Fleet",
    "Incident",
    "Job",
    "JobPhase",
    "JobRecord",
    "JobSpec",
    "LoadCost",
    "RecoveryCosts",
    "RecoverySpec",
    "SaveCost",
    "SaveRhythm",
    "StartUp",
    "StepSummary",
    "Survivors",
    "incidents",
    "run_job",
]
