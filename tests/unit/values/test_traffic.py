"""Bytes that instructions count are those that cross between ranks, and a wrong count is a fault."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.collectives import Operation
from simcluster.layout import FLAT, Movement, MovementKind
from simcluster.plan import make_plan
from simcluster.program import InstructionKind, build
from simcluster.scenario import Scenario
from simcluster.simulation.verification.single_device_comparison import compare_values
from simcluster.values.exchange import exchange_arrays
from simcluster.values.traffic import crossing_elements
from tests.support.changed_programs import with_instruction
from tests.support.scenarios import TINY, scenario, under

NOBODY = -1


def foreign(arrays) -> int:
    """Elements that came from another member; every element says whose it was."""
    return sum(int(((array != rank) & (array != NOBODY)).sum()) for rank, array in enumerate(arrays))


def owned(count, shape):
    return [np.full(shape, float(rank)) for rank in range(count)]


@given(count=st.integers(2, 5), rows=st.integers(1, 3), columns=st.integers(1, 4), flat=st.booleans())
def test_what_is_gathered_or_exchanged_says_whose_it_was(count, rows, columns, flat):
    arrays = owned(count, (rows,) if flat else (rows, columns))
    gather = Movement(MovementKind.ALL_GATHER, ("a",), FLAT if flat else 1)
    shape = (count * rows,) if flat else (rows, count * columns)
    results = exchange_arrays(gather, arrays, shape)
    assert crossing_elements(gather, arrays, results) == foreign(results)
    swap = Movement(MovementKind.ALL_TO_ALL, ("a",), 0, 1)
    arrays = owned(count, (rows, count * columns))
    results = exchange_arrays(swap, arrays, (count * rows, columns))
    assert crossing_elements(swap, arrays, results) == foreign(results)


@given(
    count=st.integers(2, 5),
    rows=st.integers(4, 6),
    halo=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    more=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_halos_say_whose_they_were(count, rows, halo, more):
    to_halo = (halo[0] + more[0], halo[1] + more[1])
    if halo == to_halo:
        return
    start, full = ((before + rows + after, 3) for before, after in (halo, to_halo))
    read = Movement(MovementKind.NEIGHBOR_EXCHANGE, ("a",), 0, halo=halo, to_halo=to_halo, fill=NOBODY)
    arrays = owned(count, start)
    results = exchange_arrays(read, arrays, full)
    assert crossing_elements(read, arrays, results) == foreign(results)
    # What is added back crosses the same borders; ones show how often something was added.
    back = replace(read, halo=to_halo, to_halo=halo)
    terms = [np.ones(full) for _ in range(count)]
    sums = exchange_arrays(back, terms, start)
    assert crossing_elements(back, terms, sums) == int(sum(array.sum() - array.size for array in sums))


@given(count=st.integers(2, 5), size=st.integers(1, 4))
def test_every_term_of_a_sum_but_the_owners_crosses(count, size):
    arrays = [np.ones((count * size, 2)) for _ in range(count)]
    scatter = Movement(MovementKind.REDUCE_SCATTER, ("a",), 0)
    parts = exchange_arrays(scatter, arrays, (size, 2))
    terms = int(sum(part.sum() - part.size for part in parts))
    assert crossing_elements(scatter, arrays, parts) == terms
    gather = Movement(MovementKind.ALL_GATHER, ("a",), 0)
    spread = crossing_elements(gather, parts, exchange_arrays(gather, parts, (count * size, 2)))
    both = Movement(MovementKind.ALL_REDUCE, ("a",))
    assert crossing_elements(both, arrays, exchange_arrays(both, arrays, (count * size, 2))) == terms + spread


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_copies_are_the_bus_bytes_of_all_members(ranks):
    """nccl-tests' factor is what the busiest rank moves; in these every rank is as busy as any."""
    for operation in Operation:
        if operation in (Operation.BARRIER, Operation.SEND_RECEIVE):
            continue
        together = operation.copies(ranks)
        busiest = operation.bus_factor(ranks)
        if operation.name.startswith("ALL_") or operation is Operation.REDUCE_SCATTER:
            assert together == pytest.approx(ranks * busiest)
        else:
            assert busiest <= together + 1e-12
            assert together <= ranks * busiest
    assert Operation.SEND_RECEIVE.copies(2) == 1
    assert Operation.BARRIER.copies(ranks) == 0


