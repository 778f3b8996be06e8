"""How HCCL chooses: rules by the group's shape and bytes, and a cost model of its own between servers."""

from __future__ import annotations

from math import ceil, log2

from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation

STEP = 60e-6
"""Seconds per step between servers in HCCL's model."""

KIB, MIB = 2**10, 2**20

_REDUCING = (Operation.ALL_REDUCE, Operation.BARRIER)


def hccl_choice(operation: Operation, site: GroupSite, num_bytes: float, able: list[str]) -> list[str]:
    """The one algorithm that HCCL takes among those ``able`` to do the operation.

    As ``coll_alg_operator.cc`` of cann-hccl has it. One server: a mesh, where its ranks are one; else a ring.
    Several equal ones: the pipeline for large messages, below that a ring between up to three servers and NHR
    between more (its model never finds halving and doubling faster). Unequal ones: a ring.
    """
    for kind in _order(operation, site, num_bytes):
        if kind in able:
            return [kind]
    return able


def _order(operation: Operation, site: GroupSite, num_bytes: float) -> list[str]:
    match operation:
        case Operation.SEND_RECEIVE | Operation.NEIGHBOR_EXCHANGE | Operation.SHIFT | Operation.ROTATE:
            return ["direct"]
        case Operation.ALL_TO_ALL | Operation.ALL_TO_ALL_V:
            return ["pairwise"]
        case Operation.GATHER | Operation.SCATTER:
            return ["hierarchical", "direct"]
        case Operation.BROADCAST | Operation.REDUCE:
            return ["hierarchical", "direct"] if _is_one_mesh(site) else ["hierarchical", "ring"]
    if site.num_units == 1:
        return ["direct" if _is_one_mesh(site) else "ring", "ring"]
    share = num_bytes / site.num_ranks
    large = share >= MIB if operation in _REDUCING else num_bytes >= 32 * KIB
    between = "hierarchical" if site.num_units - 1 <= ceil(log2(site.num_units)) else "nhr"
    return ["pipeline", between, "ring"] if large and site.most > 1 else [between, "ring"]


def _is_one_mesh(site: GroupSite) -> bool:
    return site.num_units == 1 and site.mesh is not None and bool((site.mesh == site.mesh[0]).all())
