"""The steps of an algorithm: how often, across which level, and with how many bytes."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.cluster.link import Level


@dataclass(frozen=True, slots=True)
class Step:
    """``repeat`` equal steps that follow one another.

    ``latency``: the level whose latency each of them pays, or None for steps that stream behind others.
    ``loads``: bytes that each of them puts on the busiest link of each level, indexed by Level: out of one
    device inside a host, out of one network card between hosts.
    """

    repeat: int
    latency: Level | None
    loads: tuple[float, float]


def hops(over_network: int, inside_host: int) -> tuple[Step, ...]:
    """The steps that a first byte takes before others stream behind it."""
    steps = (Step(over_network, Level.NETWORK, (0.0, 0.0)), Step(inside_host, Level.HOST, (0.0, 0.0)))
    return tuple(step for step in steps if step.repeat)
