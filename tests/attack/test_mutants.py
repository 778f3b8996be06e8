"""Every mutant of the rules is caught; ``python -m tests.attack`` plays one again."""

from __future__ import annotations

import json

import pytest

from simcluster.simulation import simulate
from tests.attack.hunt import EQUIVALENT, TRIALS, catchers, fault_of, hunted, recorded, trial, trials
from tests.attack.mutants import named
from tests.support.figures import figures_of

FEW, AT_ONCE = 5, 10
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


@pytest.mark.thorough
def test_a_few_mutants_are_caught():
    caught(0, FEW)


@pytest.mark.parametrize("name", trials())
def test_figures_of_small_scenarios(name, request):
    if request.config.getoption("--update-baselines"):
        found = figures_of(simulate(trial(name)))
        (TRIALS / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")
        return
    assert not fault_of(f"figures {name}")


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("catcher", catchers())
def test_what_catches_mutants_holds_without_them(catcher):
    assert not fault_of(catcher)
