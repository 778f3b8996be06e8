from __future__ import annotations

import numpy as np
import pytest

from simcluster.cluster import Cluster, ClusterSpec
from simcluster.collectives import Operation, Selection, collective_time
from simcluster.document import validate_data
from simcluster.layout import Mesh, Movement, MovementKind
from simcluster.plan.redistribution.nominal_costs import movement_cost
from simcluster.work import DType, Kernel, Work

SIZE = 1 << 24


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    host = {"use": "dgx-h100", "devices": 3, "network": {"nics": 1}}
    return validate_data({"host": host, "hosts": 2}, ClusterSpec).build()


@pytest.mark.parametrize("kind", [kind for kind in MovementKind if Movement(kind, ()).is_collective])
def test_the_worst_group_of_an_axis_decides(cluster, kind):
    """Of the pairs (0, 1), (2, 3) and (4, 5) the middle one lies on two hosts of three devices."""
    mesh = Mesh.of({"data": 3, "tensor": 2})
    found = movement_cost(cluster, mesh)(Movement(kind, ("tensor",)), SIZE)
    inside, between = (
        collective_time(Operation(str(kind)), cluster.placement(np.array(pair)), SIZE, cluster).seconds
        for pair in ((0, 1), (2, 3))
    )
    assert inside < between
    assert found == between


def test_a_group_over_several_axes_is_one_collective(cluster):
    mesh = Mesh.of({"data": 3, "tensor": 2})
    found = movement_cost(cluster, mesh)(Movement(MovementKind.ALL_GATHER, ("data", "tensor")), SIZE)
    whole = collective_time(Operation.ALL_GATHER, cluster.placement(np.arange(6)), SIZE, cluster)
    assert found == whole.seconds


def test_a_slice_is_a_copy(cluster):
    found = movement_cost(cluster, Mesh.of({"data": 6}))(Movement(MovementKind.SLICE, ("data",)), SIZE)
    copy = Work(Kernel.COPY, DType.UINT8, flops=0, bytes_read=SIZE, bytes_written=SIZE)
    assert found == cluster.device(0).kernel_time(copy) > 0


@pytest.mark.parametrize("kind", ["ring", "tree"])
def test_a_named_algorithm_is_what_the_planner_counts_with(cluster, kind):
    mesh = Mesh.of({"data": 6})
    named = Selection.by("auto", {Operation.ALL_REDUCE: kind})
    cost = movement_cost(cluster, mesh, named)
    span = cluster.placement(np.arange(6))
    for size in (1 << 12, 1 << 30):
        whole = collective_time(Operation.ALL_REDUCE, span, size, cluster, kind)
        assert cost(Movement(MovementKind.ALL_REDUCE, ("data",)), size) == whole.seconds
        gather = collective_time(Operation.ALL_GATHER, span, size, cluster)
        assert cost(Movement(MovementKind.ALL_GATHER, ("data",)), size) == gather.seconds
