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
    from simcluster.job.launch import (
        CommunicatorGroups,
        LaunchedProcesses,
        LaunchSetting,
        LaunchSpec,
        StartTimeline,
        WorkerRecovery,
        check_launch,
        launch_methods,
        launcher_of,
        recover_worker,
        simulate_start,
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
            "figures": "JOB_METRICS ReplicationFigures daly_goodput figures_of_job goodput_of "
            "replication_document replication_figures daly_interval",
            "job_costs": "JobPhase LoadCost SaveCost StartUp",
            "job_spec": "JobSpec",
            "launch": "CommunicatorGroups LaunchedProcesses LaunchSetting LaunchSpec StartTimeline "
            "WorkerRecovery check_launch launch_methods launcher_of recover_worker "
            "simulate_start",
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
    "CommunicatorGroups",
    "FailureCause",
    "Fleet",
    "Incident",
    "Job",
    "JobPhase",
    "JobRecord",
    "JobSpec",
    "LaunchSetting",
    "LaunchSpec",
    "LaunchedProcesses",
    "LoadCost",
    "Lognormal",
    "PlannedMaintenance",
    "RecoveryCosts",
    "RecoverySpec",
    "ReplicationFigures",
    "SaveCost",
    "SaveRhythm",
    "SimpleCheckpointSpec",
    "StartTimeline",
    "StartUp",
    "StateSource",
    "StepSummary",
    "Survivors",
    "WorkerRecovery",
    "check_launch",
    "daly_goodput",
    "daly_interval",
    "figures_of_job",
    "goodput_of",
    "incidents",
    "launch_methods",
    "launcher_of",
    "policy_kinds",
    "recover_worker",
    "replication_document",
    "replication_figures",
    "run_job",
    "simulate_start",
    "training_time",
]
