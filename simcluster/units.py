"""Quantities as people write them, and numbers as people read them.

Inside simcluster a quantity is a float in SI base units: bytes, bytes per second, seconds, FLOP per second.
Text with a unit exists only at the edge. Bits (``b``) and bytes (``B``) are never confused: a lower-case
``b`` is always a bit.
"""

from __future__ import annotations

import math
import re
from enum import Enum

_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_TIME = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def _scaled(suffixes: tuple[str, ...], factor: float, *, binary: bool = True) -> dict[str, float]:
    prefixes = _SI | _BINARY if binary else _SI
    return {prefix + suffix: scale * factor for prefix, scale in prefixes.items() for suffix in suffixes}


def _counted(noun: str) -> dict[str, float]:
    """Units of counted things, as ``count`` writes them: ``254 k tokens/s``."""
    return {f"{prefix} {noun}".lstrip(): scale for prefix, scale in (_SI | {"B": 1e9}).items()}


class Dimension(Enum):
    """What a quantity measures: its units by name, the base unit's name, and an example to show in errors."""

    BYTES = (_scaled(("B",), 1.0) | _scaled(("b",), 0.125), "B", "64 GiB")
    BANDWIDTH = (
        _scaled(("B/s", "Bps"), 1.0) | _scaled(("b/s", "bps"), 0.125),
        "B/s",
        "50 GB/s or 400 Gbps",
    )
    TIME = (_TIME, "s", "1.5 us")
    FREQUENCY = (_scaled(("Hz",), 1.0, binary=False), "Hz", "1410 MHz")
    POWER = (_scaled(("W",), 1.0, binary=False), "W", "700 W")
    COMPUTE = (_scaled(("FLOP/s", "FLOPS", "FLOPs"), 1.0, binary=False), "FLOP/s", "989.4 TFLOP/s")
    TOKEN_RATE = (_counted("tokens/s"), "tokens/s", "254 k tokens/s")
    SAMPLE_RATE = (_counted("samples/s"), "samples/s", "31.5 samples/s")

    def __init__(self, units: dict[str, float], base: str, example: str) -> None:
        self.units = units
        self.base = base
        self.example = example


_NUMBER = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*(?: \S+)?)\s*")


def parse(text: object, dimension: Dimension, example: str = "") -> float:
    """The quantity in base units; ``parse("400 Gbps", Dimension.BANDWIDTH)`` is 5e10.

    Raises ValueError, saying the accepted form by an ``example`` (else the dimension's), for anything
    but a finite number >= 0 followed by a unit.
    """
    example = example or dimension.example
    match = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"write a number with a unit, such as '{example}'")
    number, unit = match.groups()
    if not unit:
        raise ValueError(f"'{number}' has no unit; write for example '{example}'")
    if unit not in dimension.units:
        raise ValueError(f"unknown unit '{unit}'; write for example '{example}'")
    value = float(number.replace("_", "")) * dimension.units[unit]
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"must be a finite quantity of at least 0 {dimension.base}")
    return value


def seconds(value: float) -> str:
    """A duration to read, three significant digits: ``1.23 s``, ``456 ms``, ``7.89 us``."""
    magnitude = abs(value)
    for unit, scale in (("d", 86400.0), ("h", 3600.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if magnitude >= scale:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value / 1e-9)} ns" if value else "0 s"


def size(value: float) -> str:
    """An amount of memory to read, in binary units: ``61.4 GiB``."""
    return _prefixed(value, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def volume(value: float) -> str:
    """An amount of traffic to read, in decimal units: ``1.61 GB``."""
    return _prefixed(value, 1000.0, ("B", "kB", "MB", "GB", "TB", "PB"))


def bandwidth(value: float) -> str:
    """A transfer rate to read: ``48.5 GB/s``."""
    return _prefixed(value, 1000.0, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"))


def compute(value: float) -> str:
    """A compute rate to read: ``412 TFLOP/s``."""
    return _prefixed(
        value, 1000.0, ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s")
    )


def count(value: float) -> str:
    """A large count to read: ``70.6 B`` parameters, ``1.05 M`` tokens."""
    return _prefixed(value, 1000.0, ("", "k", "M", "B", "T")).rstrip()


def energy(joules: float) -> str:
    """Energy to read, from joules: ``417 Wh``, ``3.42 MWh``."""
    return _prefixed(joules / 3600, 1000.0, ("Wh", "kWh", "MWh", "GWh", "TWh"))


def amount(value: float) -> str:
    """Money to read, to three digits or the whole unit: ``0.76``, ``1,234``."""
    return _digits(value)


def percent(value: float, decimals: int = 1) -> str:
    """A share to read: ``41.3 %``."""
    return f"{100 * value:.{decimals}f} %"


def signed_percent(value: float, decimals: int = 1) -> str:
    """A change to read, with its sign: ``+41.3 %``."""
    return f"{100 * value:+.{decimals}f} %"


def _prefixed(value: float, base: float, names: tuple[str, ...]) -> str:
    scale = 0
    while abs(value) >= base * (1 - 5e-4) and scale < len(names) - 1:
        value /= base
        scale += 1
    return f"{_digits(value) if scale or value % 1 else int(value)} {names[scale]}"


def _digits(value: float) -> str:
    """Three significant digits, never in exponent form, and no digits invented beyond the decimal point."""
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 10 else f"{value:.2f}"
