"""Predicted times of published collectives; for rows that cannot be predicted, the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

import numpy as np

from simcluster.accuracy.hardware import HardwareSpec, hardware_of, named_hardware
from simcluster.accuracy.row import MeasuredRow
from simcluster.accuracy.stated_network import host_rate, stated_cards
from simcluster.cluster import Cluster, ClusterSpec, GroupPlacement, Numbers, load_cluster
from simcluster.collectives import AUTO, Operation, all_algorithms, collective_time, group_site_of
from simcluster.deferred_dataclass import dataclass
from simcluster.document import validate_data
from simcluster.errors import PlanError

HOST_COPY = "h2d"
"""Host memory to a device's: one link, no collective."""

OPERATIONS = {
    **{str(operation): operation for operation in Operation},
    "alltoall": Operation.ALL_TO_ALL,
    "sendrecv": Operation.SEND_RECEIVE,
}
"""Collectives by the names in the files; nccl-tests writes two of them as one word."""

PRICED = frozenset({HOST_COPY, *OPERATIONS})
"""Operations that can be predicted at all."""

_NAMED = re.compile(r"NCCL_ALGO=(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigurePrediction:
    """A published figure with what the simulator says, in SI units; or the ``reason`` why it says nothing."""

    measured: float = 0.0
    predicted: float = 0.0
    reason: str = ""

    @property
    def error(self) -> float:
        """Predicted / measured - 1: +0.1 is predicted 10% too slow, or too large."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class Prediction(FigurePrediction):
    """A row with what was predicted: seconds, by ``how`` (algorithm and protocol) on ``cluster``, a host of
    the catalog.
    """

    row: MeasuredRow
    cluster: str = ""
    how: str = ""


def predict(rows: Iterable[MeasuredRow], cluster: str | None = None) -> list[Prediction]:
    """A prediction, or the reason for none, for every row, in order.

    ``cluster`` names a host for all of them, instead of the table's. Raises ScenarioError if there is no
    such host.
    """
    if cluster:
        chosen = named_hardware(cluster)
        return [_predicted(row, chosen, "") for row in rows]
    return [_predicted(row, hardware_of(row.hardware, row.notes), row.hardware) for row in rows]


def _predicted(row: MeasuredRow, entry: HardwareSpec | None, network: str) -> Prediction:
    """``network``: words that may say how hosts are joined."""
    if row.operation not in PRICED:
        return Prediction(row, reason=f"'{row.operation}' is not an operation that the simulator prices")
    if entry is None:
        return Prediction(row, reason=f"no host of the catalog matches the hardware '{row.hardware}'")
    try:
        if row.operation == HOST_COPY:
            return _host_copy(row, entry)
        return _collective(row, entry, network)
    except PlanError as error:
        return Prediction(row, entry.cluster, reason=str(error.problems[0].message))


def _host_copy(row: MeasuredRow, entry: HardwareSpec) -> Prediction:
    host = load_cluster(entry.cluster).host
    link = host.network.link if entry.apart else host.pcie
    if link is None:
        raise PlanError(f"{entry.cluster} has no link from the host's memory to its devices")
    seconds = link.latency + row.size / link.rate
    measured = row.seconds or row.size / (row.algbw or row.busbw or 1.0)
    how = "network" if entry.apart else "host link"
    return Prediction(row, entry.cluster, how, measured=measured, predicted=seconds)


def _collective(row: MeasuredRow, entry: HardwareSpec, network: str) -> Prediction:
    operation = OPERATIONS[row.operation]
    cards = _stated(row, entry, network)
    cluster, ranks = _placed(row, entry, cards)
    num_bytes = row.size * (row.num_devices if row.operation in entry.per_rank else 1)
    if operation is Operation.SEND_RECEIVE and row.num_devices > 2:
        ranks = _busiest_pair(cluster, ranks)
    where = cluster.placement(ranks)
    choice = collective_time(operation, where, num_bytes, cluster, _forced(row, operation, where, cluster))
    measured = _measured(row, operation, num_bytes)
    how = f"{choice.algorithm} {choice.protocol}"
    if cards:
        how += f" over {cards[0]} x {cards[1]}"
    return Prediction(row, entry.cluster, how, measured=measured, predicted=choice.seconds)


def _forced(row: MeasuredRow, operation: Operation, where: GroupPlacement, cluster: Cluster) -> str:
    """The algorithm that the notes say was forced (``NCCL_ALGO=RING``), if it is known; else ``auto``."""
    named = _NAMED.search(row.notes)
    algorithm = all_algorithms().get(named[1].lower()) if named else None
    return (
        algorithm.kind if algorithm and algorithm.supports(operation, group_site_of(where, cluster)) else AUTO
    )


def _measured(row: MeasuredRow, operation: Operation, num_bytes: int) -> float:
    """Seconds: those that were published, else from a rate. Rates count the bytes as nccl-tests does."""
    if row.seconds is not None:
        return row.seconds
    algbw = row.algbw or (row.busbw or 0.0) / operation.bus_factor(row.num_devices)
    return num_bytes / algbw


Cards: TypeAlias = tuple[int, str] | None
"""How many network cards of which bandwidth a host has; None as in the catalog."""


def _stated(row: MeasuredRow, entry: HardwareSpec, words: str) -> Cards:
    """The cards that a row over several hosts states, if those of the catalog differ."""
    host, devices = _loaded(entry.cluster, 1).host, row.num_devices // row.num_hosts
    if row.num_hosts == 1 or (rate := host_rate(words, host, devices)) is None:
        return None
    usual = host.network.link.bandwidth * 8
    if devices < host.num_devices:  # the cards beside these devices are those that the row counts
        used = max(1, host.network.nics * devices // host.num_devices)
        return None if rate == used * usual else (host.network.nics, f"{rate / used / 1e9:g} Gbps")
    cards = stated_cards(host, devices, words)
    return (cards["nics"], cards.get("bandwidth", f"{usual / 1e9:g} Gbps")) if cards else None


@cache
def _loaded(name: str, hosts: int, cards: Cards = None) -> Cluster:
    if cards is None:
        return load_cluster(name, hosts)
    network = {"nics": cards[0], "bandwidth": cards[1]}
    return validate_data({"host": {"use": name, "network": network}, "hosts": hosts}, ClusterSpec).build()


def _placed(row: MeasuredRow, entry: HardwareSpec, cards: Cards) -> tuple[Cluster, Numbers]:
    """The cluster and the ranks' places on it; PlanError where the row does not fit on it."""
    if row.num_devices < 2:
        raise PlanError(f"{row.operation} of one device")
    hosts = row.num_devices if entry.apart else row.num_hosts
    if row.num_devices % hosts:
        raise PlanError("devices that do not spread evenly over their hosts")
    host = _loaded(entry.cluster, 1).host
    per_host = row.num_devices // hosts
    places = entry.places if entry.places and len(entry.places) >= per_host else range(host.num_devices)
    if per_host > len(places):
        raise PlanError(f"more devices to a host than {entry.cluster} has ({host.num_devices})")
    stride = host.pod.num_hosts if host.pod and entry.apart else 1
    first = np.arange(hosts, dtype=np.int64) * stride * host.num_devices
    ranks = first[:, np.newaxis] + np.array(places[:per_host], dtype=np.int64)
    return _loaded(entry.cluster, (hosts - 1) * stride + 1, cards), ranks.ravel()


def _busiest_pair(cluster: Cluster, ranks: Numbers) -> Numbers:
    """Two neighbours of the ring in which every rank sends to the next: across hosts if there are several."""
    hosts = cluster.hosts_of(ranks)
    across = np.flatnonzero(hosts[1:] != hosts[:-1])
    first = int(across[0]) if across.size else 0
    return ranks[first : first + 2]
