"""Asynchronous servers in values: updates in the order of the timeline, the same every time."""

from __future__ import annotations

import numpy as np

from simcluster.simulation.compose import plan_scenario
from simcluster.simulation.verification.value_run import ShrunkPlan, replay_plan
from simcluster.values import SeededData
from tests.support.servers import server_scenario

STEPS = 3


def replayed(**update):
    which = server_scenario(4, 2, **update)
    small = ShrunkPlan.of(which, plan_scenario(which))
    return replay_plan(small.plan, small.shrunk.cluster, SeededData(0, np.dtype("float64")), STEPS)


def test_the_same_scenario_gives_the_same_weights():
    first, again = replayed(update="asynchronous"), replayed(update="asynchronous")
    assert first.updates == again.updates
    for rank, held in first.state.items():
        for key, array in held.items():
            assert np.array_equal(array, again.state[rank][key]), (rank, key)


def test_every_worker_updates_every_key_in_every_step():
    updates = replayed(update="asynchronous").updates
    keys = {update.parameter for update in updates}
    for name in keys - {"embedding.tokens.weight"}:
        own = [update for update in updates if update.parameter == name]
        assert sorted((update.step, *update.workers) for update in own) == [
            (step, worker) for step in range(STEPS) for worker in range(4)
        ]
        assert max(update.staleness for update in own) >= 3


def test_synchronous_updates_are_never_stale():
    updates = replayed().updates
    assert {update.staleness for update in updates} == {0}
    assert {len(update.workers) for update in updates} == {4}
