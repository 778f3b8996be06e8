"""Every mutant of the rules is caught; ``python -m tests.attack`` plays one again."""

from __future__ import annotations

import pytest

from tests.attack.hunt import EQUIVALENT, hunted, recorded
from tests.attack.mutants import named

FEW, AT_ONCE = 10, 10
MOST_EQUIVALENT = 0.25
"""Share of mutants that change nothing; more would say that the reasons are excuses."""
LEAST_THERE = 0.5
"""Share of mutants whose code is still there; of less, ``python -m tests.attack record`` draws others."""


def caught(first: int, count: int) -> None:
    """Fails with those of the recorded mutants that are not caught by what is recorded to catch them."""
    asked = {
        key: [catcher]
        for key, catcher in [*recorded().items()][first : first + count]
        if not catcher.startswith(EQUIVALENT) and named(key) is not None
    }
    survive = [found for found in hunted(asked) if not found.caught]
    said = [f"python -m tests.attack mutant {found.key!r}\nis not caught {found.fault}" for found in survive]
    assert not said, "\n\n".join(said)


def test_a_few_mutants_are_caught():
    caught(0, FEW)


def test_what_is_recorded_is_there_and_gives_reasons():
    known = recorded()
    reasons = [each for each in known.values() if each.startswith(EQUIVALENT)]
    assert all(len(each) > len(EQUIVALENT) + 20 for each in reasons)
    assert len(reasons) <= MOST_EQUIVALENT * len(known)
    assert sum(named(key) is not None for key in known) >= LEAST_THERE * len(known)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(0, len(recorded()), AT_ONCE))
def test_many_mutants_are_caught(first):
    caught(first, AT_ONCE)
