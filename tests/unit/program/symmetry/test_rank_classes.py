from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.engine import Workload, run
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.program import LinkLoading, partition_ranks, pipeline_pairs
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.views.run_documents import planned_documents
from tests.support.coloured_structures import rows
from tests.support.pipelines import burning_program, quiet_cluster
from tests.support.scenarios import TINY, scenario


def test_sixteen_thousand_ranks_are_as_many_classes_as_stages():
    from simcluster.scenario import Scenario

    built = build_scenario(Scenario.load("scenarios/llama3-405b-16384-h100.yaml"))
    assert len(built.classes) == 16
    assert built.classes.sizes == (1024,) * 16
    assert built.classes.representatives == tuple(range(0, 16384, 1024))


def test_the_partition_is_equitable():
    """All ranks of a class meet the same classes in their groups and along the pipeline."""
    model = {**TINY, "heads": 6, "kv_heads": 3, "ffn": 96, "hidden": 48, "head_dim": 8}
    built = build_scenario(scenario({"pipeline": 2, "data": 8, "tensor": 3}, devices=4, model=model))
    classes, mesh = built.classes, built.plan.mesh
    assert 2 < len(classes) < 48
    for axes in built.program.groups:
        met = {}
        for members in mesh.groups(axes):
            seen = tuple(sorted(classes.of_rank[members].tolist()))
            where = built.cluster.placement(members)
            span = (where.num_hosts, where.ranks_per_host, where.fewest_per_host, where.rails)
            for rank in members:
                assert met.setdefault(int(classes.of_rank[rank]), (seen, span)) == (seen, span)
    line = mesh.groups(("pipeline",))
    following = {}
    for first, second in line:
        known = following.setdefault(int(classes.of_rank[first]), int(classes.of_rank[second]))
        assert known == classes.of_rank[second]


def test_unfolded_classes_are_the_ranks():
    program = burning_program([1, 1, 1], [1, 1, 1], OneFOneB().timetable(3, 3))
    classes = partition_ranks(program, quiet_cluster(3), unfold=True)
    assert np.array_equal(classes.of_rank, np.arange(3))
    assert classes.next_stage[0][0] == 1
    assert classes.prev_stage[2][0] == 1
    assert 2 not in classes.next_stage


PER_HOST = 4


def loading(built, slow=None):
    """Rings on hosts with one card: link h out of host h, then a link into it, then one of each device.

    A group within a host loads its devices' links, any other the cards of all its hosts.
    """
    hosts, devices = built.cluster.num_hosts, built.cluster.num_devices

    def group(members):
        on = sorted({rank // PER_HOST for rank in members})
        if len(on) == 1:
            return {2 * hosts + rank: 1 << 20 for rank in members}
        return {link: 1 << 20 for host in on for link in (host, hosts + host)}

    def send(src, dst):
        there, here = dst // PER_HOST, src // PER_HOST
        return [2 * hosts + src] if there == here else [here, hosts + there]

    mesh = built.program.mesh
    pairs = pipeline_pairs(mesh, built.program.stage_axis).tolist()
    links = np.repeat([0, 1, 2], [hosts, hosts, devices])
    if slow is not None:
        links[slow] = 3
    return LinkLoading(
        links,
        {axes: (rows(*map(group, mesh.groups(axes).tolist())),) for axes in built.program.groups},
        (rows(*(send(a, b) for a, b in pairs)), rows(*(send(b, a) for a, b in pairs))),
        {} if slow is None else {slow: f"link.{slow}: bandwidth x 0.5"},
    )


@pytest.fixture(scope="module")
def pods():
    """Two stages of three replicas of a tensor group of four, which is a host."""
    return build_scenario(
        scenario(
            {"pipeline": 2, "data": 3, "tensor": 4}, devices=PER_HOST, recipe="megatron", micro_batches=2
        )
    )


def test_links_that_are_as_their_family_split_nothing(pods):
    classes = partition_ranks(pods.program, pods.cluster, loading=loading(pods))
    assert np.array_equal(classes.of_rank, pods.classes.of_rank)
    assert classes.groups.keys() == pods.classes.groups.keys()
    # Hosts of one stage send, those of the other receive: four kinds of card links, two of device links.
    assert len(classes.flows.links) == 6
    data = classes.groups[0, ("data",)]
    assert (data.count, classes.groups[0, ("tensor",)].count) == (4, 3)
    assert classes.flows.groups["data",][0].row(data.flow) == {0: 4 << 20, 2: 4 << 20}
    assert classes.flows.num_pairs == (12,)
    assert classes.flows.transfers[0].row(classes.flows.pairs[0]) == {0: 4, 3: 4}
    assert classes.flows.transfers[1].row(classes.flows.pairs[0]) == {1: 4, 2: 4}
    without = partition_ranks(pods.program, pods.cluster)
    assert np.array_equal(without.of_rank, classes.of_rank)
    assert without.flows.groups["data",] == () and len(without.flows.links) == 0


def test_a_slow_card_splits_off_its_host_and_says_so(pods):
    """The card into host 4, of the second stage: who is there, who sends there, and all the others."""
    slow = loading(pods, slow=6 + 4)
    classes = partition_ranks(pods.program, pods.cluster, loading=slow)
    built = replace(pods, classes=classes)
    found = {each["members"]: each for each in planned_documents(built)["classes"]}
    assert {ranks: each.get("changed") for ranks, each in found.items()} == {
        "0..3, 8..11": "meets class 1 over data",
        "4..7": "its link link.10: bandwidth x 0.5",
        "12..15, 20..23": "its link link.10: bandwidth x 0.5",
        "16..19": "its link link.10: bandwidth x 0.5",
    }
    unchanged = planned_documents(
        replace(pods, classes=partition_ranks(pods.program, pods.cluster, loading=loading(pods)))
    )
    assert not any("changed" in each for each in unchanged["classes"])


def test_what_links_split_takes_the_same_time(pods):
    """As long as the engine charges no links, more classes are the same classes, only more often."""
    folded = run(Workload(pods.program, pods.cluster, pods.classes))
    split = partition_ranks(pods.program, pods.cluster, loading=loading(pods, slow=3))
    assert len(pods.classes) < len(split)
    finer = run(Workload(pods.program, pods.cluster, split))
    assert finer.end == folded.end
    for rank, index in zip(split.representatives, range(len(split)), strict=True):
        mine, theirs = finer.classes[index], folded.classes[int(pods.classes.of_rank[rank])]
        for one, other in zip(mine.starts, theirs.starts, strict=True):
            assert np.array_equal(one, other)


def test_unfolded_links_and_groups_are_themselves(pods):
    given = loading(pods)
    classes = partition_ranks(pods.program, pods.cluster, unfold=True, loading=given)
    assert len(classes) == 24
    assert len(classes.flows.links) == 6 + 6 + 24
    members = pods.program.mesh.groups(("data",))
    for index, ranks in enumerate(members.tolist()):
        group = classes.groups[ranks[0], ("data",)]
        assert (group.flow, group.count, group.members) == (index, 1, tuple(ranks))
        flow, whole = classes.flows.groups["data",][0], given.groups["data",][0]
        assert {int(classes.flows.links.first[link]): load for link, load in flow.row(index).items()} == (
            whole.row(index)
        )
