"""A run over days: how it starts, what it saves and loads, what breaks, and how it goes on. Knows no scenario
and no engine: what steps, saves and starts cost is handed in.
"""

from simcluster.job.job_costs import JobPhase, LoadCost, SaveCost, StartUp
from simcluster.job.job_spec import JobSpec
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

__all__ = [
    "CommunicatorGroups",
    "JobPhase",
    "JobSpec",
    "LaunchSetting",
    "LaunchSpec",
    "LaunchedProcesses",
    "LoadCost",
    "SaveCost",
    "StartTimeline",
    "StartUp",
    "WorkerRecovery",
    "check_launch",
    "launch_methods",
    "launcher_of",
    "recover_worker",
    "simulate_start",
]
