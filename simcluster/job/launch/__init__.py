"""How a job is started: what is run on which host, how processes find each other, and how long that takes."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.job.launch.launch_method import LaunchMethod, check_launch, launch_methods, launcher_of
    from simcluster.job.launch.launch_setting import CommunicatorGroups, LaunchSetting
    from simcluster.job.launch.launch_spec import LaunchSpec
    from simcluster.job.launch.processes import LaunchedProcesses
    from simcluster.job.launch.start_costs import StartCostsSpec
    from simcluster.job.launch.start_simulation import StartTimeline, simulate_start
    from simcluster.job.launch.worker_recovery import WorkerRecovery, recover_worker
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "launch_method": "LaunchMethod check_launch launch_methods launcher_of",
            "launch_setting": "CommunicatorGroups LaunchSetting",
            "launch_spec": "LaunchSpec",
            "processes": "LaunchedProcesses",
            "start_costs": "StartCostsSpec",
            "start_simulation": "StartTimeline simulate_start",
            "worker_recovery": "WorkerRecovery recover_worker",
        },
    )

__all__ = [
    "CommunicatorGroups",
    "LaunchMethod",
    "LaunchSetting",
    "LaunchSpec",
    "LaunchedProcesses",
    "StartCostsSpec",
    "StartTimeline",
    "WorkerRecovery",
    "check_launch",
    "launch_methods",
    "launcher_of",
    "recover_worker",
    "simulate_start",
]
