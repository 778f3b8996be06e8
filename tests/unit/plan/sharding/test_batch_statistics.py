"""Batch statistics that are not synchronised are those of each data-parallel rank's samples."""

from __future__ import annotations

from simcluster.model.attributes import StatisticsGroups
from simcluster.model.operators.batch_norm import BatchNorm
from simcluster.plan.sharding.batch_statistics import group_batch_statistics
from tests.support.plan_graphs import Writer, chain


def normed(group=8):
    write = Writer()
    x = write.input("x", 8, 4, 2, 2)
    scale, shift = write.parameter("scale", 4), write.parameter("shift", 4)
    write.add("y", BatchNorm(StatisticsGroups(8, group)), x, scale, shift)
    return chain(write.block("y"))


def test_statistics_are_of_as_many_groups_as_there_are_ways():
    graph = normed()
    (before,), (block,) = (one.blocks.values() for one in (graph, group_batch_statistics(graph, 4)))
    assert [one.node("y").operator.statistics.group for one in (before, block)] == [8, 2]
    assert {name for name, value in block.values.items() if value != before.values[name]} == {"y.1", "y.2"}
    for name in ("y.1", "y.2"):
        assert [one.values[name].type.shape for one in (before, block)] == [(1, 4), (4, 4)]


def test_synchronised_statistics_and_one_way_change_nothing():
    assert group_batch_statistics(normed(group=0), 4).blocks == normed(group=0).blocks
    graph = normed()
    assert group_batch_statistics(graph, 1) is graph