# -- programs that count wrongly ----------------------------------------------------------------------


def fed():
    plain = scenario({"data": 2}, micro_batches=2, host="dgx-h100", devices=2)
    return Scenario.of({**plain.spec.model_dump(mode="json", exclude_unset=True), "data": {"decode": "1 ms"}})


PLANS = {
    "layers": lambda: scenario(
        {"pipeline": 2, "data": 2, "tensor": 2}, recipe="megatron_sp", optimizer_sharding={"zero": 1}
    ),
    "parts": lambda: under(
        scenario({"pipeline": 2, "data": 2, "tensor": 2}, recipe="megatron"), p2p_scatter=True
    ),
    "padded": lambda: scenario(
        {"data": 3},
        devices=3,
        model={**TINY, "hidden": 24, "ffn": 20, "vocab": 61},
        optimizer_sharding={"zero": 1},
    ),
    "fed": fed,
    "experts": lambda: scenario(
        {"data": 2, "expert": 2},
        model={
            "layers": 1,
            "hidden": 16,
            "heads": 4,
            "kv_heads": 2,
            "vocab": 32,
            "experts": {"count": 4, "top_k": 2, "ffn": 8},
        },
    ),
}


@cache
def planned(name):
    which = PLANS[name]()
    spec = which.spec
    inputs = spec.data.build() if spec.data else None
    plan = make_plan(
        which.model,
        spec.training,
        spec.parallel,
        which.framework,
        which.cluster,
        spec.collectives.build(),
        inputs,
    )
    return plan, which.cluster


def places(name):
    """(code, instruction, its action and operation) of everything that moves something."""
    program = build(planned(name)[0])
    return [
        (code, index, f"{each.action} {each.operation}")
        for code, lines in enumerate(program.codes)
        for index, each in enumerate(lines.instructions)
        if each.action is not InstructionKind.COMPUTE and each.operation not in ("disk to memory", "decode")
    ]


def test_all_kinds_of_movements_are_there():
    kinds = {kind for name in PLANS for *_, kind in places(name)}
    wanted = {"collective all_reduce", "collective all_gather", "collective reduce_scatter"}
    wanted |= {"collective all_to_all", "send send_receive", "receive send_receive", "copy memory to device"}
    assert kinds >= wanted
    flat = [
        (slots[call.inputs[0]], slots[call.outputs[0]])
        for code in build(planned("padded")[0]).codes
        for slots in [code.slots]
        for each in code.instructions
        for call in each.calls
        if isinstance(call.operator, Movement) and call.operator.dim == FLAT and each.operation
    ]
    assert any(before.type.num_elements * 3 > after.type.num_elements for before, after in flat), "padding"


@pytest.mark.parametrize("name", PLANS)
def test_every_count_is_what_crosses(name):
    comparisons, fault = compare_values(*planned(name), "float64", 0)
    assert not fault
    assert all(each.agrees for each in comparisons)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANS)
def test_every_wrong_count_is_a_fault_that_names_it(name):
    for code, index, kind in places(name):
        plan, cluster = planned(name)
        program = build(plan)
        each = program.codes[code].instructions[index]
        wrong = with_instruction(program, code, index, replace(each, num_bytes=each.num_bytes + 1))
        comparisons, fault = compare_values(plan, cluster, "float64", 0, wrong)
        assert not comparisons
        assert f"{each.num_bytes + 1:,} bytes" in fault, kind
        if each.action is not InstructionKind.COPY:
            assert re.search(rf"{re.escape(each.name)} .*but [\d,]+ do", fault), fault


def test_a_collective_that_is_timed_as_another_is_a_fault():
    plan, cluster = planned("layers")
    program = build(plan)
    for code, index, kind in places("layers"):
        if kind != "collective all_gather":
            continue
        each = program.codes[code].instructions[index]
        wrong = with_instruction(program, code, index, replace(each, operation="all_to_all"))
        _, fault = compare_values(plan, cluster, "float64", 0, wrong)
        assert "is timed as all_to_all over" in fault
        assert "but does all_gather over" in fault
