"""A run over days: how it starts, what it saves and loads, what breaks, and how it goes on. Knows no scenario
and no engine: what steps, saves and starts cost is handed in.
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.job.failures import (
        NANOSECONDS,
        FailureCause,
        Fleet,
        Incident,
        Lognormal,
        PlannedMaintenance,
        incidents,
    )
    from simcluster.job.figures import (
        JOB_METRICS,
        ReplicationFigures,
        daly_goodput,
        daly_interval,
        figures_of_job,
        goodput_of,
        replication_document,
        replication_figures,
    )
    from simcluster.job.job_costs import (
        JobPhase,
        LoadCost,
        SaveCost,
        StartUp,
    )
    from simcluster.job.job_spec import (
        JobSpec,
    )
    from simcluster.job.recovery import (
        RecoveryCosts,
        RecoverySpec,
        SimpleCheckpointSpec,
        StateSource,
        Survivors,
        policy_kinds,
    )
    from simcluster.job.timeline import (
        NOMINAL_STATE,
        PROGRESS,
        ClusterState,
        Job,
        JobRecord,
        SaveRhythm,
        StepSummary,
        run_job,
        training_time,
    )
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "failures": "NANOSECONDS FailureCause Fleet Incident Lognormal PlannedMaintenance incidents",
            "figures": "JOB_METRICS ReplicationFigures daly_goodput daly_interval figures_of_job "
            "goodput_of replication_document replication_figures",
            "job_costs": "JobPhase LoadCost SaveCost StartUp",
            "job_spec": "JobSpec",
            "recovery": "RecoveryCosts RecoverySpec SimpleCheckpointSpec StateSource Survivors policy_kinds",
            "timeline": "NOMINAL_STATE PROGRESS ClusterState Job JobRecord SaveRhythm StepSummary "
            "run_job training_time",
        },
    )

__all__ = [
    "JOB_METRICS",
    "NANOSECONDS",
    "NOMINAL_STATE",
    "PROGRESS",
    "ClusterState",
    "FailureCause",
    "Fleet",
    "Incident",
    "Job",
    "JobPhase",
    "JobRecord",
    "JobSpec",
    "LoadCost",
    "Lognormal",
    "PlannedMaintenance",
    "RecoveryCosts",
    "RecoverySpec",
    "ReplicationFigures",
    "SaveCost",
    "SaveRhythm",
    "SimpleCheckpointSpec",
    "StartUp",
    "StateSource",
    "StepSummary",
    "Survivors",
    "daly_goodput",
    "daly_interval",
    "figures_of_job",
    "goodput_of",
    "incidents",
    "policy_kinds",
    "replication_document",
    "replication_figures",
    "run_job",
    "training_time",
]
