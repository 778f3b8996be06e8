from __future__ import annotations

import re

import numpy as np
import pytest

from simcluster.cluster import Cluster
from simcluster.cluster.topology.link_changes import LinkChangeSpec
from simcluster.document import validate_data
from simcluster.errors import PlanError, ScenarioError
from tests.support.networks import SQUARE, cluster
from tests.support.routes import connected


def changed(*changes: dict, network: dict | None = None) -> Cluster:
    """The cluster with changes of its links, which a scenario may not write until the engine heeds them."""
    specs = [(index, validate_data(change, LinkChangeSpec)) for index, change in enumerate(changes)]
    return cluster(network or {"kind": "rail_optimised", "hosts_per_unit": 2}).with_links(specs)


def test_a_link_is_slower_for_a_while_and_carries_what_others_send():
    built = changed(
        {"link": "host.3.nic.*", "bandwidth": 0.5, "latency": "+2 us", "from": "2 s", "until": "5 s"},
        {"link": "unit.0.rail.1.up", "background": "10 GB/s"},
    )
    (change,), (others,) = built.link_changes, built.background
    assert [built.topology.name(link) for link in change.links[:2]] == [
        "host.3.nic.0.out",
        "host.3.nic.1.out",
    ]
    assert change.links.size == 16
    assert (change.rate, change.latency) == (0.5, 2e-6)
    assert (change.begin_ns, change.end_ns) == (2 * 10**9, 5 * 10**9)
    assert (others.rate, others.begin_ns, others.end_ns) == (10e9, 0, None)
    assert [built.topology.name(link) for link in others.links] == ["unit.0.rail.1.up"]


def test_without_changes_there_are_none():
    built = changed()
    assert built.link_changes == built.background == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"link": "host.0.nic.9.out", "bandwidth": 0.5}, r"no link is called 'host\.0\.nic\.9\.out'"),
        ({"link": "host.*.nic.*.up", "bandwidth": 0.5}, r"did you mean 'host\.\*\.nic\.\*\.out'"),
        ({"link": "host.0.nic.0.out", "bandwidth": 0}, "no way around 'host.0.nic.0.out'"),
    ],
)
def test_a_pattern_without_links_and_a_link_without_another_way(change, words):
    with pytest.raises(PlanError) as error:
        changed({"link": "*", "latency": "1 us"}, change)
    (problem,) = error.value.problems
    assert problem.path.startswith("cluster.changes.1.")
    text = f"{problem.message} {problem.hint}"
    assert re.search(words, text), text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"link": "a"}, "this changes nothing"),
        ({"link": "a", "bandwidth": 0.5, "background": "1 GB/s"}, "an entry of its own"),
        ({"link": "a", "bandwidth": 0, "from": "1 s"}, "lost for the whole run or not at all"),
        ({"link": "a", "bandwidth": 0.5, "from": "2 s", "until": "2 s"}, "over before it begins"),
        ({"link": "a", "bandwidth": -1}, "-1 is too small"),
    ],
)
def test_a_change_that_is_wrongly_written(change, words):
    with pytest.raises(ScenarioError, match=words):
        validate_data(change, LinkChangeSpec)


def test_a_graph_leads_around_a_lost_link_as_long_as_there_is_a_way():
    lost = {"link": "{a.b,b.a}", "bandwidth": 0}
    topology = changed(lost, network=SQUARE).topology
    src, dst = np.repeat(np.arange(16), 16), np.tile(np.arange(16, 32), 16)
    used = connected(topology, src, dst).links
    assert {topology.name(link) for link in used[:, 2].tolist()} == {"a.c"}
    with pytest.raises(PlanError, match="together some ranks cannot reach"):
        changed(lost, {"link": "c.d", "bandwidth": 0}, network=SQUARE)
