"""Kernels that run slower while others run."""

from __future__ import annotations

from functools import partial

import numpy as np
import simpy

from simcluster.engine.communication.fabric import NO_LINKS
from simcluster.engine.linking import PARTS
from simcluster.engine.reference.flows import Network
from simcluster.engine.reference.meetings import Meeting
from simcluster.engine.reference.pace import Pace, slowed_segments
from simcluster.engine.reference.streams import Stream, run_kernels, run_transfers

AT_ONCE = ()
"""What an entry waits for that waits for nothing."""


def segment(*kernels):
    return [part for kernel in kernels for part in kernel]


def ran(segments, communications):
    """Starts and ends of all kernels of segments that run one after another.

    ``communications`` are (begin, duration, taken), each on a stream of its own.
    """
    env = simpy.Environment()
    pace = Pace(env)
    network = Network(env, NO_LINKS)
    compute = Stream(env, len(segments))
    env.process(run_kernels(compute, [(AT_ONCE, each) for each in segments], pace))
    for begin, duration, taken in communications:
        stream = Stream(env, 2)
        attend = Meeting(network).attend
        entries = [partial(attend, begin), partial(attend, duration, (pace, taken))]
        env.process(run_transfers(stream, [(AT_ONCE, entry) for entry in entries]))
    env.run()
    starts = np.array(compute.starts, dtype=np.int64)
    table = slowed_segments(pace).table(starts)
    found = []
    for entry, each in enumerate(segments):
        mine = table["entry"] == entry
        if mine.any():
            found += list(zip(table["start"][mine].tolist(), table["end"][mine].tolist(), strict=True))
        else:
            lengths = np.array(each).reshape(-1, PARTS).sum(axis=1)
            edges = np.cumsum([0, *lengths]) + starts[entry]
            found += list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    return found
