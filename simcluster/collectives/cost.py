"""How long a collective takes, and which algorithm and protocol do it fastest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from simcluster.cluster.cluster import Cluster
from simcluster.cluster.host import Host, Protocol
from simcluster.cluster.link import Level, Reach
from simcluster.cluster.placement import Placement
from simcluster.cluster.price import nanoseconds
from simcluster.collectives.algorithm import all_algorithms
from simcluster.collectives.hccl import preferred
from simcluster.collectives.loads import Floats, normal, phases
from simcluster.collectives.operation import Operation
from simcluster.collectives.selection import AUTO, Wanted
from simcluster.collectives.site import Site
from simcluster.collectives.step import Routine
from simcluster.errors import PlanError, Problem, ScenarioError, nearest

ROOTED = frozenset(
    {
        Operation.BROADCAST,
        Operation.REDUCE,
        Operation.GATHER,
        Operation.SCATTER,
        Operation.SEND_RECEIVE,
        Operation.BARRIER,
        Operation.NEIGHBOR_EXCHANGE,
        Operation.SHIFT,
    }
)
"""Operations in which ranks have no part of their own to copy, or only one of them has."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Bytes that flow together: ``num_bytes`` on the slowest link, at ``cap`` bytes/s at most.

    ``index`` is that of the phase's load vector among those of ``loads``.
    """

    num_bytes: float
    cap: float
    index: int

    @property
    def seconds(self) -> float:
        """Seconds on links that nobody else uses."""
        return self.num_bytes / self.cap


@dataclass(frozen=True, slots=True)
class Choice:
    """A collective's algorithm and protocol, and what it costs.

    ``latency``: seconds in which no link is loaded (the base cost, every step's hop, copies inside a
    device); ``phases``: what flows then, one after the other; ``channels``: in how many it flows, where the
    host's file says so.
    """

    algorithm: str
    protocol: str
    latency: float
    phases: tuple[Phase, ...]
    channels: int | None = None

    @property
    def transfer(self) -> float:
        """Seconds in which bytes flow."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def seconds(self) -> float:
        """Seconds from the last rank's arrival to the end for all, alone on the cluster."""
        return self.latency + self.transfer

    @property
    def duration_ns(self) -> int:
        """The same in whole nanoseconds, each phase by itself, as they follow one another on links."""
        return nanoseconds(self.latency) + sum(nanoseconds(phase.seconds) for phase in self.phases)


@lru_cache(maxsize=2**16)
def collective_time(
    operation: Operation,
    placement: Placement,
    num_bytes: float,
    cluster: Cluster,
    wanted: str | Wanted = AUTO,
) -> Choice:
    """What ``operation`` costs a group of this placement, alone on the nominal cluster.

    time = base + hops + own + sum over phases of max over links of bytes / (rate x share), with base, hops
    and share of the protocol. Own is the copy of the part that is the rank's own, S / n, from input to
    output, which loads no link: ``protocol.own`` times as long as over all links of the device. The fastest
    protocol is taken, and with ``auto`` the fastest of the algorithms that the host's library has. A group
    of one rank has nothing to do. ``wanted``: an algorithm, or one with a protocol and channels, of which
    fewer than the library's own carry proportionally less.

    ``num_bytes`` counts as ``Operation`` says. Raises ScenarioError for an unknown algorithm, PlanError
    for one that cannot do the operation.
    """
    if placement.num_ranks == 1:
        return Choice("none", "none", 0.0, ())
    wanted = wanted if isinstance(wanted, Wanted) else Wanted(wanted)
    algorithm = wanted.algorithm
    known = all_algorithms()
    if algorithm not in (AUTO, *known):
        hint = nearest(algorithm, (AUTO, *known))
        raise ScenarioError(f"unknown algorithm '{algorithm}'", path="collectives.algorithm", hint=hint)
    where, host = site(placement, cluster), cluster.host_of(placement.kinds)
    carried = 0.0 if operation is Operation.BARRIER else num_bytes
    choices = [
        _choice(
            kind,
            protocol,
            _price(kind, operation, placement, cluster),
            carried,
            _hops(where, cluster, placement.kinds, protocol),
            _channels(host, wanted),
            _own(operation, placement, carried, cluster, protocol),
        )
        for kind in _able(operation, placement, num_bytes, cluster, algorithm)
        for protocol in host.protocols_of(kind, operation)
        if wanted.protocol in (AUTO, protocol.name)
    ]
    if not choices:
        raise PlanError(
            f"{operation} has no protocol '{wanted.protocol}' here",
            hint=f"known: {', '.join(sorted(protocols_of(operation, placement, cluster, algorithm)))}",
        )
    return min(choices, key=lambda choice: choice.seconds)


