"""Every collective algorithm computes its operations on every group, in no more waits than charged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.collectives import Operation, all_algorithms, run_on_rank_arrays
from tests.contracts.collective_cases import PAIRS, expected, sites

SITES = sites()
FEW = 5
"""Ranks up to which the quick run has every group: odd numbers, powers of two, hosts that differ."""
IN_SWITCH = ("nvls", "nvls_tree", "collnet")


def able(kind: str, operation: Operation):
    return [site for site in SITES if all_algorithms()[kind].supports(operation, site)]


def small(kind: str, operation: Operation):
    """The groups of few ranks, or all where none is as small."""
    sites = able(kind, operation)
    return [site for site in sites if site.num_ranks <= FEW] or sites


def inputs(operation: Operation, n: int, rng, shape=None):
    """Arrays of whole numbers, and the counts of the all-to-all that has them."""
    if operation is Operation.ALL_TO_ALL_V:
        counts = rng.integers(0, 4, (n, n))
        return [rng.integers(-9, 9, row.sum()) for row in counts], counts
    return [rng.integers(-9, 9, shape or (2 * n, 3)) for _ in range(n)], None


def test_every_operation_has_an_algorithm():
    assert {operation for _, operation in PAIRS} == set(Operation)


@pytest.mark.parametrize(("kind", "operation"), PAIRS)
@pytest.mark.parametrize("groups", [small, pytest.param(able, marks=pytest.mark.thorough)])
def test_it_computes_its_operation_for_every_group(groups, kind, operation):
    assert groups(kind, operation)
    rng = np.random.default_rng(0)
    for site in groups(kind, operation):
        arrays, counts = inputs(operation, site.num_ranks, rng)
        kept = [array.copy() for array in arrays]
        routine = all_algorithms()[kind].steps(operation, site)
        found = run_on_rank_arrays(operation, routine, site, arrays, np.add, counts)
        for got, want in zip(found.arrays, expected(operation, kept, np.add, counts), strict=True):
            assert (got is None and want is None) or np.array_equal(got, want), site
        for before, now in zip(kept, arrays, strict=True):
            assert np.array_equal(before, now), "the operands must not change"
        # A library counts a way through a switch that reduces as one wait.
        assert kind in IN_SWITCH or found.depth <= sum(routine.hops), site


@pytest.mark.parametrize(("kind", "operation"), PAIRS)
@settings(max_examples=4)
@given(data=st.data())
def test_it_computes_its_operation_on_any_arrays(kind, operation, data):
    site = data.draw(st.sampled_from(able(kind, operation)))
    reduction = data.draw(st.sampled_from([np.add, np.maximum]))
    first = data.draw(st.integers(0, 11)) * site.num_ranks
    if operation is Operation.NEIGHBOR_EXCHANGE:
        first *= 2
    if operation in (Operation.ALL_REDUCE, Operation.BROADCAST, Operation.REDUCE, Operation.ALL_GATHER):
        first += data.draw(st.integers(0, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    shape = (first, *data.draw(st.lists(st.integers(1, 4), max_size=2)))
    arrays, counts = inputs(operation, site.num_ranks, rng, shape)
    routine = all_algorithms()[kind].steps(operation, site)
    found = run_on_rank_arrays(operation, routine, site, arrays, reduction, counts)
    for got, want in zip(found.arrays, expected(operation, arrays, reduction, counts), strict=True):
        if want is None:
            assert got is None
        else:
            assert got.shape == want.shape and np.array_equal(got, want)


@pytest.mark.parametrize("operation", [Operation.REDUCE_SCATTER, Operation.ALL_TO_ALL, Operation.SCATTER])
def test_a_first_dim_that_does_not_divide_is_refused(operation):
    kind = next(kind for kind, each in PAIRS if each is operation)
    site = next(site for site in able(kind, operation) if site.num_ranks == 3)
    with pytest.raises(ValueError, match="divides by 3"):
        run_on_rank_arrays(operation, all_algorithms()[kind].steps(operation, site), site, [np.ones(4)] * 3)
