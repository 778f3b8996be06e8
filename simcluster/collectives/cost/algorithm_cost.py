"""How long a collective takes, and which algorithm and protocol do it fastest."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from simcluster.cluster import Cluster, GroupPlacement, Host, Level, Protocol, Reach, nanoseconds
from simcluster.collectives.algorithm import all_algorithms
from simcluster.collectives.cost.algorithm_selection import AUTO, CollectiveRequest
from simcluster.collectives.cost.hccl_rules import hccl_choice
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Routine
from simcluster.collectives.traffic import GRAIN, UnequalParts, normalised, phases
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, Problem, ScenarioError, nearest
from simcluster.number_arrays import Floats

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
        Operation.ROTATE,
    }
)
"""Operations in which ranks have no part of their own to copy, or only one of them has."""

_ANYTHING = CollectiveRequest()


@dataclass(frozen=True, slots=True)
class LoadPhase:
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
class AlgorithmChoice:
    """A collective's algorithm and protocol, and what it costs.

    ``latency``: seconds in which no link is loaded (the base cost, every step's hop, copies inside a
    device); ``phases``: what flows then, one after the other; ``channels``: in how many it flows, where the
    host's file says so.
    """

    algorithm: str
    protocol: str
    latency: float
    phases: tuple[LoadPhase, ...]
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
    placement: GroupPlacement,
    num_bytes: float,
    cluster: Cluster,
    wanted: str | CollectiveRequest = AUTO,
    parts: UnequalParts | None = None,
) -> AlgorithmChoice:
    """What ``operation`` costs a group of this placement, alone on the nominal cluster.

    time = base + hops + own + sum over phases of max over links of bytes / (rate x share), with base, hops
    and share of the protocol. Own is the copy of the part that is the rank's own, S / n, from input to
    output, which loads no link: ``protocol.own`` times as long as over all links of the device. The fastest
    protocol is taken, and with ``auto`` the fastest of the algorithms that the host's library has. A group
    of one rank has nothing to do. ``wanted``: an algorithm, or one with a protocol and channels, of which
    fewer than the library's own carry proportionally less.

    ``num_bytes`` counts as ``Operation`` says; ``parts`` are those of an all-to-all-v, equal if absent. Each
    link then carries its own parts, and own is that of the rank that keeps most. Waits are counted for all
    peers, also for those that get nothing. Raises ScenarioError for an unknown algorithm, PlanError for one
    that cannot do the operation.
    """
    if parts is not None:
        if operation is not Operation.ALL_TO_ALL_V or parts.num_ranks != placement.num_ranks:
            group = f"{operation} of {placement.num_ranks} ranks"
            raise ValueError(f"parts of {parts.num_ranks} ranks are not those of {group}")
        if parts.is_even:
            parts = None
    if placement.num_ranks == 1:
        return AlgorithmChoice("none", "none", 0.0, ())
    wanted = wanted if isinstance(wanted, CollectiveRequest) else CollectiveRequest(wanted)
    algorithm = wanted.algorithm
    known = all_algorithms()
    if algorithm not in (AUTO, *known):
        hint = nearest(algorithm, (AUTO, *known))
        raise ScenarioError(f"unknown algorithm '{algorithm}'", path="collectives.algorithm", hint=hint)
    where, host = group_site_of(placement, cluster), cluster.host_of(placement.kinds)
    carried = 0.0 if operation is Operation.BARRIER else num_bytes
    added = cluster.topology.added_latency(placement.ranks) if where.between is Reach.NETWORK else 0.0
    choices = [
        _choice(
            kind,
            protocol,
            _price(kind, operation, placement, cluster, parts),
            carried,
            _hops(where, cluster, placement.kinds, protocol, added),
            _channels(host, wanted),
            _reached(host, placement, where),
            _own(operation, placement, carried, cluster, protocol, parts),
        )
        for kind in _able(operation, placement, num_bytes, cluster, wanted)
        for protocol in host.protocols_of(kind, operation)
        if wanted.protocol in (AUTO, protocol.name)
    ]
    if not choices:
        raise PlanError(
            f"{operation} has no protocol '{wanted.protocol}' here",
            hint=f"known: {', '.join(sorted(protocols_of(operation, placement, cluster, wanted)))}",
        )
    return min(choices, key=lambda choice: choice.seconds)


@lru_cache(maxsize=2**6)
def algorithm_routine(
    algorithm: str, operation: Operation, placement: GroupPlacement, cluster: Cluster
) -> Routine:
    """The steps of an algorithm for a group of this placement, numbered as its ``site`` numbers ranks."""
    return all_algorithms()[algorithm].steps(operation, group_site_of(placement, cluster))


@lru_cache(maxsize=2**12)
def group_site_of(placement: GroupPlacement, cluster: Cluster) -> GroupSite:
    """A group of this placement as algorithms see it."""
    return GroupSite.of(placement, cluster.topology, cluster.host_of(placement.kinds))


def refused_name(algorithm: str, operation: Operation | None = None) -> Problem | None:
    """What is wrong with naming ``algorithm``, for one operation or for all; None if nothing is.

    The problem has no path: the caller knows where the name is written.
    """
    known = all_algorithms()
    fit = [
        kind for kind, registered in known.items() if operation is None or operation in registered.operations
    ]
    able = f"for {operation}: {', '.join((AUTO, *fit))}" if operation else f"known: {', '.join((AUTO, *fit))}"
    if algorithm not in (AUTO, *known):
        return Problem(f"unknown algorithm '{algorithm}'", hint=able)
    if algorithm not in (AUTO, *fit):
        return Problem(f"algorithm '{algorithm}' cannot do {operation}", hint=able)
    return None


def protocols_of(
    operation: Operation, placement: GroupPlacement, cluster: Cluster, wanted: CollectiveRequest = _ANYTHING
) -> set[str]:
    """The names of the protocols of which one is chosen."""
    kinds = _able(operation, placement, 0.0, cluster, wanted)
    host = cluster.host_of(placement.kinds)
    return {protocol.name for kind in kinds for protocol in host.protocols_of(kind, operation)}


def _channels(host: Host, wanted: CollectiveRequest) -> tuple[int | None, float]:
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
    operation: Operation,
    placement: GroupPlacement,
    num_bytes: float,
    cluster: Cluster,
    wanted: CollectiveRequest,
) -> list[str]:
    """The algorithms to try."""
    where, host = group_site_of(placement, cluster), cluster.host_of(placement.kinds)
    known = all_algorithms()
    able = [kind for kind in known if not _lacking(kind, operation, placement, cluster, wanted.format)]
    if (algorithm := wanted.algorithm) != AUTO:
        if algorithm in able:
            return [algorithm]
        raise PlanError(
            f"algorithm '{algorithm}' cannot do {operation} for {placement.num_ranks} ranks "
            "placed like this: " + _lacking(algorithm, operation, placement, cluster, wanted.format),
            hint=f"able: {', '.join((AUTO, *able))}" if able else "",
        )
    if not able:
        raise PlanError(f"no algorithm can do {operation} for {where.num_ranks} ranks")
    if host.library == "hccl":
        return hccl_choice(operation, where, num_bytes, able)
    chosen = [kind for kind in able if operation in known[kind].chosen.get(host.library, frozenset())]
    return chosen or able


def _lacking(
    algorithm: str, operation: Operation, placement: GroupPlacement, cluster: Cluster, number_format: str
) -> str:
    """Why an algorithm cannot do an operation for a group, in words; nothing if it can."""
    candidate, where = all_algorithms()[algorithm], group_site_of(placement, cluster)
    reduction = cluster.topology.network.reduces
    if operation in candidate.operations and where.num_units > 1 and candidate.in_network(where):
        if reduction is None:
            return "the network does not reduce; write 'reduces' for it under cluster.network if it does"
        if lacks := reduction.lacks(operation, number_format):
            return lacks
    if not candidate.supports(operation, where):
        return f"it does not fit {_site_text(where)}"
    if candidate.own_protocols:
        for kind in placement.kinds:
            if algorithm not in (host := cluster.kinds[kind]).protocols:
                return f"the file of host '{host.name}' has no protocol of it under collectives.{algorithm}"
    return ""


def _site_text(where: GroupSite) -> str:
    ranks = f"{where.most}" if where.is_even else f"{where.fewest} to {where.most}"
    return f"{where.num_units} unit{'s' * (where.num_units > 1)} of {ranks}"


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
def _price(
    kind: str, operation: Operation, placement: GroupPlacement, cluster: Cluster, parts: UnequalParts | None
) -> _Price:
    routine = algorithm_routine(kind, operation, placement, cluster)
    topology = cluster.topology
    members = placement.ranks[np.newaxis]
    scales, times, rates = [], [], []
    for traffic in phases(routine, group_site_of(placement, cluster), members, topology, parts):
        load = normalised(traffic, 1, topology)
        of_links = topology.rates(traffic.links)
        rates.append(float((of_links / (load.loads * GRAIN)).min(initial=np.inf)))
        scales.append(float(load.scale[0]))
        if traffic.reduced and (reduction := topology.network.reduces):
            rates[-1] = min(rates[-1], reduction.rate * scales[-1] / traffic.reduced)
        network = traffic.network * _on_shared_cards(kind, group_site_of(placement, cluster))
        times.append(_deciding(traffic.inside / of_links, network / of_links))
    return _Price(routine.hops, tuple(scales), tuple(times), tuple(rates))


def _on_shared_cards(kind: str, where: GroupSite) -> float:
    """How much longer the network takes for trees between few hosts where ranks share its cards.

    Of S for a card, a tree sends S between two hosts, 4/3 S between three, 2 S between more. Sums over cards
    that ranks share were measured as if it were 2 S throughout (NVIDIA/nccl-tests issues 319 and 119, and
    vTrain's steps with 16 tensor ranks), so that rings are faster there. Why is not known.
    """
    shared = where.between is Reach.NETWORK and where.rails < where.most
    return {2: 2.0, 3: 1.5}.get(where.num_units, 1.0) if shared and kind in ("tree", "nvls_tree") else 1.0


def _deciding(inside: Floats, network: Floats) -> Floats:
    """The pairs [rows, 2] that may be the slowest, whatever the shares: none is below another in both."""
    if not inside.size:
        return np.zeros((0, 2))
    # What takes longest inside hosts, and few others: those that take longer on the network.
    most = inside.max()
    beside = network[inside == most].max()
    rest = np.flatnonzero(network > beside)
    rest = rest[np.lexsort((-network[rest], -inside[rest]))]
    first, second = np.append(most, inside[rest]), np.append(beside, network[rest])
    best = np.maximum.accumulate(second)
    kept = np.concatenate([[True], second[1:] > best[:-1]])
    return np.stack([first[kept], second[kept]], axis=1)


def _own(
    operation: Operation,
    placement: GroupPlacement,
    num_bytes: float,
    cluster: Cluster,
    protocol: Protocol,
    parts: UnequalParts | None,
) -> float:
    """Seconds for the part of the data that a rank holds before and after, where each has one."""
    if not protocol.own or operation in ROOTED:
        return 0.0
    host = cluster.host_of(placement.kinds)
    all_links = host.fabric.rate(host.num_devices) * protocol.shares[Level.HOST]
    kept = num_bytes / placement.num_ranks if parts is None else num_bytes * parts.most_kept
    return protocol.own * kept / all_links


def _choice(
    kind: str,
    protocol: Protocol,
    price: _Price,
    num_bytes: float,
    hops: tuple[float, float],
    channels: tuple[int | None, float],
    reached: tuple[float, float],
    own: float,
) -> AlgorithmChoice:
    shares = [share * part for share, part in zip(protocol.shares, reached, strict=True)]
    latency = protocol.base + own + price.hops[0] * hops[0] + price.hops[1] * hops[1]
    flows = []
    for index, (scale, times, rate) in enumerate(zip(price.scales, price.times, price.rates, strict=True)):
        if num_bytes and scale:
            share = float((times[:, 0] / shares[Level.HOST] + times[:, 1] / shares[Level.NETWORK]).max())
            flows.append(LoadPhase(num_bytes * scale, min(scale / share * channels[1], rate), index))
    return AlgorithmChoice(kind, protocol.name, latency, tuple(flows), channels[0])


def _reached(host: Host, placement: GroupPlacement, where: GroupSite) -> tuple[float, float]:
    """What is reached of rates inside a unit and between units, by how many ranks and units there are."""
    between = host.network.by_hosts.at(where.num_units) if where.between is Reach.NETWORK else 1.0
    return host.fabric.by_ranks.at(placement.ranks_per_host), between


def _hops(
    where: GroupSite, cluster: Cluster, kinds: tuple[int, ...], protocol: Protocol, added: float
) -> tuple[float, float]:
    """Seconds of one wait inside a unit and of one between units, with what the way between them adds.

    In a unit of several hosts, the mean over a ring through its ranks, which goes from one host to the next
    only as often as there are hosts.
    """
    between = max(0.0, cluster.hop_over(where.between, protocol, kinds) + added)
    if where.inside is not Reach.POD:
        return cluster.hop_over(where.inside, protocol, kinds), between
    closer = cluster.hop_over(Reach.HOST, protocol, kinds)
    steps, wide = where.most - 1, where.hosts_inside - 1
    return closer + (cluster.hop_over(Reach.POD, protocol, kinds) - closer) * wide / steps, between
