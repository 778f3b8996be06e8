"""Timings by events that must be equal."""

from __future__ import annotations

import numpy as np

from simcluster.engine import Fabric
from simcluster.engine.communication import FlowPhase, Links, Transfer, Vectors
from simcluster.program import InstructionKind
from simcluster.program.isa.instruction import RECV_PREV, SEND_NEXT

GB = 1e9


def flow(built, index, each):
    """Who meets in it, whichever of them asks."""
    if each.action is InstructionKind.COLLECTIVE:
        return each.stream, built.classes.groups[index, each.group].id
    if each.action is InstructionKind.RECEIVE:
        classes = built.classes
        peers = classes.prev_stage if each.stream == RECV_PREV else classes.next_stage
        return each.stream == RECV_PREV, peers[index][0]
    return each.stream == SEND_NEXT, index


def crowded(built, *, links, rate, lates, latency=500, **more):
    """Few links for all transfers: each uses two of them in one phase and one in another."""
    rows = [[(a, 1.0), ((a + 1) % links, 0.5)] for a in range(links)] + [[(a, 1.0)] for a in range(links)]
    shared = Links(np.full(links, rate * GB), Vectors.of(rows), **more)

    numbers = {}

    def transfer(index, each):
        number = numbers.setdefault(flow(built, index, each), len(numbers)) % links
        size = float(each.num_bytes)
        phases = FlowPhase(number, size, rate * GB / 2), FlowPhase(links + number, size / 4, rate * GB)
        return Transfer(latency, phases, lates)

    return Fabric(shared, transfer)


def assert_same_times(ours, reference, *, solves=True):
    """Every time of every entry and of every kernel that was slowed, and what was counted; ``solves``: also
    how often rates were worked out anew.
    """
    for name in ("end", "num_events", "num_flows", *(["num_solves", "num_rates"] if solves else [])):
        assert getattr(ours, name) == getattr(reference, name), name
    assert len(ours.classes) == len(reference.classes)
    for one, other in zip(ours.classes, reference.classes, strict=True):
        for name in ("starts", "arrivals", "ends"):
            for number, (a, b) in enumerate(zip(getattr(one, name), getattr(other, name), strict=True)):
                assert np.array_equal(a, b), (name, one.part.streams[number].name)
        for name in ("entry", "start", "end"):
            assert np.array_equal(one.stretched[name], other.stretched[name]), name