def routine(algorithm: str, operation: Operation, placement: Placement, cluster: Cluster) -> Routine:
    """The steps of an algorithm for a group of this placement, numbered as its ``site`` numbers ranks."""
    return all_algorithms()[algorithm].steps(operation, site(placement, cluster))


@lru_cache(maxsize=2**12)
def site(placement: Placement, cluster: Cluster) -> Site:
    """Where a group of this placement stands."""
    return Site.of(placement, cluster.topology, cluster.host_of(placement.kinds))


def refused_name(algorithm: str, operation: Operation | None = None) -> Problem | None:
    """What is wrong with naming ``algorithm``, for one operation or for all; None if nothing is.

    The problem has no path: whoever asks knows where the name was written.
    """
    known = all_algorithms()
    fit = [kind for kind, each in known.items() if operation is None or operation in each.operations]
    able = f"for {operation}: {', '.join((AUTO, *fit))}" if operation else f"known: {', '.join((AUTO, *fit))}"
    if algorithm not in (AUTO, *known):
        return Problem(f"unknown algorithm '{algorithm}'", hint=able)
    if algorithm not in (AUTO, *fit):
        return Problem(f"algorithm '{algorithm}' cannot do {operation}", hint=able)
    return None


def protocols_of(
    operation: Operation, placement: Placement, cluster: Cluster, algorithm: str = AUTO
) -> set[str]:
    """The names of the protocols of which one is chosen."""
    kinds = _able(operation, placement, 0.0, cluster, algorithm)
    host = cluster.host_of(placement.kinds)
    return {protocol.name for kind in kinds for protocol in host.protocols_of(kind, operation)}


def _channels(host: Host, wanted: Wanted) -> tuple[int | None, float]:
    """The channels used, where known, and the part of the rate that they reach."""
    own = host.channels
    if wanted.channels is None:
        return own, 1.0
    if own is None:
        raise PlanError(
            f"the file of host '{host.name}' does not say how many channels its library uses",
            path="collectives.overrides",
            hint="leave 'channels' out, or write cluster.host.channels",
        )
    return wanted.channels, min(1.0, wanted.channels / own)


def _able(
    operation: Operation, placement: Placement, num_bytes: float, cluster: Cluster, algorithm: str
) -> list[str]:
    """The algorithms to try."""
    where, host = site(placement, cluster), cluster.host_of(placement.kinds)
    libraries = [cluster.kinds[kind].protocols for kind in placement.kinds]
    able = [
        kind
        for kind, each in all_algorithms().items()
        if each.supports(operation, where)
        and (not each.own_protocols or all(kind in protocols for protocols in libraries))
    ]
    if algorithm != AUTO:
        if algorithm in able:
            return [algorithm]
        hint = f"able: {', '.join((AUTO, *able))}" if able else ""
        raise PlanError(
            f"algorithm '{algorithm}' can do no {operation} for {placement.num_ranks} ranks that lie so",
            hint=hint,
        )
    if not able:
        raise PlanError(f"no algorithm can do {operation} for {where.num_ranks} ranks")
    if host.library == "hccl":
        return preferred(operation, where, num_bytes, able)
    known = all_algorithms()
    chosen = [kind for kind in able if operation in known[kind].chosen.get(host.library, frozenset())]
    return chosen or able


