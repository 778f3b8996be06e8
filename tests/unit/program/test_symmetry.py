from __future__ import annotations

import numpy as np

from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.program import partition
from simcluster.simulation.build import prepare
from tests.pipelines import burning_program, quiet_cluster
from tests.scenarios import TINY, scenario


def test_sixteen_thousand_ranks_are_as_many_classes_as_stages():
    from simcluster.scenario import Scenario

    built = prepare(Scenario.load("scenarios/llama3-405b-16384-h100.yaml"))
    assert len(built.classes) == 16
    assert built.classes.sizes == (1024,) * 16
    assert built.classes.representatives == tuple(range(0, 16384, 1024))


def test_the_partition_is_equitable():
    """All ranks of a class meet the same classes in their groups and along the pipeline."""
    model = {**TINY, "heads": 6, "kv_heads": 3, "ffn": 96, "hidden": 48, "head_dim": 8}
    built = prepare(scenario({"pipeline": 2, "data": 8, "tensor": 3}, devices=4, model=model))
    classes, mesh = built.classes, built.plan.mesh
    assert 2 < len(classes) < 48
    for axes in built.program.groups:
        met = {}
        for members in mesh.groups(axes):
            seen = tuple(sorted(classes.of_rank[members].tolist()))
            span = built.cluster.span(members)
            for rank in members:
                assert met.setdefault(int(classes.of_rank[rank]), (seen, span)) == (seen, span)
    line = mesh.groups(("pipeline",))
    following = {}
    for first, second in line:
        known = following.setdefault(int(classes.of_rank[first]), int(classes.of_rank[second]))
        assert known == classes.of_rank[second]


def test_unfolded_classes_are_the_ranks():
    program = burning_program([1, 1, 1], [1, 1, 1], OneFOneB().timetable(3, 3))
    classes = partition(program, quiet_cluster(3), unfold=True)
    assert np.array_equal(classes.of_rank, np.arange(3))
    assert classes.next_stage[0][0] == 1
    assert classes.prev_stage[2][0] == 1
    assert 2 not in classes.next_stage
