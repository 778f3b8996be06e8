"""The network cards of a host, by what a row says of the links between hosts."""

from __future__ import annotations

import re
from typing import Any

from simcluster.cluster import Host

_UNIT = r"\s*G(?:b/s|bps|bit/s|bE|BE|E)"
_CARDS = re.compile(r"(\d+)\s*x\s*[A-Za-z ]*?(\d+)", re.IGNORECASE)
"""``8x HDR200 InfiniBand``, ``8x EDR IB 100Gb/s per node``, ``8x200Gb/s``: so many cards of so many Gb/s."""
_PER_DEVICE = re.compile(rf"(\d+)(?:{_UNIT}|G) ?(?:per |/ ?)(?:GPU|NPU|device)", re.IGNORECASE)
_OF_A_HOST = re.compile(rf"(\d+){_UNIT}\b", re.IGNORECASE)
"""``800Gb/s per node``, and ``100GbE``: one network of this rate for a host."""


def stated_cards(host: Host, num_devices: int, stated: str) -> dict[str, Any]:
    """The network of a host as a row states it; nothing where the catalog has as much.

    Fewer or more of the catalog's cards, if these make up the rate; one slower card; otherwise as many faster
    ones.
    """
    rate, network = host_rate(stated, num_devices), host.network
    card_rate = network.link.bandwidth * 8
    if rate is None or rate == card_rate * network.nics:
        return {}
    count = rate / card_rate
    if count >= 1 and count.is_integer() and num_devices % count == 0:
        return {"nics": int(count)}
    cards = min(network.nics, num_devices) if count > 1 else 1
    return {"nics": cards, "bandwidth": f"{rate / cards / 1e9:g} Gbps"}


def host_rate(words: str, num_devices: int) -> float | None:
    """The bandwidth of all cards of a host of ``num_devices``, one way, in bit/s; None if not stated."""
    if match := _CARDS.search(words):
        return int(match[1]) * int(match[2]) * 1e9
    if match := _PER_DEVICE.search(words):
        return int(match[1]) * num_devices * 1e9
    if match := _OF_A_HOST.search(words):
        return int(match[1]) * 1e9
    return None
