"""The network cards of a host, by what a row says of the links between hosts."""

from __future__ import annotations

import re
from typing import Any

from simcluster.cluster import Host

_UNIT = (
    r"(?:(?P<tera>[Tt])|[Gg])"
    r"(?:(?P<bytes>B/s(?:ec)?\b|Bps\b)|[Bb]?E\b|[Bb](?:its?)?/s(?:ec)?\b|[Bb][Pp][Ss]\b)"
)
"""``Gb/s``, ``Gbps``, ``Tbit/s``, ``GbE``; ``GB/s`` are bytes."""
_RATE = r"(?P<rate>\d+(?:\.\d+)?)\s*"
_TIMES = r"\s*[xX×*]\s*"
_GENERATIONS = {"FDR": 56, "EDR": 100, "HDR": 200, "NDR": 400, "XDR": 800}
"""Gb/s of a card of InfiniBand."""

_CARDS = re.compile(rf"(?<![A-Za-z\d])(?P<count>\d+){_TIMES}[A-Za-z ]*?{_RATE}(?:{_UNIT})?")
"""``8x HDR200 InfiniBand``, ``8x EDR IB 100Gb/s per node``, ``8x200Gb/s``: so many cards of so many Gb/s."""
_CARDS_BEHIND = re.compile(
    rf"{_RATE}(?:{_UNIT}|[Gg]\b|(?<=[FEHNX]DR\d{{3}}))[A-Za-z ]*\(?{_TIMES}(?P<count>\d+)"
)
"""``NDR 400 Gb/s x8``, ``HDR200 x 4``."""
_CARDS_BY_NAME = re.compile(rf"(?P<count>\d+){_TIMES}(?P<name>[FEHNX]DR)\b")
"""``8x NDR InfiniBand``."""
_ONE = re.compile(rf"{_RATE}(?:{_UNIT}|[Gg](?= ?(?:per|/)))(?: ?(?:per|/) ?(?P<holder>[A-Za-z]+))?")
"""``400Gb/s per GPU``, ``400G/NIC``, ``800Gb/s per node``, ``100GbE``."""
_DEVICES = ("gpu", "npu", "device", "card", "accelerator", "rank")
_NICS = ("nic", "hca", "port", "rail", "link", "adapter")
_COUNTED = re.compile(rf"(\d+) ?(?:{'|'.join(_NICS)})s?\b", re.IGNORECASE)
"""``8 NICs``."""


def stated_cards(host: Host, num_devices: int, stated: str) -> dict[str, Any]:
    """The network of a host as a row states it; nothing where the catalog has as much.

    Fewer or more of the catalog's cards, if these make up the rate; one slower card; otherwise as many faster
    ones.
    """
    rate, network = host_rate(stated, host, num_devices), host.network
    card_rate = network.link.bandwidth * 8
    if rate is None or rate == card_rate * network.nics:
        return {}
    count = rate / card_rate
    if count >= 1 and count.is_integer() and num_devices % count == 0:
        return {"nics": int(count)}
    cards = min(network.nics, num_devices) if count > 1 else 1
    return {"nics": cards, "bandwidth": f"{rate / cards / 1e9:g} Gbps"}


def host_rate(words: str, host: Host, num_devices: int) -> float | None:
    """The bandwidth of all cards of a host of ``num_devices``, one way, in bit/s; None if not stated.

    A rate without a word on what has it is the host's, but for that of one card of the catalog's host.
    """
    if cards := _CARDS.search(words) or _CARDS_BEHIND.search(words):
        return int(cards["count"]) * _bits(cards)
    if named := _CARDS_BY_NAME.search(words):
        return int(named["count"]) * _GENERATIONS[named["name"]] * 1e9
    stated = _ONE.search(words)
    if stated is None:
        return None
    rate, holder = _bits(stated), (stated["holder"] or "").lower().removesuffix("s")
    if holder in _DEVICES:
        return rate * num_devices
    if holder in _NICS:
        counted = _COUNTED.search(words)
        return rate * (int(counted[1]) if counted else host.network.nics)
    return None if not holder and rate == host.network.link.bandwidth * 8 else rate


def _bits(stated: re.Match[str]) -> float:
    """A rate in bit/s; of a plain number in Gb/s."""
    return float(stated["rate"]) * (1e12 if stated["tera"] else 1e9) * (8 if stated["bytes"] else 1)
