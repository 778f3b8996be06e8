"""msrun: one command on every host that starts a dynamic cluster."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.launch.launch_method import LaunchMethod, Placing, Rendezvous
from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.launch_spec import LaunchSpec
from simcluster.job.launch.methods.dynamic import EVERYWHERE, cluster_environment
from simcluster.job.launch.processes import LaunchedProcesses, shell_word


class Msrun(LaunchMethod):
    """It starts the scheduler, on the first host, and the workers of its host (``msrun_launcher.md``)."""

    kind: ClassVar[str] = "msrun"
    devices: ClassVar[frozenset[str]] = EVERYWHERE
    placing: ClassVar[Placing] = Placing.SCRIPT
    rendezvous: ClassVar[Rendezvous] = Rendezvous.SCHEDULER
    timeout: ClassVar[float] = 600.0
    timeout_name: ClassVar[str] = "--cluster_time_out"
    port: ClassVar[int] = 8118

    def processes(self, spec: LaunchSpec, setting: LaunchSetting, file: str) -> tuple[LaunchedProcesses, ...]:
        """See ``LaunchMethod.processes``; all hosts have local_worker_num workers."""
        table = setting.file if setting.file and setting.file[0] == "rank_table" else None
        hosts, per_host = setting.equal_hosts("msrun", in_order=table is None)
        port = spec.port or self.port
        options = {
            "worker_num": setting.num_workers,
            "local_worker_num": per_host,
            "master_addr": hosts[0],
            "master_port": port,
            "node_rank": "{node_rank}",
            "log_dir": "log",
            "join": True,
            "cluster_time_out": f"{self.window(spec):g}",
        }
        if table:
            options["rank_table_file"] = shell_word(table[1])
        words = " ".join(f"--{name}={value}" for name, value in options.items())
        extra = {"MS_NODE_TIMEOUT", "MS_RETRY_INTERVAL_LOWER", "MS_RETRY_INTERVAL_UPPER"}
        extra |= {"MS_DISABLE_HEARTBEAT", "MS_ENABLE_RECOVERY", "MS_RECOVERY_PATH"}
        common = cluster_environment(spec, setting, hosts[0], port)
        numbers = tuple(map(str, range(len(hosts))))
        return (
            LaunchedProcesses(
                "host",
                f"msrun {words} {shell_word(spec.script)}",
                hosts,
                {name: value for name, value in common.items() if name in extra},
                {"node_rank": numbers},
            ),
        )
