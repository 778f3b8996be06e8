"""Flows over a handful of links, in time, for tests."""

from __future__ import annotations

import numpy as np
import simpy

from simcluster.engine.communication import Links, Vectors
from simcluster.engine.reference.flows import Network


def network(rows, capacity, **more):
    """An environment and a network: rows of (link, load), bytes/s per link."""
    env = simpy.Environment()
    links = Links(np.array(capacity, dtype=np.float64), Vectors.of(rows), **more)
    return env, Network(env, links)


def ends(env, net, transfers):
    """When each of (start, Transfer) is over, in nanoseconds."""
    found = [-1] * len(transfers)

    def process(index, start, transfer):
        yield env.timeout(start)
        yield from net.carry(transfer)
        found[index] = env.now

    for index, (start, transfer) in enumerate(transfers):
        env.process(process(index, start, transfer))
    env.run()
    return found
