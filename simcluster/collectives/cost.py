"""How long a collective takes, and which algorithm and protocol do it fastest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from simcluster.cluster.cluster import Cluster
from simcluster.cluster.host import Protocol
from simcluster.cluster.link import Level
from simcluster.cluster.price import nanoseconds
from simcluster.cluster.span import Span
from simcluster.collectives.algorithm import all_algorithms
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Step
from simcluster.errors import PlanError, Problem, ScenarioError, nearest

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Choice:
    """A collective's algorithm and protocol, and what it costs.

    ``latency``: seconds in which no link is loaded (the base cost and every step's hop); ``transfer``:
    seconds in which bytes flow.
    """

    algorithm: str
    protocol: str
    latency: float
    transfer: float
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        """Seconds from the last rank's arrival to the end for all."""
        return self.latency + self.transfer

    @property
    def duration_ns(self) -> int:
        """The same in whole nanoseconds."""
        return nanoseconds(self.seconds)


@lru_cache(maxsize=2**16)
def collective_time(
    operation: Operation, span: Span, num_bytes: float, cluster: Cluster, algorithm: str = AUTO
) -> Choice:
    """What ``operation`` costs a group of this shape, alone on the cluster.

    time = base + sum over steps of repeat x (hop + max over levels of bytes / (rate x share)), with base, hop
    and share of the protocol; where both levels leave through the same ports (a pod), their times add up.
    To it comes the part that is the rank's own, S / n, which the kernels copy from their input to their
    output: ``protocol.own`` times as long as over all links of the device.
    The fastest protocol is taken, and with ``auto`` the fastest of the automatic algorithms. A group of one
    rank has nothing to do.

    ``num_bytes`` counts as ``Operation`` says. Raises ScenarioError for an unknown algorithm, PlanError
    for one that cannot do the operation.
    """
    if span.num_ranks == 1:
        return Choice("none", "none", 0.0, 0.0, ())
    known = all_algorithms()
    if algorithm not in (AUTO, *known):
        hint = nearest(algorithm, (AUTO, *known))
        raise ScenarioError(f"unknown algorithm '{algorithm}'", path="collectives.algorithm", hint=hint)
    able = {kind: each for kind, each in known.items() if each.supports(operation, span)}
    if not able or algorithm not in (AUTO, *able):
        hint = f"able: {', '.join((AUTO, *able))}" if able else ""
        wanted = "no algorithm" if algorithm == AUTO else f"algorithm '{algorithm}'"
        raise PlanError(f"{wanted} can do {operation} for {span.num_ranks} ranks", hint=hint)
    own = _own_part(operation, span, num_bytes)
    choices = [
        _choice(kind, protocol, each.steps(operation, span, num_bytes), span, cluster, own)
        for kind, each in able.items()
        if (each.automatic if algorithm == AUTO else kind == algorithm)
        for protocol in cluster.host.protocols_of(kind)
    ]
    return min(choices, key=lambda choice: choice.seconds)


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


def _own_part(operation: Operation, span: Span, num_bytes: float) -> float:
    """Bytes that a rank holds before and after: a copy in its memory, which no link carries."""
    one_way = operation in (Operation.BROADCAST, Operation.SEND_RECEIVE)
    return 0.0 if one_way else num_bytes / span.num_ranks


def _choice(
    kind: str, protocol: Protocol, steps: tuple[Step, ...], span: Span, cluster: Cluster, own: float
) -> Choice:
    rates = [cluster.rate(level, span, protocol) for level in Level]
    together = sum if span.shares_ports else max
    latency = protocol.base
    host = cluster.host
    all_links = host.fabric.rate(host.num_devices) * protocol.shares[Level.HOST]
    transfer = protocol.own * own / all_links
    for step in steps:
        if step.latency is not None:
            latency += step.repeat * cluster.hop(step.latency, span, protocol)
        transfer += step.repeat * together(load / rate for load, rate in zip(step.loads, rates, strict=True))
    return Choice(kind, protocol.name, latency, transfer, steps)
