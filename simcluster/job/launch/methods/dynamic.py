"""MindSpore's dynamic cluster: a scheduler, and workers that register there."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.launch.launch_method import LaunchMethod, Placing, Rendezvous
from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.launch_spec import LaunchSpec
from simcluster.job.launch.processes import LaunchedProcesses, shell_word

EVERYWHERE = frozenset({"ascend", "gpu", "cpu"})
"""All families of devices."""


def cluster_environment(spec: LaunchSpec, setting: LaunchSetting, host: str, port: int) -> dict[str, str]:
    """Variables that all processes of a dynamic cluster have."""
    retry = spec.retry.model_fields_set
    variables = {
        "MS_SCHED_HOST": host,
        "MS_SCHED_PORT": str(port),
        "MS_WORKER_NUM": str(setting.num_workers),
        "MS_SERVER_NUM": str(setting.num_servers) if setting.num_servers else "",
        "MS_TOPO_TIMEOUT": "" if spec.timeout is None else f"{spec.timeout:g}",
        "MS_NODE_TIMEOUT": f"{spec.node_timeout:g}" if "node_timeout" in spec.model_fields_set else "",
        "MS_RETRY_INTERVAL_LOWER": f"{spec.retry.lower:g}" if "lower" in retry else "",
        "MS_RETRY_INTERVAL_UPPER": f"{spec.retry.upper:g}" if "upper" in retry else "",
        "MS_DISABLE_HEARTBEAT": "" if spec.heartbeats else "1",
        "MS_ENABLE_RECOVERY": "1" if spec.recovery else "",
        "MS_RECOVERY_PATH": "recovery" if spec.recovery else "",
    }
    return {name: value for name, value in variables.items() if value}


class Dynamic(LaunchMethod):
    """A process for the scheduler, and one for every rank, started by hand or by a script on each host."""

    kind: ClassVar[str] = "dynamic"
    devices: ClassVar[frozenset[str]] = EVERYWHERE
    placing: ClassVar[Placing] = Placing.SCRIPT
    rendezvous: ClassVar[Rendezvous] = Rendezvous.SCHEDULER
    timeout: ClassVar[float] = 1800.0
    has_servers: ClassVar[bool] = True
    timeout_name: ClassVar[str] = "MS_TOPO_TIMEOUT"
    port: ClassVar[int] = 8118

    def processes(self, spec: LaunchSpec, setting: LaunchSetting, file: str) -> tuple[LaunchedProcesses, ...]:
        """See ``LaunchMethod.processes``."""
        common = cluster_environment(spec, setting, setting.scheduler_host, spec.port or self.port)
        command = f"python {shell_word(spec.script)}"
        scheduler = (setting.scheduler_host,)
        made = [LaunchedProcesses("scheduler", command, scheduler, {"MS_ROLE": "MS_SCHED", **common})]
        if setting.num_servers:
            names = tuple(f"ps-{number}" for number in range(setting.num_servers))
            variables = {"MS_ROLE": "MS_PSERVER", **common}
            hosts = setting.hosts_of_servers
            made.append(LaunchedProcesses("ps", command, hosts, variables, {"MS_NODE_ID": names}))
        ranks = tuple(map(str, range(setting.num_workers)))
        variables = {"MS_ROLE": "MS_WORKER", **common}
        hosts = setting.hosts_of_workers
        return (*made, LaunchedProcesses("worker", command, hosts, variables, {"MS_NODE_ID": ranks}))
