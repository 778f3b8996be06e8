"""A cluster's topology as a page: the inside of a host, the network over hosts, a path, and all links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from simcluster import units
from simcluster.cli.commands.topology.topology_tables import (
    TopologyView,
    bisection_line,
    link_rows,
    path_links,
    path_rows,
)
from simcluster.cluster import Numbers, Topology
from simcluster.draw import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    Box,
    BoxRow,
    Connection,
    Markup,
    Tone,
    html_page,
    html_table,
    quantities,
    section,
    tier_diagram_svg,
)

_TIERS: tuple[tuple[str, tuple[str, ...], Tone], ...] = (
    ("memory, disks", ("memory", "cores", "disks"), GREY),
    ("sockets", ("socket",), PURPLE),
    ("PCIe", ("pcie", "io"), ORANGE),
    ("devices", ("device",), BLUE),
    ("switches", ("switch",), GREEN),
)
_MOST = 12
"""Boxes in a row."""


def topology_page(drawn: TopologyView) -> str:
    """A whole HTML page."""
    style = "max-width:980px;margin:24px auto;font:13px system-ui,sans-serif;line-height:1.45"
    head = f'<h1 style="font-size:17px">{escape(drawn.title)}</h1>'
    return html_page(drawn.title, style, head + "".join(_sections(drawn)))


def _sections(drawn: TopologyView) -> Iterator[Markup]:
    topology = drawn.cluster.topology
    path = np.zeros(0, dtype=np.int64)
    if drawn.path:
        path, _ = path_links(topology, *drawn.ends)
    if line := bisection_line(topology):
        yield Markup(f"<p>{escape(line)}</p>")
    host = int(topology.host_of(np.array(drawn.ends[:1]))[0]) if drawn.path else 0
    yield section(f"Host {host}", "rest the pointer on a line for its links", _inside(topology, host, path))
    if topology.num_hosts > 1:
        yield section("Between hosts", "", _network(topology, path, drawn.ends if drawn.path else None))
    if drawn.path:
        src, dst = drawn.path
        table = html_table(["link", *quantities("rate", "latency")], path_rows(topology, path))
        yield section(f"From rank {src} to rank {dst}", "", table)
    figures = quantities("count", "rate", "latency")
    table = html_table(["links", *figures, "figure", "source"], link_rows(drawn))
    yield section("Links", "both ways of a cable are two links", table)


def _inside(topology: Topology, host: int, path: Numbers) -> Markup:
    """One host, with the switches outside that it is joined to."""
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
    return tier_diagram_svg(rows, _lines(topology, links, {}, path), f"the inside of host {host}")


def _network(topology: Topology, path: Numbers, ranks: tuple[int, int] | None) -> Markup:
    """Some hosts, each as one box, and the switches over them, tier by tier."""
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
    return tier_diagram_svg(rows, _lines(topology, links[kept], boxed, path), "the network over hosts")


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
    topology: Topology, links: Numbers, boxed: dict[int, tuple[str, int]], path: Numbers
) -> list[Connection]:
    """A line for all links between two boxes; wider with their rate."""
    tails, heads = topology.ends(links)
    rates, on_path = topology.rates(links), np.isin(links, path)
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
        weight = 0.8 + 2.2 * float(rates[members].sum() / most) ** 0.5
        strong = bool(on_path[members].any())
        title = "\n".join([*texts, *([_more(len(members), 6)] if len(members) > 6 else [])])
        lines.append(Connection(one, other, title, weight + strong, strong))
    return sorted(lines, key=lambda line: line.strong)


def _more(count: int, most: int = _MOST) -> str:
    return f"{most} of {count:,}" if count > most else ""
