"""A cluster's topology as boxes and lines: the inside of a host, and the network over hosts."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster import units
from simcluster.cluster.interconnect import Numbers
from simcluster.cluster.topology import Topology
from simcluster.deferred_dataclass import dataclass
from simcluster.draw import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, Box, BoxRow, Connection, Tone

_TIERS: tuple[tuple[str, tuple[str, ...], Tone], ...] = (
    ("memory, disks", ("memory", "cores", "disks"), GREY),
    ("sockets", ("socket",), PURPLE),
    ("PCIe", ("pcie", "io"), ORANGE),
    ("devices", ("device",), BLUE),
    ("switches", ("switch",), GREEN),
)
_MOST = 12
"""Boxes in a row."""

Tiers = tuple[list[BoxRow], list[Connection]]
"""Rows of boxes from top to bottom, and the lines between them."""


@dataclass(frozen=True)
class LinkUse:
    """What a step carries over links: ``num_bytes`` [links] of a step of ``step`` seconds."""

    num_bytes: NDArray[np.float64]
    step: float

    def shares(self, topology: Topology) -> NDArray[np.float64]:
        """The share of a step in which each link would be full of it [links]."""
        rates = topology.rates(np.arange(topology.num_links))
        return np.asarray(self.num_bytes / rates / self.step, dtype=np.float64)


def draw_host(topology: Topology, host: int, path: Numbers, use: LinkUse | None = None) -> Tiers:
    """One host, with the switches outside that it is joined to; links of ``path`` are strong."""
    links = topology.matching(f"host.{host}.*")
    nodes = np.unique(np.concatenate(topology.ends(links)))
    names = {node: topology.node_name(node) for node in nodes.tolist()}
    prefix = f"host.{host}."
    rows = []
    for title, kinds, tone in _TIERS:
        boxes = [
            Box(node, name.removeprefix(prefix), tone, name)
            for node, name in names.items()
            if name.startswith(prefix) and name.removeprefix(prefix).partition(".")[0] in kinds
        ]
        if boxes:
            rows.append(BoxRow(title, boxes))
    others = [_outer(topology, node) for node, name in names.items() if not name.startswith(prefix)]
    pods = [box for box in others if box.label.startswith("pod.")]
    if pods:
        rows.append(BoxRow("pod", pods))
    outside = [box for box in others if box not in pods]
    if outside:  # beside the sockets, so that no line to a card runs behind one
        row = BoxRow("outside", outside[:_MOST], _more(len(outside)))
        at = next((at for at, tier in enumerate(rows) if tier.name == "sockets"), None)
        if at is None:
            rows.insert(0, row)
        else:
            rows[at] = BoxRow("sockets, outside", _mixed(rows[at].boxes, row.boxes), row.more)
    return rows, _lines(topology, links, {}, path, use)


def draw_network(
    topology: Topology, path: Numbers, ranks: tuple[int, int] | None, use: LinkUse | None = None
) -> Tiers:
    """Some hosts, each as one box, and the switches over them by tier; those of ``ranks`` too."""
    wanted = np.linspace(0, topology.num_hosts - 1, min(8, topology.num_hosts)).astype(np.int64)
    if ranks:
        wanted = np.unique([*wanted.tolist(), *topology.host_of(np.array(ranks)).tolist()])
    links = topology.between_devices()
    tails, heads = topology.ends(links)
    hosts = topology.host_of(tails), topology.host_of(heads)
    outer = hosts[0] != hosts[1]
    outer |= (hosts[0] < 0) & (hosts[1] < 0)
    links, tails, heads = links[outer], tails[outer], heads[outer]
    hosts = hosts[0][outer], hosts[1][outer]
    boxed = {
        node: ("host", host)
        for ends, of in ((tails, hosts[0]), (heads, hosts[1]))
        for node, host in zip(
            ends[np.isin(of, wanted)].tolist(), of[np.isin(of, wanted)].tolist(), strict=True
        )
    }
    rows = [_host_row(topology, wanted)]
    seen = np.unique(np.fromiter(boxed, dtype=np.int64, count=len(boxed)))
    tier = seen
    while True:
        fresh = np.setdiff1d(heads[np.isin(tails, tier) & (hosts[1] < 0)], seen)
        if not fresh.size:
            break
        shown = fresh[: 2 * _MOST]
        boxes = [_outer(topology, node) for node in shown.tolist()]
        kind = re.sub(r"\b\d+\b", "*", boxes[0].label)
        rows.insert(0, BoxRow(kind if "*" in kind else "switches", boxes, _more(fresh.size, 2 * _MOST)))
        seen, tier = np.union1d(seen, fresh), shown
    kept = np.isin(tails, seen) & np.isin(heads, seen)
    return rows, _lines(topology, links[kept], boxed, path, use)


def _mixed(few: Sequence[Box], many: Sequence[Box]) -> list[Box]:
    """Both in one row, the few spread among the many."""
    placed = [((place + 0.5) / len(boxes), box) for boxes in (few, many) for place, box in enumerate(boxes)]
    return [box for _, box in sorted(placed, key=lambda entry: entry[0])]


def _outer(topology: Topology, node: int) -> Box:
    """A switch outside hosts; in a narrow box only the numbers in its name."""
    name = topology.node_name(node)
    return Box(node, name, RED, name, ".".join(re.findall(r"\d+", name)))


def _host_row(topology: Topology, wanted: Numbers) -> BoxRow:
    tone = _TIERS[3][2]
    boxes = [Box(("host", host), f"host.{host}", tone) for host in wanted.tolist()]
    return BoxRow("hosts", boxes, f"{len(boxes)} of {topology.num_hosts:,}")


def _lines(
    topology: Topology,
    links: Numbers,
    boxed: dict[int, tuple[str, int]],
    path: Numbers,
    use: LinkUse | None,
) -> list[Connection]:
    """A line for all links between two boxes; wider with their rate, in the colour of the one used most."""
    tails, heads = topology.ends(links)
    rates, on_path = topology.rates(links), np.isin(links, path)
    shares = use.shares(topology)[links] if use else None
    by_pair: dict[frozenset[object], list[int]] = {}
    for index, ends in enumerate(zip(tails.tolist(), heads.tolist(), strict=True)):
        pair = frozenset(boxed.get(end, end) for end in ends)
        if len(pair) == 2:
            by_pair.setdefault(pair, []).append(index)
    most = max((rates[members].sum() for members in by_pair.values()), default=1.0)
    lines = []
    for pair, members in by_pair.items():
        one, other = pair
        texts = [f"{topology.name(int(links[i]))}: {units.bandwidth(float(rates[i]))}" for i in members[:6]]
        if use is not None and shares is not None:
            texts = [
                f"{text}, {units.volume(float(use.num_bytes[links[i]]))} a step, "
                f"{units.percent(float(shares[i]))} of the step"
                for text, i in zip(texts, members, strict=False)
            ]
        weight = 0.8 + 2.2 * float(rates[members].sum() / most) ** 0.5
        strong = bool(on_path[members].any())
        title = "\n".join([*texts, *([_more(len(members), 6)] if len(members) > 6 else [])])
        used = None if shares is None else float(shares[members].max())
        lines.append(Connection(one, other, title, weight + strong, strong, used))
    return sorted(lines, key=lambda line: (line.strong, line.use or 0.0))


def _more(count: int, most: int = _MOST) -> str:
    return f"{most} of {count:,}" if count > most else ""
