"""Random plans are refused in words, or they hold; ``python -m tests.attack`` plays one again."""

from __future__ import annotations

import pytest

from tests.attack.plans import plan
from tests.attack.properties import outcome
from tests.attack.text import yaml_of

FEW, MANY, AT_ONCE = 16, 1000, 24


def holds(seed: int) -> bool:
    """Whether the plan of a seed was simulated; fails with what is wrong and the scenario."""
    data = plan(seed)
    found = outcome(data)
    assert not found.fault, f"python -m tests.attack plan {seed}\n{found.fault}\n{yaml_of(data)}"
    return not found.refused


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(0, FEW, 8))
def test_a_few_random_plans(first):
    """Most of them can be: a generator of refusals would show nothing."""
    assert sum(holds(seed) for seed in range(first, first + 8)) >= 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(FEW, MANY, AT_ONCE))
def test_many_random_plans(first, record_property):
    failed, simulated = [], 0
    for seed in range(first, first + AT_ONCE):
        try:
            simulated += holds(seed)
        except AssertionError as error:
            failed.append(str(error))
    record_property("simulated", simulated)
    assert not failed, "\n\n".join(failed)
    assert simulated >= AT_ONCE // 3
