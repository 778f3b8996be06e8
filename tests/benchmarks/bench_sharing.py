"""Speed of max-min sharing: ``pytest tests/benchmarks/bench_sharing.py``. Nothing is asserted about time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import simpy

from simcluster.engine import FlowPhase, Links, Transfer, Vectors
from simcluster.engine.reference.flows import Network
from simcluster.engine.reference.sharing import solve_few, solve_many


def sparse(num_flows):
    """As many links as flows, 4 to 8 of them per flow, all rates different."""
    rng = np.random.default_rng(1)
    rows = [
        [
            (int(link), int(rng.integers(1, 2**20)) * 2.0**-20)
            for link in rng.choice(num_flows, width, replace=False)
        ]
        for width in rng.integers(4, 9, num_flows)
    ]
    return rows, rng.uniform(1e8, 1e11, num_flows), rng.uniform(1e9, 1e11, num_flows)


@pytest.mark.parametrize("num_flows", [10, 1_000, 10_000])
def test_solve_by_arrays(benchmark, num_flows):
    rows, caps, capacity = sparse(num_flows)
    benchmark(solve_many, Vectors.of(rows), caps, capacity)


@pytest.mark.parametrize("num_flows", [10, 20])
def test_solve_by_plain_python(benchmark, num_flows):
    rows, caps, capacity = sparse(num_flows)
    benchmark(solve_few, rows, caps.tolist(), capacity.tolist())


@pytest.mark.parametrize("num_flows", [1_000, 10_000])
def test_one_start_and_one_end_among_many(benchmark, num_flows):
    """Two re-solves: what hangs together, rates, and the ends of all whose rate changed."""
    rows, caps, capacity = sparse(num_flows)
    env = simpy.Environment()
    network = Network(env, Links(capacity, Vectors.of(rows)))
    for vector, cap in enumerate(caps.tolist()):
        env.process(network.carry(Transfer(0, (FlowPhase(vector, 1e15, cap),))))
    env.run(until=1)

    def come_and_go():
        env.process(network.carry(Transfer(0, (FlowPhase(0, 1.0, math.inf),))))
        env.run(until=env.now + 1000)

    benchmark(come_and_go)
    benchmark.extra_info["solves"] = network.num_solves


def carried(shared, count=20_000):
    env = simpy.Environment()
    rows = [
        [(0 if shared else side, 1.0), *((2 + side * 4 + each, 1.0) for each in range(4))] for side in (0, 1)
    ]
    network = Network(env, Links(np.full(10, 1e9), Vectors.of(rows)))

    def stream(vector):
        for number in range(count // 2):
            yield from network.carry(Transfer(100, (FlowPhase(vector, 1000.0 + number % 7, math.inf),)))

    for vector in (0, 1):
        env.process(stream(vector))
    env.run()
    return network


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "on one link"])
def test_twenty_thousand_transfers(benchmark, shared):
    network = benchmark(carried, shared)
    benchmark.extra_info["solves"] = network.num_solves
