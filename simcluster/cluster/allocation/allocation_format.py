"""The base of formats of files that say where ranks are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from simcluster.cluster.allocation.allocated_site import AllocatedSite
from simcluster.cluster.allocation.allocation import Allocation, MapBy


class AllocationFormat(ABC):
    """A format that is read and written; what is written, read again, gives the same devices to ranks.

    ``kind`` is the key of the cluster section that names such a file, ``title`` what people call it.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    deals: ClassVar[bool]
    """Whether the file leaves it to others how ranks are dealt to hosts (``map_by``)."""

    @abstractmethod
    def read(self, text: str, name: str, site: AllocatedSite, by: MapBy) -> Allocation:
        """What a file says, whose ``name`` is shown in errors.

        Raises ScenarioError with its problems, each with its place in the file, also for what contradicts
        the hardware of ``site``.
        """

    @abstractmethod
    def write(self, allocation: Allocation, site: AllocatedSite, title: str) -> str:
        """The text of a file that says it, for a job called ``title``.

        Raises PlanError, with the reason, where the format cannot say it.
        """
