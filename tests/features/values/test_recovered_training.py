"""A killed rank, and every policy that promises the same end: weights and optimizer states, bit by bit."""

import random
from functools import cache

import pytest

from simcluster.errors import PlanError
from simcluster.job.recovery import policy_kinds
from simcluster.scenario import Scenario
from simcluster.simulation.verification import KilledRank, TrainingInValues

STEPS = 4
EXACT = sorted(kind for kind, policy in policy_kinds().items() if policy.is_exact)
PLANS = {
    "3d": {"mesh": {"pipeline": 2, "data": 2, "tensor": 2}, "schedule": {"kind": "gpipe"}},
    "1f1b": {"mesh": {"pipeline": 2, "data": 2}, "schedule": {"kind": "1f1b"}},
    "zero": {"mesh": {"data": 2, "tensor": 2}, "optimizer_sharding": {"zero": 1}},
}


@cache
def training(plan):
    return TrainingInValues.of(
        Scenario.of(
            {
                "simcluster": 1,
                "name": plan,
                "cluster": {"use": "cpu-server", "hosts": 4 if plan == "3d" else 2},
                "model": {
                    "family": "gpt",
                    "layers": 2,
                    "hidden": 16,
                    "heads": 2,
                    "vocab": 20,
                    "max_positions": 8,
                },
                "training": {
                    "global_batch": 4,
                    "micro_batch": 1,
                    "seq_len": 8,
                    "precision": "fp32",
                    "optimizer": "adamw",
                },
                "parallel": {"recipe": "megatron", **PLANS[plan]},
            }
        ),
        STEPS,
    )


def recovered(plan, policy, killed, every=2):
    own = training(plan)
    if plan == "zero" and policy == "replica":
        with pytest.raises(PlanError, match="no replica to recover it from"):
            own.recovered(policy, killed, every)
        return None
    return own.recovered(policy, killed, every)


def holds(plan, policy, killed, every=2):
    result = recovered(plan, policy, killed, every)
    assert result is None or result.is_exact, (plan, policy, killed)


def test_ranks_that_hold_the_same():
    """As ``restore_group_info_list``: replicas over the data, and under ZeRO nobody."""
    assert list(training("3d").groups.values()) == [0, 1, 0, 1, 2, 3, 2, 3]
    assert list(training("zero").groups.values()) == [0, 1, 2, 3]


@pytest.mark.parametrize("policy", EXACT)
def test_a_killed_rank_changes_nothing(policy):
    holds("1f1b", policy, KilledRank(1, 2, 0.5))


def test_a_replica_loses_the_cut_step_and_a_checkpoint_more():
    assert recovered("1f1b", "replica", KilledRank(1, 3, 0.5)).first_step == 3
    assert recovered("1f1b", "restart", KilledRank(1, 3, 0.5)).first_step == 2


def test_survivors_that_have_begun_their_update_need_a_checkpoint():
    late = recovered("1f1b", "replica", KilledRank(0, 1, 0.99999))
    assert (str(late.source), late.first_step, late.is_exact) == ("checkpoint", 0, True)


def test_a_wrong_replica_would_be_seen(monkeypatch):
    """The comparison can fail: the other rank of a tensor group holds other slices of the same shape."""
    own = training("3d")
    monkeypatch.setattr(own, "groups", dict.fromkeys(range(8), 0))
    assert not own.recovered("replica", KilledRank(1, 2, 0.5), 2).is_exact


def test_zero_has_no_replica():
    assert recovered("zero", "replica", KilledRank(0, 1, 0.5)) is None


def test_shrinking_promises_nothing():
    with pytest.raises(PlanError, match="does not promise"):
        training("1f1b").recovered("shrink", KilledRank(0, 1, 0.5), 2)


@pytest.mark.thorough
@pytest.mark.parametrize("plan", PLANS)
def test_every_rank_step_and_policy(plan):
    for rank in range(training(plan).program.mesh.num_ranks):
        for step in range(STEPS):
            for policy in EXACT:
                holds(plan, policy, KilledRank(rank, step, 0.55))


@pytest.mark.exhaustive
def test_random_kills():
    """1,000 ranks killed at random moments of random steps, by random policies and checkpoints."""
    draw = random.Random(18)
    for _ in range(1000):
        plan = draw.choice(list(PLANS))
        rank = draw.randrange(training(plan).program.mesh.num_ranks)
        killed = KilledRank(rank, draw.randrange(STEPS), draw.random())
        holds(plan, draw.choice(EXACT), killed, draw.randint(1, 4))
