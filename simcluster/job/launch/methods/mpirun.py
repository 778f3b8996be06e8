"""mpirun: Open MPI starts a process for every slot."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.launch.launch_method import LaunchMethod, Placing, Rendezvous
from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.launch_spec import LaunchSpec
from simcluster.job.launch.processes import LaunchedProcesses, shell_word


class Mpirun(LaunchMethod):
    """One command; daemons start the processes, whose MPI ranks are their ranks (``mpirun.md``)."""

    kind: ClassVar[str] = "mpirun"
    devices: ClassVar[frozenset[str]] = frozenset({"ascend", "gpu"})
    placing: ClassVar[Placing] = Placing.TREE
    rendezvous: ClassVar[Rendezvous] = Rendezvous.DAEMONS
    timeout: ClassVar[float] = float("inf")
    timeout_name: ClassVar[str] = ""
    file: ClassVar[str] = "hostfile"

    def processes(self, spec: LaunchSpec, setting: LaunchSetting, file: str) -> tuple[LaunchedProcesses, ...]:
        """See ``LaunchMethod.processes``."""
        by = setting.dealt("mpirun")
        first = setting.hosts_of_ranks[:1]
        words = f"-n {setting.num_workers} --hostfile {shell_word(file)} --map-by {by}"
        return (LaunchedProcesses("launcher", f"mpirun {words} python {shell_word(spec.script)}", first),)
