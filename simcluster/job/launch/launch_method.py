"""The base of methods to start a job, and the methods by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from enum import StrEnum
from typing import ClassVar

from simcluster.document import Refused
from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.launch_spec import LaunchSpec
from simcluster.job.launch.processes import LaunchedProcesses
from simcluster.registry import kinds


class Placing(StrEnum):
    """How processes get to their hosts."""

    SCRIPT = "script"
    """A script is started on all hosts at once."""

    TREE = "tree"
    """A tree of daemons, each of which starts others."""

    PODS = "pods"
    """Pods that Kubernetes places."""


class Rendezvous(StrEnum):
    """How processes find each other."""

    SCHEDULER = "scheduler"
    """They register at a scheduler."""

    STORE = "store"
    """Through a store of keys, one request after the other."""

    DAEMONS = "daemons"
    """Through the daemons that started them."""

    FILE = "file"
    """A file says where all are; they connect at once."""


class LaunchMethod(ABC):
    """A way to start a job; classes say where it works and how it goes, and write what is run.

    ``devices`` are the families of devices that it supports (MindSpore 2.4 ``startup_method.rst``),
    ``timeout`` the seconds that processes have to come together and ``timeout_name`` what that is called;
    ``file`` is the format of the file that it reads, if it does; ``has_servers`` says whether it starts
    parameter servers, too.
    """

    kind: ClassVar[str]
    devices: ClassVar[frozenset[str]]
    placing: ClassVar[Placing]
    rendezvous: ClassVar[Rendezvous]
    timeout: ClassVar[float]
    timeout_name: ClassVar[str]
    port: ClassVar[int] = 0
    compiles: ClassVar[bool] = True
    has_servers: ClassVar[bool] = False
    file: ClassVar[str] = ""

    @abstractmethod
    def processes(self, spec: LaunchSpec, setting: LaunchSetting, file: str) -> tuple[LaunchedProcesses, ...]:
        """What is run, role by role; ``file`` is the path of the launcher's file.

        Raises PlanError where the launcher cannot place ranks as the cluster has them.
        """

    def window(self, spec: LaunchSpec) -> float:
        """Seconds that processes have to come together."""
        return self.timeout if spec.timeout is None else spec.timeout

    def builds_graphs(self, spec: LaunchSpec) -> bool:
        """Whether graphs are compiled before the first step."""
        return self.compiles if spec.compile is None else spec.compile


def launch_methods() -> dict[str, type[LaunchMethod]]:
    """The methods by name."""
    return kinds("simcluster.job.launch.methods", LaunchMethod)


def launcher_of(spec: LaunchSpec) -> LaunchMethod:
    """The method that a scenario names."""
    return launch_methods()[spec.method]()


def check_launch(spec: LaunchSpec, device_kinds: Collection[str], num_hosts: int, num_servers: int) -> None:
    """Refused, with the key, on devices that the method does not support, for parameter servers that it does
    not start, and for hosts that are not there.
    """
    known = launch_methods()
    if num_servers and not known[spec.method].has_servers:
        others = [name for name, method in known.items() if method.has_servers]
        raise Refused(f"{spec.method} starts no parameter servers; {' and '.join(others)} do", path="method")
    if unknown := sorted(set(device_kinds) - known[spec.method].devices):
        others = [name for name, method in known.items() if set(device_kinds) <= method.devices]
        supported = " and ".join(name for kind, name in _NAMES.items() if kind in known[spec.method].devices)
        raise Refused(
            f"{spec.method} supports {supported}, not {_NAMES[unknown[0]]}; here: {', '.join(others)}",
            path="method",
        )
    for at, delay in enumerate(spec.late):
        if delay.host >= num_hosts:
            raise Refused(
                f"there is no host {delay.host}; the last of {num_hosts} is {num_hosts - 1}",
                path=f"late.{at}.host",
            )


_NAMES = {"ascend": "Ascend", "gpu": "GPU", "cpu": "CPU"}
