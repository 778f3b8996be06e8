"""What classes run is priced and linked once for all of them that are alike, and is what each costs alone."""

from __future__ import annotations

import numpy as np

from simcluster.engine import Workload
from simcluster.engine.linking import link
from simcluster.engine.priced_program import PricedPrograms
from simcluster.simulation.compose.build import build_scenario
from tests.support.scenarios import scenario

SLOW = 5


def programs(steps=2):
    which = scenario(
        {"pipeline": 2, "data": 2, "tensor": 2},
        recipe="megatron_sp",
        changes=[{"device": SLOW, "compute": 0.5}],
    )
    built = build_scenario(which, unfold=True)
    work = Workload(built.program, built.cluster, built.classes, steps)
    priced = PricedPrograms(work.prices(), steps)
    return built, work, [priced.of(index) for index in range(len(built.classes))]


def test_classes_share_what_costs_the_same():
    built, _, priced = programs()
    assert len(priced) == built.program.mesh.num_ranks == 8
    for first in (0, 4):
        stage = priced[first : first + 4]
        equal = [one for index, one in enumerate(stage, first) if index != SLOW]
        assert all(one is equal[0] for one in equal)
        assert all(one.linked.bases is equal[0].linked.bases for one in stage)
    slow, nominal = priced[SLOW], priced[4]
    assert slow is not nominal
    assert sum(slow.durations) > sum(nominal.durations)
    assert slow.kinds(built.program, 1) is nominal.kinds(built.program, 1)


def test_each_is_what_it_is_alone():
    built, work, priced = programs()
    for index, one in enumerate(priced):
        part = built.program.part_of(index)
        codes = work.prices().timed(index, sorted({run.code for run in built.program.parts[part].executions}))
        alone = link(built.program, part, codes, 2)
        assert one.codes.keys() == codes.keys()
        assert np.array_equal(one.linked.bases, alone.bases)
        for shared, own in zip(one.linked.streams, alone.streams, strict=True):
            assert shared.name == own.name
            for column in ("wait_stream", "wait_position", "duration", "meeting", "execution"):
                assert np.array_equal(getattr(shared, column), getattr(own, column))
        for code, timed in codes.items():
            for column in ("duration", "host", "memory", "offset"):
                assert np.array_equal(getattr(one.codes[code], column), getattr(timed, column))
