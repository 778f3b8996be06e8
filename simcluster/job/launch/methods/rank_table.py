"""A rank table: every process reads where all are."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.launch.launch_method import LaunchMethod, Placing, Rendezvous
from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.launch_spec import LaunchSpec
from simcluster.job.launch.processes import LaunchedProcesses, shell_word


class RankTableLaunch(LaunchMethod):
    """A script starts a process for every device of a host (``rank_table.md``); deprecated in 2.4."""

    kind: ClassVar[str] = "rank_table"
    devices: ClassVar[frozenset[str]] = frozenset({"ascend"})
    placing: ClassVar[Placing] = Placing.SCRIPT
    rendezvous: ClassVar[Rendezvous] = Rendezvous.FILE
    timeout: ClassVar[float] = 120.0
    timeout_name: ClassVar[str] = "HCCL_CONNECT_TIMEOUT"
    file: ClassVar[str] = "rank_table"

    def processes(self, spec: LaunchSpec, setting: LaunchSetting, file: str) -> tuple[LaunchedProcesses, ...]:
        """See ``LaunchMethod.processes``."""
        common = {"RANK_TABLE_FILE": shell_word(file), "RANK_SIZE": str(setting.num_workers)}
        if spec.timeout is not None:
            common["HCCL_CONNECT_TIMEOUT"] = f"{spec.timeout:g}"
        own = {
            "RANK_ID": tuple(map(str, range(setting.num_workers))),
            "DEVICE_ID": tuple(map(str, setting.devices_of_ranks)),
        }
        command = f"python {shell_word(spec.script)}"
        return (LaunchedProcesses("worker", command, setting.hosts_of_ranks, common, own),)
