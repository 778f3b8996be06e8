"""Flows in time against closed forms. A load of 1 and 1 GB/s: a byte takes a nanosecond."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simcluster.engine.communication import Background, CapacityChange, FlowPhase, Links, Transfer, Vectors
from tests.support.flows import ends, network

GB = 1e9
ONE = Vectors.of([[(0, 1.0)]])


def bytes_of(vector, num_bytes, *, cap=math.inf, latency=0):
    return Transfer(latency, (FlowPhase(vector, num_bytes, cap),))


def test_alone_it_is_latency_then_phases_and_no_solve():
    env, net = network([[(0, 1.0), (1, 0.5)], [(1, 1.0)]], [2 * GB, GB])
    transfer = Transfer(70, (FlowPhase(0, 1000.0, math.inf), FlowPhase(1, 300.0, 0.5 * GB)))
    assert ends(env, net, [(5, transfer)]) == [5 + 70 + 500 + 600]
    assert (net.num_flows, net.num_solves) == (2, 0)


def test_two_that_share_a_link_take_twice_as_long():
    env, net = network([[(0, 1.0)], [(0, 1.0), (1, 1.0)]], [GB, 5 * GB])
    assert ends(env, net, [(0, bytes_of(0, 1000)), (0, bytes_of(1, 1000))]) == [2000, 2000]
    assert (net.num_flows, net.num_solves) == (2, 1)


def test_the_longer_one_is_alone_at_its_end():
    env, net = network([[(0, 1.0)]], [GB])
    # Half each until 600 are through: 1200 ns; then the other's last 400 at full rate.
    assert ends(env, net, [(0, bytes_of(0, 600)), (0, bytes_of(0, 1000))]) == [1200, 1600]
    assert (net.num_flows, net.num_solves) == (2, 1)


def test_a_third_that_starts_midway():
    env, net = network([[(0, 1.0)]], [GB])
    # 0-600: halves (300 each), 600-: thirds; all of the third's 200 by 1200 (500 each), then halves again.
    transfers = [(0, bytes_of(0, 1000)), (0, bytes_of(0, 1000)), (600, bytes_of(0, 200))]
    assert ends(env, net, transfers) == [2200, 2200, 1200]
    assert (net.num_flows, net.num_solves) == (3, 3)


def test_a_flow_that_ran_alone_is_slowed_by_a_later_one():
    env, net = network([[(0, 1.0)]], [GB])
    assert ends(env, net, [(0, bytes_of(0, 1000)), (400, bytes_of(0, 100))]) == [1100, 600]
    assert (net.num_flows, net.num_solves) == (2, 1)


def test_a_start_at_the_very_end_of_another_disturbs_neither():
    env, net = network([[(0, 1.0)]], [GB])
    assert ends(env, net, [(1000, bytes_of(0, 500)), (0, bytes_of(0, 1000))]) == [1500, 1000]
    assert net.num_solves == 0


def test_what_a_cap_leaves_goes_to_the_others():
    env, net = network([[(0, 1.0)]], [GB])
    assert ends(env, net, [(0, bytes_of(0, 100, cap=0.1 * GB)), (0, bytes_of(0, 900))]) == [1000, 1000]


def test_a_folded_flow_counts_as_many():
    env, net = network([[(0, 3.0)], [(0, 1.0)]], [GB])
    assert ends(env, net, [(0, bytes_of(0, 500)), (0, bytes_of(1, 500))]) == [2000, 2000]


def test_a_link_at_half_capacity_for_a_while():
    changes = (CapacityChange(200, 0, GB / 2), CapacityChange(700, 0, GB))
    env, net = network([[(0, 1.0)]], [GB], changes=changes)
    # 200 bytes, then 250 in 500 ns, then 550: alone throughout, so nothing is solved.
    assert ends(env, net, [(0, bytes_of(0, 1000))]) == [1250]
    assert net.num_solves == 0


def test_a_link_that_gets_faster_ends_a_flow_sooner():
    env, net = network([[(0, 1.0)]], [GB], changes=(CapacityChange(500, 0, 5 * GB),))
    assert ends(env, net, [(0, bytes_of(0, 1000)), (650, bytes_of(0, 100))]) == [600, 670]


def test_a_link_that_is_down_for_a_while_holds_its_flows():
    changes = (CapacityChange(0, 0, 0.0), CapacityChange(300, 0, GB))
    env, net = network([[(0, 1.0)]], [GB], changes=changes)
    assert ends(env, net, [(0, bytes_of(0, 100)), (100, bytes_of(0, 100))]) == [500, 500]


def test_a_link_that_stays_down_never_ends():
    env, net = network([[(0, 1.0)]], [0.0])
    assert ends(env, net, [(0, bytes_of(0, 100))]) == [-1]


def test_background_traffic_takes_its_share_but_no_more_than_it_wants():
    background = (Background(0, 0.25 * GB, 100, 500), Background(0, 9 * GB, 1000))
    env, net = network([[(0, 1.0)]], [GB], background=background)
    # 100 + 400 x 0.75 + 500 = 900 by 1000; then halves.
    assert ends(env, net, [(0, bytes_of(0, 1000))]) == [1200]


def test_a_transfer_of_nothing_takes_a_nanosecond():
    env, net = network([[(0, 1.0)]], [GB])
    nothing = Transfer(0, ())
    assert ends(env, net, [(3, nothing), (0, bytes_of(0, 0.0)), (0, bytes_of(0, 0.0))]) == [4, 1, 1]


def test_an_untouched_flow_keeps_its_end_to_the_nanosecond():
    """Its rate is limited elsewhere: neighbours that come and go leave no rounding behind."""
    rows = [[(0, 1.0), (1, 1.0)], [(1, 1.0)]]
    alone = ends(*network(rows, [GB / 3, 7 * GB]), [(0, bytes_of(0, 1e6 + 1))])
    others = [(each * 997, bytes_of(1, 777)) for each in range(100)]
    env, net = network(rows, [GB / 3, 7 * GB])
    assert ends(env, net, [(0, bytes_of(0, 1e6 + 1)), *others])[:1] == alone
    assert net.num_solves == 100


@st.composite
def traffic(draw):
    num_links = draw(st.integers(1, 4))
    row = st.dictionaries(st.integers(0, num_links - 1), st.sampled_from([1.0, 0.5, 0.125, 3.0]), min_size=1)
    rows = [list(found.items()) for found in draw(st.lists(row, min_size=1, max_size=4))]
    capacity = draw(st.lists(st.sampled_from([GB, 3 * GB, 0.7 * GB]), min_size=num_links, max_size=num_links))
    phase = st.builds(
        FlowPhase,
        st.integers(0, len(rows) - 1),
        st.integers(1, 3000).map(float),
        st.sampled_from([math.inf, GB / 7]),
    )
    one = st.tuples(
        st.integers(0, 2000),
        st.builds(Transfer, st.sampled_from([0, 100]), st.lists(phase, max_size=3).map(tuple)),
    )
    return rows, capacity, draw(st.lists(one, min_size=1, max_size=6))


SHORT = Transfer(0, (FlowPhase(0, 1.0, math.inf), FlowPhase(0, 1.0, math.inf)))


@given(traffic(), st.integers(2, 4))
@example(([[(0, 1.0)]], [3 * GB], [(0, SHORT)]), 2)  # a third of a nanosecond alone, two thirds for two
@settings(max_examples=40)
def test_folded_and_unfolded_networks_end_in_the_same_nanosecond(found, copies):
    rows, capacity, transfers = found
    folded = [[(link, load * copies) for link, load in row] for row in rows]
    lifted = [[(link * copies + c, load) for link, load in row for c in range(copies)] for row in rows]
    one = ends(*network(folded, capacity), transfers)
    many = ends(
        *network(lifted, np.repeat(capacity, copies)), [each for each in transfers for _ in range(copies)]
    )
    assert many == np.repeat(one, copies).tolist()


@given(traffic())
@settings(max_examples=40)
def test_the_order_in_which_transfers_are_given_does_not_matter(found):
    rows, capacity, transfers = found
    forward = ends(*network(rows, capacity), transfers)
    assert ends(*network(rows, capacity), transfers[::-1])[::-1] == forward


@pytest.mark.parametrize(
    ("faulty", "fault"),
    [
        ({"capacity": np.array([math.inf])}, "capacity"),
        ({"capacity": np.array([-1.0])}, "capacity"),
        ({"capacity": np.zeros(0)}, "link 0 of 0"),
        ({"changes": (CapacityChange(0, 1, 1.0),)}, "change"),
        ({"background": (Background(1, 1.0),)}, "background"),
        ({"background": (Background(0, 1.0, 5, 5),)}, "background"),
    ],
)
def test_links_that_do_not_fit_together_are_refused(faulty, fault):
    with pytest.raises(ValueError, match=fault):
        Links(**{"capacity": np.ones(1), "vectors": ONE, **faulty})
