"""torchrun: PyTorch's agents, one on every host."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.launch.launch_method import LaunchMethod, Placing, Rendezvous
from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.launch_spec import LaunchSpec
from simcluster.job.launch.methods.dynamic import EVERYWHERE
from simcluster.job.launch.processes import LaunchedProcesses, shell_word


class Torchrun(LaunchMethod):
    """Agents meet through a store of keys on the first host, then start the processes of their host."""

    kind: ClassVar[str] = "torchrun"
    devices: ClassVar[frozenset[str]] = EVERYWHERE
    placing: ClassVar[Placing] = Placing.SCRIPT
    rendezvous: ClassVar[Rendezvous] = Rendezvous.STORE
    timeout: ClassVar[float] = 600.0
    timeout_name: ClassVar[str] = "the time-out of the process group"
    port: ClassVar[int] = 29500
    compiles: ClassVar[bool] = False

    def processes(self, spec: LaunchSpec, setting: LaunchSetting, file: str) -> tuple[LaunchedProcesses, ...]:
        """See ``LaunchMethod.processes``."""
        hosts, per_host = setting.equal_hosts("torchrun")
        options = {
            "nnodes": len(hosts),
            "nproc-per-node": per_host,
            "node-rank": "{node_rank}",
            "master-addr": hosts[0],
            "master-port": spec.port or self.port,
        }
        words = " ".join(f"--{name}={value}" for name, value in options.items())
        numbers = tuple(map(str, range(len(hosts))))
        command = f"torchrun {words} {shell_word(spec.script)}"
        return (LaunchedProcesses("host", command, hosts, {}, {"node_rank": numbers}),)
