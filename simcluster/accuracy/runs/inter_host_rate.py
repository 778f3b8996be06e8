"""The network bandwidth of a host in bit/s, read from the words in a row's ``inter_link``."""

from __future__ import annotations

import re

_CARDS = re.compile(r"(\d+)\s*x\s*[A-Za-z ]*?(\d+)", re.IGNORECASE)
"""``8x HDR200 InfiniBand``, ``8x EDR IB 100Gb/s per node``, ``8x200Gb/s``: so many cards of so many Gb/s."""

_PER_DEVICE = re.compile(r"(\d+)\s*Gb/s per (?:GPU|NPU|device)", re.IGNORECASE)
_OF_A_HOST = re.compile(r"(\d+)\s*Gb/s", re.IGNORECASE)


def host_rate(words: str, num_devices: int) -> float | None:
    """The bandwidth of all cards of a host of ``num_devices``, one way, in bit/s; None if not stated."""
    if match := _CARDS.search(words):
        return int(match[1]) * int(match[2]) * 1e9
    if match := _PER_DEVICE.search(words):
        return int(match[1]) * num_devices * 1e9
    if match := _OF_A_HOST.search(words):
        return int(match[1]) * 1e9
    return None
