"""A cluster's topology as a page: the inside of a host, the network over hosts, a path, and all links."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np

from simcluster.cli.commands.topology.topology_tables import (
    TopologyView,
    bisection_line,
    link_rows,
    path_links,
    path_rows,
)
from simcluster.cluster import Tiers, draw_host, draw_network
from simcluster.draw import Markup, html_page, html_table, quantities, section, tier_diagram_svg


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
    yield section(
        f"Host {host}",
        "rest the pointer on a line for its links",
        _drawn(draw_host(topology, host, path), f"the inside of host {host}"),
    )
    if topology.num_hosts > 1:
        network = draw_network(topology, path, drawn.ends if drawn.path else None)
        yield section("Between hosts", "", _drawn(network, "the network over hosts"))
    if drawn.path:
        src, dst = drawn.path
        table = html_table(["link", *quantities("rate", "latency")], path_rows(topology, path))
        yield section(f"From rank {src} to rank {dst}", "", table)
    figures = quantities("count", "rate", "latency")
    table = html_table(["links", *figures, "figure", "source"], link_rows(drawn))
    yield section("Links", "both ways of a cable are two links", table)


def _drawn(tiers: Tiers, label: str) -> Markup:
    rows, lines = tiers
    return tier_diagram_svg(rows, lines, label)
