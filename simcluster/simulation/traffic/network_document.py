"""The document ``traffic`` of a run: between ranks, by kind of link, and on the drawn topology."""

from __future__ import annotations

from typing import Any

import numpy as np

from simcluster.cluster import LinkUse, Tiers, draw_host, draw_network
from simcluster.simulation.compose import BuiltScenario
from simcluster.simulation.traffic.link_traffic import bytes_on_links
from simcluster.simulation.traffic.rank_traffic import bytes_between_ranks


def traffic_document(built: BuiltScenario, step: float) -> dict[str, Any]:
    """What a step of ``step`` seconds sends.

    ``matrix`` [from, to] are bytes between runs of ``ranks_per_cell`` ranks. ``links`` has a row per kind of
    links, both ways of a cable apart: its ``name`` with ``*`` for numbers, ``count``, ``used`` (how many
    carry anything), ``rate`` in bytes/s, ``bytes_mean`` of those that carry something, ``bytes_max``, and
    ``share_max``, the share of the step in which the busiest would be full. ``drawings`` are rows of boxes
    and lines of the first rank's host and of the network over hosts.
    """
    flows, topology = built.classes.flows, built.cluster.topology
    carried = np.zeros(topology.num_links)
    loaded = flows.links.of >= 0
    carried[: len(loaded)][loaded] = bytes_on_links(built)[flows.links.of[loaded]]
    use = LinkUse(carried, step)
    shares, families = use.shares(topology), topology.families_of(np.arange(topology.num_links))
    links = []
    for number, family in enumerate(topology.families):
        own = families == number
        busy = own & (carried > 0)
        if not busy.any():
            continue
        links.append(
            {
                "name": family.pattern.replace("{}", "*"),
                "count": int(own.sum()),
                "used": int(busy.sum()),
                "rate": family.rate,
                "bytes_mean": float(carried[busy].mean()),
                "bytes_max": float(carried[own].max()),
                "share_max": float(shares[own].max()),
            }
        )
    ranks = bytes_between_ranks(built)
    first = int(topology.host_of(built.cluster.devices_of(np.zeros(1, dtype=np.int64)))[0])
    nothing = np.zeros(0, dtype=np.int64)
    drawings = [_drawing(f"host {first}", draw_host(topology, first, nothing, use))]
    if topology.num_hosts > 1:
        drawings.append(_drawing("network over hosts", draw_network(topology, nothing, None, use)))
    return {
        "ranks_per_cell": ranks.ranks_per_cell,
        "matrix": np.rint(ranks.matrix).astype(np.int64).tolist(),
        "links": sorted(links, key=lambda link: -link["share_max"]),
        "drawings": drawings,
    }


def _drawing(title: str, tiers: Tiers) -> dict[str, Any]:
    """Rows and lines as plain data; boxes have a text for a key."""
    rows, lines = tiers
    return {
        "title": title,
        "rows": [
            {
                "name": row.name,
                "more": row.more,
                "boxes": [
                    [_key(box.key), box.label, box.tone.colour, box.title, box.short] for box in row.boxes
                ],
            }
            for row in rows
        ],
        "lines": [
            [*sorted((_key(line.one), _key(line.other))), line.title, line.weight, line.use] for line in lines
        ],
    }


def _key(key: object) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
