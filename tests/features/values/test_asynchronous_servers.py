"""Asynchronous servers in values: updates in the order of the timeline, the same every time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simcluster.simulation.compose import plan_scenario
from simcluster.simulation.verification.value_run import (
    ShrunkPlan,
    oracle_of,
    replay_plan,
    samples_of_workers,
)
from simcluster.values import (
    RecordedUpdates,
    SeededData,
    ValueTolerance,
    compare_training,
    oracles_of_workers,
)
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


def test_one_device_needs_the_recorded_order():
    """With older weights than those that workers had pulled, it trains something else."""
    which = server_scenario(4, 2, update="asynchronous")
    small = ShrunkPlan.of(which, plan_scenario(which))
    source = SeededData(0, np.dtype("float64"))
    replay = replay_plan(small.plan, small.shrunk.cluster, source, STEPS)
    tolerance = ValueTolerance.of("float64", 1e-9)
    older = [replace(update, staleness=update.staleness + update.step) for update in replay.updates]
    for updates, agree in ((replay.updates, True), (older, False)):
        oracles = oracles_of_workers(oracle_of(small.plan, source), samples_of_workers(small.plan))
        expected = RecordedUpdates(oracles, updates).run(STEPS)
        compared = compare_training(replay, expected, small.plan.optimizer.rules, tolerance)
        assert {comparison.step for comparison in compared} == set(range(STEPS))
        assert all(comparison.agrees for comparison in compared) == agree
