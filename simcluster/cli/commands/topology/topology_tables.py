"""A cluster's topology as text: what it is made of, what each link carries, and the way between two ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.text import Text

from simcluster import units
from simcluster.cluster import TRUNK, Cluster, ClusterSpec, HostSpec, Numbers, Topology, bisection_rate
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Section, names_file, validate_data
from simcluster.draw import Cell, Column, quantities, render_text, text_table
from simcluster.errors import Problem, ScenarioError, SimclusterError
from simcluster.plan import MOST_RANKS
from simcluster.scenario import Scenario

_TRUST = {"measured": "green", "assumed": "yellow"}


@dataclass(frozen=True, slots=True)
class TopologyView:
    """What is shown: a cluster, what it is called, and where its figures come from."""

    name: str
    spec: ClusterSpec
    cluster: Cluster
    path: tuple[int, int] | None
    ends: tuple[int, int] = (0, 0)
    """The devices of both ranks of the path."""

    @classmethod
    def of(cls, name: str, hosts: int | None, path: str | None) -> TopologyView:
        """A host of the catalog, or the cluster of a scenario; ScenarioError for wrong words."""
        ranks: Cluster | None = None
        if names_file(name):
            changes = [] if hosts is None else [("cluster.hosts", str(hosts))]
            scenario = Scenario.load(name, changes)
            try:
                spec, cluster = scenario.spec.cluster, scenario.cluster.whole or scenario.cluster
                ranks = scenario.cluster if spec.file else None
            except SimclusterError as error:
                raise scenario.located(error) from None
        else:
            HostSpec.load(name)
            spec = validate_data({"use": name, "hosts": hosts or 1}, ClusterSpec)
            cluster = spec.build()
        if cluster.num_devices > MOST_RANKS:
            groups = " + ".join(f"{group.num_hosts:,} x {group.host.num_devices}" for group in cluster.groups)
            devices = f"{groups} = {cluster.num_devices:,} devices"
            message = f"{devices}; the links of at most {MOST_RANKS:,} are shown"
            raise ScenarioError(Problem(message, where=name if hosts is None else f"--hosts {hosts}"))
        if path is None:
            return cls(name, spec, cluster, None)
        pair = _pair(path, (ranks or cluster).num_devices)
        if ranks is not None:  # a launcher's file says which devices run them
            src, dst = ranks.devices_of(np.array(pair)).tolist()
            return cls(name, spec, cluster, pair, (src, dst))
        return cls(name, spec, cluster, pair, pair)

    @property
    def title(self) -> str:
        """What it is, in a line."""
        hosts = " + ".join(f"{group.num_hosts:,} x {group.host.name}" for group in self.cluster.groups)
        network = self.cluster.topology.network
        reduces = ", which reduces" if network.reduces else ""
        return f"{hosts}, {self.cluster.num_devices:,} devices, network: {network.kind}{reduces}"


def topology_text(drawn: TopologyView, *, colour: bool = False) -> str:
    """Nodes, links, bisection bandwidth and, if one is asked for, a path."""
    topology = drawn.cluster.topology
    parts: list[Any] = [Text(drawn.title, "bold"), "", _nodes(topology), "", _links(drawn), ""]
    if line := bisection_line(topology):
        parts.append(line)
    if drawn.path:
        parts += ["", *_path(drawn, *drawn.path)]
    return render_text(*parts, colour=colour)


def bisection_line(topology: Topology) -> str:
    """The bisection bandwidth in words; nothing for one device."""
    rate = bisection_rate(topology)
    meaning = "one way, from the first half of the devices to the second (maximum flow)"
    return f"bisection bandwidth: {units.bandwidth(rate)} {meaning}" if rate else ""


def _nodes(topology: Topology) -> Any:
    rows = [[pattern, f"{count:,}"] for pattern, count in topology.node_kinds()]
    return text_table(["nodes", *quantities("count")], rows)


def link_rows(drawn: TopologyView) -> list[list[str]]:
    """A row per kind of links: name, count, rate, latency, how far to trust it, source; both ways as one."""
    rows: dict[tuple[str, ...], dict[str, int]] = {}
    for family in drawn.cluster.topology.families:
        source, trust = _source(drawn.spec, family.source)
        name = both = family.pattern.replace("{}", "*")
        for one, other in (("out", "in"), ("up", "down")):
            both = re.sub(rf"\.({one}|{other})(?=$|\.)", f".{{{one},{other}}}", both)
        figures = units.bandwidth(family.rate), units.seconds(family.latency), trust, source
        counts = rows.setdefault((both, *figures), {})
        counts[name] = counts.get(name, 0) + family.size
    return [
        [both if len(counts) > 1 else next(iter(counts)), f"{sum(counts.values()):,}", *figures]
        for (both, *figures), counts in rows.items()
    ]


def _links(drawn: TopologyView) -> Any:
    rows: list[list[Cell]] = [
        [*row[:4], Text(row[4], _TRUST.get(row[4], "")), row[5]] for row in link_rows(drawn)
    ]
    figures = quantities("count", "rate", "latency")
    return text_table(["links", *figures, "", Column("source", wraps=True)], rows)


def path_links(topology: Topology, src: int, dst: int) -> tuple[Numbers, float]:
    """The links from one device to another, and the latency of all of them."""
    route = topology.routes(np.array([src]), np.array([dst]))
    return route.links[0][route.links[0] >= 0], float(route.latency[0])


def path_rows(topology: Topology, links: Numbers) -> list[list[str]]:
    """A row per link of a path: name, rate, latency."""
    rates, latencies = topology.rates(links), topology.latencies(links)
    return [
        [topology.name(link), units.bandwidth(rate), units.seconds(latency)]
        for link, rate, latency in zip(links.tolist(), rates.tolist(), latencies.tolist(), strict=True)
    ]


def _path(drawn: TopologyView, src: int, dst: int) -> Iterator[Any]:
    topology = drawn.cluster.topology
    links, latency = path_links(topology, *drawn.ends)
    yield text_table([f"{src} to {dst}", *quantities("rate", "latency")], path_rows(topology, links))
    yield f"{units.bandwidth(float(topology.rates(links).min()))}, {units.seconds(latency)}"


def _source(spec: ClusterSpec, path: str) -> tuple[str, str]:
    """Where the figure of links is from, and how far to trust it."""
    if path == "trunk":
        return TRUNK, "assumed"
    group = spec.written[0]
    if path.startswith("groups."):
        _, number, path = path.split(".", 2)
        group = spec.written[int(number)]
    host = group.made
    part: Any = spec
    for key in path.split("."):
        if part is spec and key == "host":
            part = host.completed()
        elif part is spec and key == "network":
            part = group.network or host.network.fabric
        else:
            part = getattr(part, key, None)
    figures = _figures(part)
    if not figures:
        return "not said; never the narrowest" if path.startswith("host.processors") else "", ""
    trusts = {figure.provenance for figure in figures}
    worst = next((trust for trust in ("assumed", "measured", "vendor") if trust in trusts), "")
    texts = dict.fromkeys(" ".join(figure.source.split()) for figure in figures if figure.source)
    return "; ".join(texts), worst


def _figures(part: Any) -> list[Any]:
    """The figures that make up the rate of a part."""
    if part is None or isinstance(part, (str, tuple)):
        return []
    if hasattr(part, "provenance"):
        return [part]
    names = ("bandwidth", "efficiency", "read", "write", "host", "hosts_per_leaf", "hosts_per_unit",
             "leaves_per_block", "units_per_block", "oversubscription", "core_oversubscription")  # fmt: skip
    values = (getattr(part, name, None) for name in names) if isinstance(part, Section) else ()
    return [figure for figure in values if hasattr(figure, "provenance")]


def _pair(text: str, count: int) -> tuple[int, int]:
    """``0,17`` as two different ranks."""
    words = [word.strip() for word in text.split(",")]
    where = f"--path {text}"
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        raise ScenarioError(Problem("write two ranks, such as 0,17", where=where))
    src, dst = (int(word) for word in words)
    if max(src, dst) >= count:
        raise ScenarioError(
            Problem(f"there is no rank {max(src, dst)}; the last is {count - 1:,}", where=where)
        )
    if src == dst:
        raise ScenarioError(Problem("a rank has no path to itself", where=where))
    return src, dst
