"""Everything that composes, with everything else: schedules, sharding, recomputation, axes, profiles.

Each composition computes what one device computes, in the bytes that its instructions say (both shown by
``verify``); takes the same time folded and unfolded; and releases all that it allocates. In CI every two
choices meet; all combinations of the main ones, alone and with the other choices in turns, are marked
``exhaustive``. What is refused stands in a list.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import numpy as np
import pytest

from simcluster.errors import SimclusterError
from simcluster.model import MemoryPlace
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.plan.spec.schedule_spec import schedule_kinds
from simcluster.program import build
from simcluster.simulation import build_scenario
from simcluster.simulation.compose.build import plan_scenario
from simcluster.simulation.verification.single_device_comparison import compare_values, verify_plan
from tests.support.compositions import COMMON, DETAILS, MAIN, ONCE_WRONG, USUAL, profiles_of, scenario
from tests.support.covering import covering, quick, thorough_but_few
from tests.support.folding import assert_built_so_folded_is_unfolded
from tests.support.refusals import REFUSALS, legal

FACTORS = {**MAIN, **DETAILS}
TURNED = ("schedule", "axes", "sharding", "recompute")
"""The choices of which all combinations are met with all other choices in turns."""
ROWS = covering(FACTORS, legal=legal, small=("offload", "layers", "micro_batches", "copies"))
"""In which every two choices meet; else few layers, micro-batches and copies, and nothing offloaded."""


def label(row) -> str:
    return "-".join(str(value) for value in row.values())


def prove(row) -> None:
    built = build_scenario(scenario(row))
    if built.plan.routing.uniform:
        agrees(row, *compare_values(built.plan, built.cluster, "float64", 0, built.program))
    else:  # values have a router of their own
        found = verify_plan(built.scenario, built.plan)
        agrees(row, found.comparisons, found.fault)
    closes(built.program, assert_built_so_folded_is_unfolded(built))


def agrees(row, comparisons, fault) -> None:
    assert not fault, f"{row}: {fault}"
    assert all(each.agrees for each in comparisons), f"{row}: {comparisons}"
    assert {each.what for each in comparisons} == {"loss", "gradient", "update"}


def closes(program, unfolded) -> None:
    """Behind the step every rank holds what it held before, and at no time less than nothing."""
    account = unfolded.memory
    names = account.names["buffer"]
    booked = ("runtime", "communicators", "workspaces")
    for rank in range(program.mesh.num_ranks):
        mine = account.where(account["class"] == rank)
        assert np.cumsum(mine["bytes"]).min() > 0
        for category in np.unique(mine["category"]):
            assert np.cumsum(mine["bytes"][mine["category"] == category]).min() >= 0
        left = np.bincount(mine["buffer"], weights=mine["bytes"], minlength=len(names))
        held = {names[each]: left[each] for each in np.flatnonzero(left) if names[each] not in booked}
        residents = program.parts[program.part_of(rank)].residents
        here = [each for each in residents if each.place is MemoryPlace.DEVICE and each.num_bytes]
        assert held == {each.name: each.num_bytes for each in here}


def test_every_schedule_and_profile_is_composed_and_every_two_choices_meet_unless_they_are_refused():
    assert set(MAIN["schedule"]) == set(schedule_kinds())
    assert {name for row in ROWS for name in profiles_of(row)} == set(FrameworkSpec.entries())
    for one, two in itertools.combinations(FACTORS, 2):
        met = [(row[one], row[two]) for row in ROWS]
        for pair in itertools.product(FACTORS[one], FACTORS[two]):
            assert pair in met or not legal(dict(zip((one, two), pair, strict=True)))


CHOSEN = thorough_but_few(ROWS, ["schedule", "framework"])


@pytest.mark.parametrize("row", CHOSEN, ids=label)
def test_it_computes_what_one_device_computes_in_the_same_time_folded_and_frees_what_it_takes(row):
    prove(row)


@pytest.mark.parametrize("name", quick(ONCE_WRONG, *[*ONCE_WRONG][::3]))
def test_what_was_wrong_once(name):
    prove(USUAL | ONCE_WRONG[name])


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.message)
def test_what_cannot_be_is_refused_in_words(refusal):
    """Whatever else is chosen: some seeded rows to which nothing else of the list applies."""
    rng = random.Random(0)
    drawn = ({name: rng.choice(values) for name, values in FACTORS.items()} for _ in range(100_000))
    alone = (row for row in drawn if [each for each in REFUSALS if each.applies(row)] == [refusal])
    rows = list(itertools.islice((row for row in alone if refusal.surely(row)), 3))
    assert len(rows) == 3
    for row in rows:
        with pytest.raises(SimclusterError, match=refusal.message):
            build_scenario(scenario(row))


CHUNKS = list(itertools.product(MAIN["schedule"], MAIN["axes"]))
OTHERS = {name: values for name, values in FACTORS.items() if name not in TURNED}


@pytest.mark.exhaustive
@pytest.mark.parametrize("offload", COMMON["offload"])
@pytest.mark.parametrize(("schedule", "axes"), CHUNKS)
def test_all_combinations(schedule, axes, offload, record_property):
    """Of schedule, axes, sharding, recomputation and offload: they compute what one device computes.

    As ``verify`` shows it, of the plan itself: it is small already. What comes to the same Program, such as
    any sharding among ranks of which no two hold the same, is shown once.
    """
    count, shown = 0, defaultdict(list)
    for sharding, recompute in itertools.product(COMMON["sharding"], COMMON["recompute"]):
        values = (schedule, sharding, recompute, offload, axes)
        turn = sum(map(list.index, COMMON.values(), values)) % 2
        row = USUAL | dict(zip(COMMON, values, strict=True)) | {"micro_batches": [1, 3][turn]}
        if legal(row):
            which = scenario(row)
            plan = plan_scenario(which)
            program = build(plan)
            same = shown[program.digest()]
            if program not in same:
                agrees(row, *compare_values(plan, which.cluster, "float64", 0, program))
                same.append(program)
            count += 1
    record_property("combinations", count)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("schedule", "axes"), CHUNKS)
def test_other_choices_in_turns(schedule, axes, record_property):
    """Those of schedule, axes, sharding and recomputation, in turns with rows in which every two of the other
    choices meet.
    """
    rows = covering(OTHERS)
    first = 7 * CHUNKS.index((schedule, axes))
    count = 0
    for sharding, recompute in itertools.product(MAIN["sharding"], MAIN["recompute"]):
        chosen = dict(zip(TURNED, (schedule, axes, sharding, recompute), strict=True))
        turns = ({**chosen, **rows[(first + count + more) % len(rows)]} for more in range(len(rows)))
        row = next(filter(legal, turns), None)
        if row is not None:
            prove(row)
            count += 1
    record_property("combinations", count)
