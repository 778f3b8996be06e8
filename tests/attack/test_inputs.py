"""Broken inputs are refused in words and do no harm; ``python -m tests.attack`` plays one again."""

from __future__ import annotations

import pytest

from tests.attack.attempt import fault_of
from tests.attack.inputs import case
from tests.support.covering import quick

FEW, MANY, AT_ONCE = 100, 1000, 50


def taken(seeds: range) -> None:
    """Fails with all that is wrong with how the inputs of these seeds are taken."""
    failed = []
    for seed in seeds:
        found = case(seed)
        if fault := fault_of(found):
            failed.append(f"python -m tests.attack input {seed}\n{found.arguments}\n{fault}")
    assert not failed, "\n\n".join(failed)


@pytest.mark.parametrize("first", quick(range(0, FEW, AT_ONCE), 0))
def test_a_few_broken_inputs(first):
    taken(range(first, first + AT_ONCE))


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(FEW, MANY, AT_ONCE))
def test_many_broken_inputs(first):
    taken(range(first, first + AT_ONCE))
