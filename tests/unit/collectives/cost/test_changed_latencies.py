"""Latencies that a scenario writes move the steps of collectives: a ring of n ranks has 2 (n - 1) of them."""

from __future__ import annotations

from typing import Any

import pytest

from simcluster.cluster import ClusterSpec
from simcluster.collectives import Operation, collective_time
from simcluster.document import validate_data

BETWEEN, INSIDE = [0, 8], list(range(8))
LEAVES = {"kind": "leaf_spine", "hosts_per_leaf": 1}


def waits(ranks: list[int], joined: dict[str, Any] | None = None, **changes: Any) -> float:
    """What a ring of few bytes waits for [s] on two DGX H100, some keys of them or the network changed."""
    network = {"network": joined} if joined else {}
    data = {"host": {"use": "dgx-h100", **changes}, "hosts": 2, **network}
    cluster = validate_data(data, ClusterSpec).build()
    return collective_time(Operation.ALL_REDUCE, cluster.placement(ranks), 8.0, cluster, "ring").latency


def cables(*latencies: str) -> dict[str, Any]:
    """A network in which so many cables lie between two hosts, one behind the other."""
    switches = [f"s{i}" for i in range(len(latencies) + 1)]
    links = [
        {"between": list(ends), "bandwidth": "400 GB/s", "latency": latency}
        for *ends, latency in zip(switches, switches[1:], latencies, strict=False)
    ]
    attach = [{"hosts": 0, "switch": switches[0]}, {"hosts": 1, "switch": switches[-1]}]
    return {"kind": "custom", "switches": switches, "attach": attach, "links": links}


@pytest.mark.parametrize(
    ("ranks", "usual", "changes", "seconds"),
    [
        (BETWEEN, {}, {"network": {"latency": "102.7 us"}}, 2 * 100e-6),
        (INSIDE, {}, {"network": {"latency": "102.7 us"}}, 0.0),
        (INSIDE, {}, {"fabric": {"latency": "100.6 us"}}, 14 * 100e-6),
        # From a leaf over a spine to the other leaf: two switches behind the first.
        (
            BETWEEN,
            {"joined": LEAVES},
            {"joined": LEAVES, "network": {"switch_latency": "10.2 us"}},
            2 * 2 * 10e-6,
        ),
        (
            BETWEEN,
            {"joined": cables("0 s", "0 s")},
            {"joined": cables("1 ms", "2 ms")},
            2 * 3e-3,
        ),
        (INSIDE, {}, {"joined": cables("1 ms")}, 0.0),
    ],
)
def test_steps_wait_for_what_latencies_were_changed_by(ranks, usual, changes, seconds):
    assert waits(ranks, **changes) - waits(ranks, **usual) == pytest.approx(seconds, abs=1e-12)


def test_steps_that_a_scenario_writes_itself_stay_as_they_are():
    simple = {"base": "1 us", "host_hop": "3 us", "network_hop": "5 us", "host_share": 1, "network_share": 1}
    own = {"collectives": {"default": {"simple": simple, "ll": None, "ll128": None}}}
    assert waits(BETWEEN, **own, network={"latency": "1 ms"}) == pytest.approx(waits(BETWEEN, **own))
