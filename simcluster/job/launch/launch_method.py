"""The base of methods to start a job, and the methods by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.processes import LaunchedProcesses
from simcluster.registry import kinds

if TYPE_CHECKING:
    from simcluster.job.launch.launch_spec import LaunchSpec


class Placing(StrEnum):
    """How processes get to their hosts."""

    SCRIPT = "script"
    """A script is started on all hosts at once."""

    TREE = "tree"
    """A tree of daemons, each of which starts others."""

    PODS = "pods"
    """Pods that Kubernetes places."""


class Meeting(StrEnum):
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
    meeting: ClassVar[Meeting]
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


def launch_methods() -> dict[str, type[LaunchMethod]]:
    """The methods by name."""
    return kinds("simcluster.job.launch.methods", LaunchMethod)
