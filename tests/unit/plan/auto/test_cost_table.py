"""Tables of costs and Pareto lists, against brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simcluster.plan.auto.cost_table import CostTable, ParetoList
from simcluster.plan.auto.strategy_cost import IMPOSSIBLE, CostWeights, StrategyCost

entries = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=40)


def pareto(costs):
    objective, memory = (np.array(column, dtype=float) for column in zip(*costs, strict=True))
    return ParetoList.of(objective, memory, np.arange(len(costs)))


def pairs(entries):
    return list(zip(entries.objective, entries.memory, strict=True))


@given(entries)
def test_no_entry_is_worse_than_another_and_none_is_missing(costs):
    kept = pairs(pareto(costs))
    assert kept == sorted(kept)
    for cost in costs:
        assert any(objective <= cost[0] and memory <= cost[1] for objective, memory in kept)
    for one in kept:
        assert one in costs
        assert not any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in costs)


@given(entries, st.floats(0.01, 2))
def test_a_thinned_list_has_something_near_every_entry(costs, share):
    whole = pareto(costs)
    thin = whole.thinned(share)
    assert set(pairs(thin)) <= set(pairs(whole))
    for objective, memory in pairs(whole):
        assert any(o <= objective * (1 + share) and m <= memory for o, m in pairs(thin))


@given(entries, st.integers(1, 5))
def test_a_short_list_keeps_its_ends(costs, count):
    whole = pareto(costs)
    short = whole.at_most(count)
    assert len(short) <= count or len(short) == len(whole)
    assert pairs(short)[-1] == pairs(whole)[-1], "what needs least memory always stays"
    if count > 1:
        assert pairs(short)[0] == pairs(whole)[0]


def test_the_entries_within_a_capacity():
    assert pairs(pareto([(1, 9), (2, 5), (3, 1)]).within(5)) == [(2, 5), (3, 1)]


def test_what_is_impossible_stays_so_whatever_it_weighs():
    table = CostTable.of([StrategyCost(1, IMPOSSIBLE), StrategyCost(2, 3)])
    assert table.objective(CostWeights(1, 0, 0)).tolist() == [IMPOSSIBLE, 2]
    assert table.objective(CostWeights(2, 10, 0)).tolist() == [IMPOSSIBLE, 34]
    assert CostWeights(1, 0, 0).objective(StrategyCost(1, IMPOSSIBLE)) == IMPOSSIBLE
    assert table.cost(1) == StrategyCost(2, 3)
