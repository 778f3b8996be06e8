"""The solver against exact arithmetic, and its invariance to order and folding bit for bit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.communication import Vectors
from simcluster.engine.communication.fabric import GRAIN
from simcluster.engine.reference.sharing import fair_rates

LOADS = st.one_of(
    st.just(1.0),
    st.integers(1, 2**20).map(lambda grains: grains * GRAIN),
    st.integers(2, 300).map(float),
)
RATES = st.one_of(
    st.sampled_from([1.0, 2.0, 3.0, 5e10, 4.5e11]),
    st.floats(1e3, 1e13, allow_nan=False, allow_infinity=False),
)


@st.composite
def structures(draw, most_flows=9, most_links=7):
    """Rows of (link, load), caps and capacities."""
    num_links = draw(st.integers(1, most_links))
    rows = draw(
        st.lists(
            st.dictionaries(st.integers(0, num_links - 1), LOADS, min_size=1).map(
                lambda found: tuple(found.items())
            ),
            min_size=1,
            max_size=most_flows,
        )
    )
    caps = draw(st.lists(st.one_of(RATES, st.just(math.inf)), min_size=len(rows), max_size=len(rows)))
    capacity = draw(st.lists(RATES, min_size=num_links, max_size=num_links))
    return rows, caps, capacity


def exact(rows, caps, capacity):
    """Rates by progressive filling in rationals: one common level, the next link or cap freezes its flows."""
    rates = {}
    while len(rates) < len(rows):
        rising = [flow for flow in range(len(rows)) if flow not in rates]
        levels = [Fraction(caps[flow]) for flow in rising if math.isfinite(caps[flow])]
        shares = {}
        for link, whole in enumerate(capacity):
            load = sum(Fraction(each) for flow in rising for at, each in rows[flow] if at == link)
            if load:
                used = sum(
                    rates[flow] * Fraction(each) for flow in rates for at, each in rows[flow] if at == link
                )
                shares[link] = (Fraction(whole) - used) / load
        level = min([*levels, *shares.values()])
        full = {link for link, share in shares.items() if share == level}
        for flow in rising:
            if caps[flow] == level or any(link in full for link, _ in rows[flow]):
                rates[flow] = level
    return [rates[flow] for flow in range(len(rows))]


@given(structures())
@settings(max_examples=40)
def test_rates_are_those_of_exact_progressive_filling(structure):
    # Small loads beside large ones lose digits of the share: 2^-20 of a link that others fill.
    assert fair_rates(*structure) == pytest.approx([float(rate) for rate in exact(*structure)], rel=1e-6)


@given(structures())
@settings(max_examples=40)
def test_feasible_and_every_flow_has_a_bottleneck(structure):
    rows, caps, capacity = structure
    rates = fair_rates(*structure)
    used = [
        math.fsum(
            rate * each for rate, row in zip(rates, rows, strict=True) for at, each in row if at == link
        )
        for link in range(len(capacity))
    ]
    for total, whole in zip(used, capacity, strict=True):
        assert total <= whole * (1 + 1e-12)
    for flow, row in enumerate(rows):
        assert 0 < rates[flow] <= caps[flow]
        fastest = {link: max(rates[f] for f, r in enumerate(rows) if link in dict(r)) for link, _ in row}
        assert rates[flow] == caps[flow] or any(
            used[link] >= capacity[link] * (1 - 1e-12) and rates[flow] >= fastest[link] * (1 - 1e-6)
            for link, _ in row
        )


@given(structures(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_order_does_not_matter_to_the_last_bit(structure, random):
    rows, caps, capacity = structure
    rates = fair_rates(*structure)
    flows, links = list(range(len(rows))), list(range(len(capacity)))
    random.shuffle(flows)
    random.shuffle(links)
    shuffled = []
    for flow in flows:
        row = [(links[link], load) for link, load in rows[flow]]
        random.shuffle(row)
        shuffled.append(tuple(row))
    other = [0.0] * len(capacity)
    for link, whole in enumerate(capacity):
        other[links[link]] = whole
    assert fair_rates(shuffled, [caps[flow] for flow in flows], other) == [rates[flow] for flow in flows]


@given(structures(6, 5), st.integers(1, 6), st.data())
@settings(max_examples=40)
def test_equal_flows_on_equal_links_fold_to_the_last_bit(structure, copies, data):
    """Each flow of a class loads ``k`` links of a link class: folded, one flow with k times the load."""
    rows, caps, capacity = structure
    folded, lifted = [], [[] for _ in range(len(rows) * copies)]
    for flow, row in enumerate(rows):
        entries = []
        for link, load in row:
            width = data.draw(st.integers(1, copies))
            turn = data.draw(st.integers(0, copies - 1))
            entries.append((link, load * width))
            for copy in range(copies):
                for step in range(width):
                    at = link * copies + (copy + step + turn) % copies
                    lifted[flow * copies + copy].append((at, load))
        folded.append(tuple(entries))
    rates = fair_rates(folded, caps, capacity)
    apart = fair_rates(lifted, np.repeat(caps, copies).tolist(), np.repeat(capacity, copies).tolist())
    assert apart == np.repeat(rates, copies).tolist()


@pytest.mark.parametrize("seed", range(12))
def test_large_random_structures_fold_and_shuffle_to_the_last_bit(seed):
    """Rates and loads with all their digits, where a sum in another order would show."""
    rng = np.random.default_rng(seed)
    num_flows, num_links, copies = 60, 40, 5
    rows = [
        [(int(link), int(rng.integers(1, 2**20)) * GRAIN) for link in rng.choice(num_links, 3, replace=False)]
        for _ in range(num_flows)
    ]
    caps = rng.uniform(1e8, 1e11, num_flows)
    capacity = rng.uniform(1e9, 1e11, num_links)
    folded, lifted = [], [[] for _ in range(num_flows * copies)]
    for flow, row in enumerate(rows):
        widths = rng.integers(1, copies + 1, len(row)).tolist()
        folded.append([(link, load * width) for (link, load), width in zip(row, widths, strict=True)])
        for copy in range(copies):
            lifted[flow * copies + copy] = [
                (link * copies + (copy + step) % copies, load)
                for (link, load), width in zip(row, widths, strict=True)
                for step in range(width)
            ]
    rates = fair_rates(folded, caps.tolist(), capacity.tolist())
    assert len(set(rates)) > 10
    order = rng.permutation(len(lifted))
    apart = np.empty(len(lifted))
    apart[order] = fair_rates(
        [lifted[flow] for flow in order],
        np.repeat(caps, copies)[order].tolist(),
        np.repeat(capacity, copies).tolist(),
    )
    assert apart.tolist() == np.repeat(rates, copies).tolist()


@given(structures(), structures())
@settings(max_examples=40)
def test_components_do_not_touch_each_other(one, other):
    rows, caps, capacity = one
    shift = len(capacity)
    moved = [tuple((link + shift, load) for link, load in row) for row in other[0]]
    together = fair_rates([*rows, *moved], [*caps, *other[1]], [*capacity, *other[2]])
    assert together == fair_rates(*one) + fair_rates(*other)


def test_a_link_without_capacity_stops_its_flows_only():
    rows = [((0, 1.0), (1, 1.0)), ((1, 1.0),)]
    assert fair_rates(rows, [math.inf, math.inf], [0.0, 8.0]) == [0.0, 8.0]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ([(0, 0.3)], "multiple"),
        ([(0, 0.0)], "positive"),
        ([(0, math.nan)], "positive"),
        ([(0, 2.0**33)], "below"),
        ([(-1, 1.0)], "negative"),
        ([(0, 1.0), (1, 1.0), (0, 1.0)], "names a link twice"),
    ],
)
def test_loads_whose_sums_would_not_be_exact_are_refused(row, fault):
    with pytest.raises(ValueError, match=fault):
        Vectors.of([[(0, 1.0)], row])


def test_loads_that_add_up_too_high_are_refused():
    rows = [[(0, 2.0**32)], [(0, 2.0**32)]]
    with pytest.raises(ValueError, match="2\\^33"):
        fair_rates(rows, [1.0, 1.0], [1.0])
