"""How long processes take to make their communicators.

Through a store that serves one request after the other, the time is that of all requests. Whether these are
O(n^2) or O(n) depends on who waits for whom (MegaScale, NSDI 2024, on initialisation): with a barrier of all
n processes behind each communicator that any of them makes there are 2 n requests for each, with barriers of
its own members two for each member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simcluster.job.launch.launch_setting import CommunicatorGroups
from simcluster.job.launch.start_costs import StartCostsSpec

_GPUS, _GROUPS = 2048, 256 + 256 + 64
STORE_REQUEST: Mapping[str, float] = {
    "tcp": 1047 / (2 * _GPUS * _GROUPS),
    "redis": 361 / (2 * _GPUS * _GROUPS),
}
"""Seconds of one request: 1,047 s with TCPStore and 361 s with Redis on 2,048 GPUs (MegaScale), for the
communicators of tensor 8, pipeline 8 and data 32, which are assumed. With barriers in order the same request
gives 2 s there, where the paper says under 5 s, and 11 s for 12,288 GPUs, where it says under 30 s."""


def exchange_requests(groups: Sequence[CommunicatorGroups], num_ranks: int, *, everybody: bool) -> int:
    """Requests of all processes for all communicators; ``everybody`` waits behind each of them, or only its
    members do.
    """
    if everybody:
        return sum(2 * num_ranks * kind.count for kind in groups)
    return sum(2 * kind.size * kind.count for kind in groups)


def setup_seconds(groups: Sequence[CommunicatorGroups], costs: StartCostsSpec) -> float:
    """Seconds of a process for its communicators, one of each kind, behind the exchange of addresses."""
    return sum(costs.communicator + costs.communicator_member * kind.size for kind in groups)
