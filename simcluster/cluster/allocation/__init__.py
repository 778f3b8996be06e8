"""Which hosts and devices a job has, rank by rank, and files that say so: rank tables, hostfiles, MSJobs."""

from simcluster.cluster.allocation.allocated_site import AllocatedSite
from simcluster.cluster.allocation.allocation import AllocatedHost, Allocation, MapBy
from simcluster.cluster.allocation.allocation_format import AllocationFormat
from simcluster.cluster.allocation.msjob_spec import MSJOB_PORT, MSJobSpec, ReplicaSpec
from simcluster.cluster.allocation.rank_table_spec import RankTableSpec
from simcluster.registry import kinds

__all__ = [
    "MSJOB_PORT",
    "AllocatedHost",
    "AllocatedSite",
    "Allocation",
    "AllocationFormat",
    "MSJobSpec",
    "MapBy",
    "RankTableSpec",
    "ReplicaSpec",
    "allocation_formats",
]


def allocation_formats() -> dict[str, type[AllocationFormat]]:
    """The formats of files that say where ranks are, by kind."""
    return kinds("simcluster.cluster.allocation.formats", AllocationFormat)
