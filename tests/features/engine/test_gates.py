"""Programs with gates: both implementations agree, and say who waits for what for ever."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.engine import Implementation, run_together
from simcluster.errors import SimulationError
from simcluster.program import GateWait, StepGate
from simcluster.simulation.compose.build import build_scenario, workload_of
from tests.support.covering import quick
from tests.support.implementations import assert_all_agree, assert_both_agree
from tests.support.servers import BY_ROWS, WIDE_DEEP, server_scenario

UPDATES = [
    {},
    {"update": "asynchronous"},
    {"update": "stale_synchronous", "staleness": 0},
    {"update": "stale_synchronous", "staleness": 2},
]


def random_server_scenario(seed):
    """Servers, workers of unequal speed, tables by rows or whole, from a seed."""
    draw = np.random.default_rng(seed)

    def one_of(choices):
        return choices[draw.integers(len(choices))]

    workers = one_of([1, 2, 4, 8])
    rows = bool(draw.integers(2))
    changes = [] if draw.integers(2) else [{"device": int(draw.integers(workers)), "compute": 0.01}]
    law = one_of(["uniform", "zipf:1.1"])
    return server_scenario(
        workers,
        int(draw.integers(1, 4)),
        model=WIDE_DEEP if rows else None,
        training={"optimizer": BY_ROWS if rows else one_of(["sgd", "adam"])},
        run={"steps": int(draw.integers(1, 5))},
        changes=changes,
        **({"ids": law} if rows else {}),
        **one_of(UPDATES),
    )


SEEDS = quick([*range(5), *range(7, 20)], 0, 4, 7, later=[1, 2, 3, 12, 13, 14, 15, 16, 18])
"""Quick and thorough ones together have every update of tables by rows, updates of whole weights that wait,
that do not and that may be stale, and workers of equal and of unequal speed.
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed):
    which = random_server_scenario(seed)
    ends = set()
    for unfold in (False, True):
        workload = workload_of(build_scenario(which, unfold=unfold))
        ends.add(assert_both_agree(workload).end)
    assert len(ends) == 1


@pytest.mark.parametrize("update", quick(UPDATES, UPDATES[0], later=UPDATES[1:3]))
def test_waits_at_gates_fill_the_step_without_remainder(update):
    changes = [{"device": 0, "compute": 0.001}]
    assert_all_agree(build_scenario(server_scenario(4, 2, run={"steps": 2}, changes=changes, **update)))


@pytest.mark.parametrize("method", Implementation)
def test_a_gate_that_never_opens_is_named(method):
    built = build_scenario(server_scenario(2, 1))
    workload = workload_of(built)
    codes = list(built.program.codes)
    code, place = next(
        (number, place)
        for number, code in enumerate(codes)
        for place, instruction in enumerate(code.instructions)
        if instruction.gate is not None and "updates" in instruction.name
    )
    wait = GateWait(StepGate("updates of server 0"), 2)
    instructions = list(codes[code].instructions)
    instructions[place] = replace(instructions[place], gate=wait)
    codes[code] = replace(codes[code], instructions=tuple(instructions))
    changed = replace(workload, program=replace(workload.program, codes=tuple(codes)))
    with pytest.raises(
        SimulationError, match="waits for gate 'updates of server 0', which has counted 1 of 2"
    ):
        run_together([changed], None, method)


def test_programs_with_gates_run_alone():
    workload = workload_of(build_scenario(server_scenario(2, 1)))
    with pytest.raises(ValueError, match="a Program with gates runs alone"):
        run_together([workload, workload])
