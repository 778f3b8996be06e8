"""How long processes take to make their communicators.

Through a store that serves one request after the other, the time is that of all requests. Whether these are
O(n^2) or O(n) depends on who waits for whom (MegaScale, NSDI 2024, on initialisation): with a barrier of all
n processes behind each communicator that any of them makes there are 2 n requests for each, with barriers of
its own members two for each member. Without barriers there is one for each member: its first rank writes the
communicator's address, the others read it.

PyTorch makes no barrier behind a group since 2.1, unless TORCH_DIST_INIT_BARRIER=1 (distributed_c10d.py, from
memory), and its store is an event loop (libuv) by default since 2.4. MegaScale's figures belong to releases
before that: with them 16,384 GPUs would need 13 h, where Llama 3 was interrupted every 3 h and trained for
more than 90 % of the time (arXiv 2407.21783).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simcluster.job.launch.launch_setting import CommunicatorGroups
from simcluster.job.launch.launch_spec import Barriers
from simcluster.job.launch.start_costs import StartCostsSpec

_GPUS, _GROUPS = 2048, 256 + 256 + 64
_REDIS = 361 / (2 * _GPUS * _GROUPS)
STORE_REQUEST: Mapping[str, float] = {
    "libuv": _REDIS,
    "tcp": 1047 / (2 * _GPUS * _GROUPS),
    "redis": _REDIS,
}
"""Seconds of one request: 1,047 s with TCPStore and 361 s with Redis on 2,048 GPUs (MegaScale), for the
communicators of tensor 8, pipeline 8 and data 32, which are assumed. With barriers in order the same request
gives 2 s there, where the paper says under 5 s, and 11 s for 12,288 GPUs, where it says under 30 s. That a
request of libuv's store takes as long as one of Redis is assumed: both are event loops of one thread."""


def exchange_requests(groups: Sequence[CommunicatorGroups], num_ranks: int, barriers: Barriers) -> int:
    """Requests of all processes for all communicators; behind each nobody waits, or its members do
    (``ordered``), or all processes do (``global``).
    """
    if barriers == "global":
        return sum(2 * num_ranks * kind.count for kind in groups)
    requests = 2 if barriers == "ordered" else 1
    return sum(requests * kind.size * kind.count for kind in groups)


def setup_seconds(groups: Sequence[CommunicatorGroups], costs: StartCostsSpec) -> float:
    """Seconds of a process for its communicators, one of each kind, behind the exchange of addresses."""
    return sum(costs.communicator + costs.communicator_member * kind.size for kind in groups)
