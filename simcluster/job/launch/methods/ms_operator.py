"""ms-operator: an MSJob, whose pods Kubernetes places."""

from __future__ import annotations

from typing import ClassVar

from simcluster.cluster import MSJOB_PORT, MSJobSpec
from simcluster.job.launch.launch_method import LaunchMethod, Placing, Rendezvous
from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.launch_spec import LaunchSpec
from simcluster.job.launch.methods.dynamic import EVERYWHERE, cluster_environment
from simcluster.job.launch.processes import LaunchedProcesses, shell_word


class MSOperator(LaunchMethod):
    """The operator makes the pods of the scheduler, of parameter servers and of workers, in this order.

    It tells them of each other by variables (ms-operator ``controllers``), if there are several.
    """

    kind: ClassVar[str] = "ms_operator"
    devices: ClassVar[frozenset[str]] = EVERYWHERE
    placing: ClassVar[Placing] = Placing.PODS
    rendezvous: ClassVar[Rendezvous] = Rendezvous.SCHEDULER
    timeout: ClassVar[float] = 1800.0
    has_servers: ClassVar[bool] = True
    timeout_name: ClassVar[str] = "MS_TOPO_TIMEOUT"
    port: ClassVar[int] = MSJOB_PORT
    file: ClassVar[str] = "msjob"

    def processes(self, spec: LaunchSpec, setting: LaunchSetting, file: str) -> tuple[LaunchedProcesses, ...]:
        """See ``LaunchMethod.processes``."""
        setting.dealt("Kubernetes")
        job = setting.allocation.job
        scheduler = (setting.scheduler_host,)
        applied = LaunchedProcesses("operator", f"kubectl apply -f {shell_word(file)}", scheduler)
        workers = setting.num_workers
        distributed = workers + setting.num_servers > 1
        pods = {"scheduler": int(distributed), "ps": setting.num_servers, "worker": workers}
        port = spec.port or (_port(job) if job else self.port)
        made = [applied]
        for role, count in pods.items():
            if not count:
                continue
            variables, own = dict[str, str](), dict[str, tuple[str, ...]]()
            if distributed:
                # The scheduler knows its own pod's address, the others that of its service.
                address = "$(POD_IP)" if role == "scheduler" else _service(job)
                name = {"scheduler": "MS_SCHED", "ps": "MS_PSERVER", "worker": "MS_WORKER"}[role]
                variables = {"MS_ROLE": name, **cluster_environment(spec, setting, address, port)}
                own = {"MS_NODE_ID": tuple(f"{role}-{at}" for at in range(count))}
                if role == "worker":
                    own = {"MS_NODE_ID": tuple(map(str, range(count)))}
            command = _command(job, role) or f"python {shell_word(spec.script)}"
            placed = {
                "scheduler": scheduler,
                "ps": setting.hosts_of_servers,
                "worker": setting.hosts_of_workers,
            }
            made.append(LaunchedProcesses(role, command, placed[role], variables, own))
        return tuple(made)


_ROLES = {"scheduler": "Scheduler", "ps": "PS", "worker": "Worker"}


def _port(job: MSJobSpec) -> int:
    """The port that the scheduler's container has; that of a worker, where there is no scheduler."""
    roles = job.roles
    return roles.get("Scheduler", roles["Worker"]).port


def _service(job: MSJobSpec | None) -> str:
    """The scheduler's service."""
    return f"{job.metadata['name']}-scheduler-0" if job else "job-scheduler-0"


def _command(job: MSJobSpec | None, role: str) -> str:
    """What the MSJob runs in a role."""
    replicas = job.roles.get(_ROLES[role]) if job else None
    return " ".join(map(shell_word, replicas.command)) if replicas else ""