@dataclass(frozen=True, slots=True, eq=False)
class _Price:
    """What a routine costs: waits (inside, between) and, by phase, what decides how long bytes flow.

    ``scales``: bytes on the slowest link per byte of S. ``times`` [links that may decide, 2]: seconds per
    byte of S at full share, by sends inside hosts and pods and by sends over the network. ``rates``: bytes/s
    on the slowest link at which it is full.
    """

    hops: tuple[int, int]
    scales: tuple[float, ...]
    times: tuple[Floats, ...]
    rates: tuple[float, ...]


@lru_cache(maxsize=2**12)
def _price(kind: str, operation: Operation, placement: Placement, cluster: Cluster) -> _Price:
    found = routine(kind, operation, placement, cluster)
    topology = cluster.topology
    members = placement.ranks[np.newaxis]
    scales, times, rates = [], [], []
    for each in phases(found, site(placement, cluster), members, topology):
        load = normal(each, 1, topology)
        rates.append(float((topology.rates(load.links) / load.loads).min(initial=np.inf)))
        scales.append(float(load.scale[0]))
        loads = np.stack([each.inside, each.network], axis=1)
        times.append(_deciding(loads / topology.rates(each.links)[:, np.newaxis]))
    return _Price(found.hops, tuple(scales), tuple(times), tuple(rates))


def _deciding(seconds: Floats) -> Floats:
    """The rows that may be the slowest, whatever the shares: none is below another in both columns."""
    ordered = seconds[np.lexsort((-seconds[:, 1], -seconds[:, 0]))]
    best = np.maximum.accumulate(ordered[:, 1])
    kept = np.concatenate([[True], ordered[1:, 1] > best[:-1]])
    return np.asarray(ordered[kept], dtype=np.float64)


def _own(
    operation: Operation, placement: Placement, num_bytes: float, cluster: Cluster, protocol: Protocol
) -> float:
    """Seconds for the part of the data that a rank holds before and after, where each has one."""
    if not protocol.own or operation in ROOTED:
        return 0.0
    host = cluster.host_of(placement.kinds)
    all_links = host.fabric.rate(host.num_devices) * protocol.shares[Level.HOST]
    return protocol.own * num_bytes / placement.num_ranks / all_links


def _choice(
    kind: str,
    protocol: Protocol,
    price: _Price,
    num_bytes: float,
    hops: tuple[float, float],
    channels: tuple[int | None, float],
    own: float,
) -> Choice:
    latency = protocol.base + own + price.hops[0] * hops[0] + price.hops[1] * hops[1]
    flows = []
    for index, (scale, times, rate) in enumerate(zip(price.scales, price.times, price.rates, strict=True)):
        share = float((times[:, 0] / protocol.shares[0] + times[:, 1] / protocol.shares[1]).max())
        if num_bytes and scale:
            flows.append(Phase(num_bytes * scale, min(scale / share * channels[1], rate), index))
    return Choice(kind, protocol.name, latency, tuple(flows), channels[0])


def _hops(where: Site, cluster: Cluster, kinds: tuple[int, ...], protocol: Protocol) -> tuple[float, float]:
    """Seconds of one wait inside a unit and of one between units.

    In a unit of several hosts, the mean over a ring through its ranks, which goes from one host to the next
    only as often as there are hosts.
    """
    between = cluster.hop_over(where.between, protocol, kinds)
    if where.inside is not Reach.POD:
        return cluster.hop_over(where.inside, protocol, kinds), between
    closer = cluster.hop_over(Reach.HOST, protocol, kinds)
    steps, wide = where.most - 1, where.hosts_inside - 1
    return closer + (cluster.hop_over(Reach.POD, protocol, kinds) - closer) * wide / steps, between
