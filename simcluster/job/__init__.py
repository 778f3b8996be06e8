"""A run over days: how it starts, what it saves and loads, what breaks, and how it goes on. Knows no scenario
and no engine: what steps, saves and starts cost is handed in.
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.job.checkpoints import (
        INDEX,
        MERGED,
        CheckpointContent,
        CheckpointFiles,
        CheckpointIndex,
        CheckpointsSpec,
        DisksSpec,
        GroupFile,
        LoadSpec,
        ObjectStoreSpec,
        ParameterLayout,
        ReplicasSpec,
        SavedTensor,
        SharedSpec,
        SourceSlices,
        StrategyFile,
        TensorSlices,
        best_interval,
        common_elements,
        daly_interval,
        expected_wall_time,
        expected_waste,
        merge_strategy_files,
        rank_file,
        restore_ranks,
        slices_of,
        write_checkpoint,
        young_interval,
    )
    from simcluster.job.failures import (
        NANOSECONDS,
        FailureCause,
        FailureEffect,
        Fleet,
        Incident,
        Lognormal,
        PlannedMaintenance,
        incidents,
    )
    from simcluster.job.figures import (
        JOB_METRICS,
        ReplicationFigures,
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
    from simcluster.job.membership_spec import membership_incidents
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
        KeyMoves,
        KeysMoved,
        SaveRhythm,
        SlowDevice,
        StepSummary,
        run_job,
        training_time,
    )
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "checkpoints": "INDEX MERGED CheckpointContent CheckpointFiles CheckpointIndex "
            "CheckpointsSpec DisksSpec GroupFile LoadSpec ObjectStoreSpec "
            "ParameterLayout ReplicasSpec SavedTensor SharedSpec SourceSlices "
            "StrategyFile TensorSlices best_interval common_elements daly_interval "
            "expected_wall_time expected_waste merge_strategy_files rank_file "
            "restore_ranks slices_of write_checkpoint young_interval",
            "failures": "NANOSECONDS FailureCause FailureEffect Fleet Incident Lognormal "
            "PlannedMaintenance incidents",
            "figures": "JOB_METRICS ReplicationFigures figures_of_job goodput_of "
            "replication_document replication_figures",
            "job_costs": "JobPhase LoadCost SaveCost StartUp",
            "job_spec": "JobSpec",
            "launch": "CommunicatorGroups LaunchedProcesses LaunchSetting LaunchSpec StartTimeline "
            "WorkerRecovery check_launch launch_methods launcher_of recover_worker "
            "simulate_start",
            "membership_spec": "membership_incidents",
            "recovery": "RecoveryCosts RecoverySpec SimpleCheckpointSpec StateSource Survivors policy_kinds",
            "timeline": "NOMINAL_STATE PROGRESS ClusterState Job JobRecord KeyMoves KeysMoved "
            "SaveRhythm SlowDevice StepSummary "
            "run_job training_time",
        },
    )

__all__ = [
    "INDEX",
    "JOB_METRICS",
    "MERGED",
    "NANOSECONDS",
    "NOMINAL_STATE",
    "PROGRESS",
    "CheckpointContent",
    "CheckpointFiles",
    "CheckpointIndex",
    "CheckpointsSpec",
    "ClusterState",
    "CommunicatorGroups",
    "DisksSpec",
    "FailureCause",
    "FailureEffect",
    "Fleet",
    "GroupFile",
    "Incident",
    "Job",
    "JobPhase",
    "JobRecord",
    "JobSpec",
    "KeyMoves",
    "KeysMoved",
    "LaunchSetting",
    "LaunchSpec",
    "LaunchedProcesses",
    "LoadCost",
    "LoadSpec",
    "Lognormal",
    "ObjectStoreSpec",
    "ParameterLayout",
    "PlannedMaintenance",
    "RecoveryCosts",
    "RecoverySpec",
    "ReplicasSpec",
    "ReplicationFigures",
    "SaveCost",
    "SaveRhythm",
    "SavedTensor",
    "SharedSpec",
    "SimpleCheckpointSpec",
    "SlowDevice",
    "SourceSlices",
    "StartTimeline",
    "StartUp",
    "StateSource",
    "StepSummary",
    "StrategyFile",
    "Survivors",
    "TensorSlices",
    "WorkerRecovery",
    "best_interval",
    "check_launch",
    "common_elements",
    "daly_interval",
    "expected_wall_time",
    "expected_waste",
    "figures_of_job",
    "goodput_of",
    "incidents",
    "launch_methods",
    "launcher_of",
    "membership_incidents",
    "merge_strategy_files",
    "policy_kinds",
    "rank_file",
    "recover_worker",
    "replication_document",
    "replication_figures",
    "restore_ranks",
    "run_job",
    "simulate_start",
    "slices_of",
    "training_time",
    "write_checkpoint",
    "young_interval",
]
