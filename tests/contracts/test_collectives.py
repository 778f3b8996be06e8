"""Every collective algorithm computes its operations, with the bytes and rounds its steps state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster.link import Level
from simcluster.collectives import Algorithm, Operation, Wire, all_algorithms

GROUPS = [(n,) for n in range(2, 10)] + [
    (mates,) * hosts for hosts in range(2, 10) for mates in (1, 2, 3, 4) if hosts * mates <= 20
]
UNEVEN = [(3, 2), (2, 1, 3), (4, 1), (5, 3), (2, 2, 1), (1, 2, 2, 4)]
PAIRS = [
    (kind, operation) for kind, each in all_algorithms().items() for operation in sorted(each.operations)
]
CUTTING = (Operation.REDUCE_SCATTER, Operation.ALL_TO_ALL)


def expected(operation: Operation, arrays, reduction):
    n = len(arrays)
    whole = reduction.reduce(np.stack(arrays))
    match operation:
        case Operation.ALL_REDUCE:
            return [whole] * n
        case Operation.ALL_GATHER:
            return [np.concatenate(arrays)] * n
        case Operation.REDUCE_SCATTER:
            return np.split(whole, n)
        case Operation.ALL_TO_ALL:
            blocks = [np.split(array, n) for array in arrays]
            return [np.concatenate([blocks[src][dst] for src in range(n)]) for dst in range(n)]
        case Operation.BROADCAST | Operation.SEND_RECEIVE:
            return [arrays[0]] * n


def counted_bytes(operation: Operation, arrays) -> int:
    return arrays[0].nbytes * (len(arrays) if operation is Operation.ALL_GATHER else 1)


def arrays_that_divide(wire: Wire):
    cut = wire.num_ranks * math.lcm(wire.rails, wire.num_ranks) * 2
    return [np.ones(cut) for _ in range(wire.num_ranks)]


def layouts(algorithm: Algorithm, operation: Operation, groups):
    rails = {group: sorted({1, max(1, min(group) // 2), min(group)}) for group in groups}
    wires = [Wire(group, count) for group in groups for count in rails[group]]
    return [wire for wire in wires if algorithm.supports(operation, wire.span)]


def stated_bytes(steps, level: Level) -> float:
    return sum(step.repeat * step.loads[level] for step in steps)


def stated_rounds(steps) -> int:
    return sum(step.repeat for step in steps if step.latency is not None)


def test_every_operation_has_an_algorithm():
    assert {operation for _, operation in PAIRS} == set(Operation)


@pytest.mark.parametrize(("kind", "operation"), PAIRS)
def test_it_computes_its_operation_for_every_group(kind, operation):
    algorithm = all_algorithms()[kind]
    wires = layouts(algorithm, operation, GROUPS + UNEVEN)
    assert wires
    rng = np.random.default_rng(0)
    for wire in wires:
        arrays = [rng.integers(-9, 9, (wire.num_ranks * 2, 3)).astype(float) for _ in range(wire.num_ranks)]
        kept = [array.copy() for array in arrays]
        found = algorithm.run(operation, arrays, wire)
        for got, want in zip(found, expected(operation, kept, np.add), strict=True):
            assert np.array_equal(got, want), wire.span
        for before, now in zip(kept, arrays, strict=True):
            assert np.array_equal(before, now), "the operands must not change"


@pytest.mark.parametrize(("kind", "operation"), PAIRS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_it_computes_its_operation_on_any_arrays(kind, operation, data):
    algorithm = all_algorithms()[kind]
    wire = data.draw(st.sampled_from(layouts(algorithm, operation, GROUPS + UNEVEN)))
    reduction = data.draw(st.sampled_from([np.add, np.maximum]))
    first = data.draw(st.integers(0, 11))
    if operation in CUTTING:
        first *= wire.num_ranks
    shape = (first, *data.draw(st.lists(st.integers(1, 4), max_size=2)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    arrays = [rng.standard_normal(shape) for _ in range(wire.num_ranks)]
    found = algorithm.run(operation, arrays, wire, reduction)
    for got, want in zip(found, expected(operation, arrays, reduction), strict=True):
        assert got.shape == want.shape
        assert np.allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "operation"), PAIRS)
def test_it_moves_the_bytes_and_takes_the_rounds_of_its_steps(kind, operation):
    algorithm = all_algorithms()[kind]
    for wire in layouts(algorithm, operation, GROUPS):
        arrays = arrays_that_divide(wire)
        algorithm.run(operation, arrays, wire)
        steps = algorithm.steps(operation, wire.span, counted_bytes(operation, arrays))
        for level in Level:
            assert wire.moved(level) == pytest.approx(stated_bytes(steps, level), rel=1e-12), (
                wire.span,
                level,
            )
        assert wire.num_rounds == stated_rounds(steps), wire.span
        assert all(step.repeat > 0 and min(step.loads) >= 0 for step in steps)


@pytest.mark.parametrize(("kind", "operation"), PAIRS)
def test_an_uneven_group_never_exceeds_its_steps(kind, operation):
    algorithm = all_algorithms()[kind]
    for wire in layouts(algorithm, operation, UNEVEN):
        arrays = arrays_that_divide(wire)
        algorithm.run(operation, arrays, wire)
        steps = algorithm.steps(operation, wire.span, counted_bytes(operation, arrays))
        for level in Level:
            assert wire.moved(level) <= stated_bytes(steps, level) * (1 + 1e-12), (wire.span, level)
        assert wire.num_rounds <= stated_rounds(steps), wire.span


@pytest.mark.parametrize(("kind", "operation"), PAIRS)
def test_its_steps_grow_with_the_bytes_alone(kind, operation):
    algorithm = all_algorithms()[kind]
    for wire in layouts(algorithm, operation, GROUPS):
        one, three = (algorithm.steps(operation, wire.span, size) for size in (1000, 3000))
        assert [(step.repeat, step.latency) for step in one] == [
            (step.repeat, step.latency) for step in three
        ]
        for level in Level:
            assert stated_bytes(three, level) == pytest.approx(3 * stated_bytes(one, level))


@pytest.mark.parametrize(("kind", "operation"), [pair for pair in PAIRS if pair[1] in CUTTING])
def test_a_first_dim_that_does_not_divide_is_refused(kind, operation):
    with pytest.raises(ValueError, match="divides by 3"):
        all_algorithms()[kind].run(operation, [np.ones(4)] * 3, Wire((3,)))
