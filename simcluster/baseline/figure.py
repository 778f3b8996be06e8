"""The figures that can be bounded and compared: names, which direction is better, units."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from enum import Enum

from simcluster import units
from simcluster.analysis import INFERENCE_METRICS, METRICS, SHARED_METRICS
from simcluster.job import JOB_METRICS
from simcluster.units import Dimension

JUDGED = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "samples_per_s",
    "model_flops_per_s_per_device",
    "mfu",
    "peak_memory_bytes_max",
    "ttft_s",
    "tpot_s",
)
"""What a check fails on: throughput, memory, and how soon tokens come. The rest explains why they moved."""

_SUFFIXES = ("_bytes_max", "_bytes", "_s")
_PERCENT = re.compile(r"(\d+\.?\d*|\.\d+)\s*%")
_MOST_DIGITS = 9
_RATES = {
    "tokens": Dimension.TOKEN_RATE,
    "samples": Dimension.SAMPLE_RATE,
    "model_flops": Dimension.COMPUTE,
}


class GoodDirection(Enum):
    """Which direction of a figure is better."""

    DOWN = -1
    UP = 1
    NOWHERE = 0


def short_name(figure: str) -> str:
    """The name without its unit: ``step_time`` for ``step_time_s``."""
    for suffix in _SUFFIXES:
        if figure.endswith(suffix) and not figure.endswith("_per_s"):
            return figure.removesuffix(suffix)
    return figure.replace("_s_max", "_max")


EVERY = (*METRICS, *SHARED_METRICS, *JOB_METRICS, *INFERENCE_METRICS)


def figure_named(name: str) -> str:
    """The figure with this full or short name; ValueError, with the nearest name, if there is none."""
    names = {short_name(figure): figure for figure in EVERY} | {figure: figure for figure in EVERY}
    if name not in names:
        close = difflib.get_close_matches(name, map(short_name, EVERY), n=1)
        raise ValueError(f"no figure is called '{name}'" + (f"; did you mean '{close[0]}'?" if close else ""))
    return names[name]


def figure_list_text(figures: Iterable[str]) -> str:
    """``figures: step_time, mfu``, by their short names."""
    return f"figures: {', '.join(map(short_name, figures))}"


def good_direction(figure: str) -> GoodDirection:
    """Whether less or more of a figure is better; neither for counts of ranks, classes and events."""
    if figure.startswith("num_"):
        return GoodDirection.NOWHERE
    shares = figure.startswith(("mfu", "hfu")) or figure.endswith(("_mfu", "_mbu"))
    return GoodDirection.UP if "_per_s" in figure or shares or figure in JOB_METRICS else GoodDirection.DOWN


def dimension(figure: str) -> Dimension | None:
    """What a figure measures, if it has a unit of its own to be written in."""
    if "_bytes" in figure:
        return Dimension.BYTES
    if "_per_s" in figure:
        return next(unit for noun, unit in _RATES.items() if figure.startswith(noun))
    return Dimension.TIME if figure.endswith(("_s", "_s_max")) else None


def is_share(figure: str) -> bool:
    """Whether a figure is a part of something, read in percent."""
    counted = figure.startswith("num_") or figure in SHARED_METRICS
    return not counted and dimension(figure) is None


def figure_text(figure: str, written: float | str) -> float:
    """A value of a figure as a person writes it, in SI units: ``8.5 s``, ``64 GiB``, ``45 %``, or a number.

    Raises ValueError, with the accepted form, for anything else.
    """
    if not isinstance(written, str):
        return written
    measured = dimension(figure)
    if measured is not None:
        return units.parse(written, measured)
    if not is_share(figure):
        raise ValueError(
            f"'{written}': {short_name(figure)} is a number without a unit; write for example 1.5"
        )
    match = _PERCENT.fullmatch(written.strip())
    if match is None:
        raise ValueError(f"'{written}' is not a share; write for example '45 %', or 0.45")
    return float(match[1]) / 100


def figure_texts(figure: str, *values: float) -> tuple[str, ...]:
    """Values of one figure to read, in one unit, with enough digits to tell them apart."""
    scale, unit = _unit(figure, max((abs(value) for value in values), default=0.0))
    shown: tuple[str, ...] = ()
    for digits in range(3, _MOST_DIGITS + 1):
        shown = tuple(f"{_rounded(value / scale, digits)}{unit}" for value in values)
        if len(set(shown)) == len(set(values)):
            break
    return shown


def _unit(figure: str, largest: float) -> tuple[float, str]:
    """The scale and name of the unit in which a value of this size is read."""
    measured = dimension(figure)
    steps: tuple[tuple[str, float], ...]
    if measured is Dimension.TIME:
        steps = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
    elif measured is Dimension.BYTES:
        steps = tuple((name, 1024.0**power) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB")))
    elif figure.startswith("model_flops"):
        steps = tuple(
            (f"{prefix}FLOP/s", 1000.0**power) for power, prefix in enumerate(("", "k", "M", "G", "T"))
        )
    elif "_per_s" in figure:
        noun = figure.partition("_")[0]
        return 1.0, f" {noun}/s"
    else:
        return (0.01, " %") if is_share(figure) else (1.0, "")
    smallest = steps[0] if largest or measured is not Dimension.TIME else steps[-1]
    name, scale = next((step for step in reversed(steps) if largest >= step[1]), smallest)
    return scale, f" {name}"


def _rounded(value: float, digits: int) -> str:
    """A number with at least so many significant digits, never in exponent form."""
    if not value:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    return f"{value:,.{min(max(0, digits - 1 - magnitude), _MOST_DIGITS)}f}"
