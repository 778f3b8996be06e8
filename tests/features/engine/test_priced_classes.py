"""What classes run is priced and linked once for all of them that are alike, and is what each costs alone."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.engine import Workload
from simcluster.engine.linking.part_linker import link_part
from simcluster.engine.pricing.priced_classes import PricedClasses
from simcluster.program import COMPUTE
from simcluster.simulation.compose.build import build_scenario
from tests.support.implementations import many_from
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
    classes = PricedClasses(work)
    places = [classes.place_of[index] for index in range(len(built.classes))]
    return built, work, [classes.groups[number].program(column) for number, column in places]


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
    assert slow.linked.streams[0].name == COMPUTE
    assert slow.linked.streams[0].duration.sum() > nominal.linked.streams[0].duration.sum()
    assert slow.part is nominal.part


@pytest.mark.parametrize("many", [1, 8])
def test_each_is_what_it_is_alone(many):
    with many_from(many):
        built, work, priced = programs()
    for index, one in enumerate(priced):
        part = built.program.part_of(index)
        prices, used = work.prices(), sorted({run.code for run in built.program.parts[part].executions})
        codes = {
            code: prices.with_prices(code, prices.of_code(index, built.program.codes[code])) for code in used
        }
        alone = link_part(built.program, part, codes, 2).timed(codes)
        assert one.codes.keys() == codes.keys()
        assert np.array_equal(one.linked.bases, alone.bases)
        for shared, own in zip(one.linked.streams, alone.streams, strict=True):
            assert shared.name == own.name
            for column in ("wait_stream", "wait_position", "duration", "meeting", "execution"):
                assert np.array_equal(getattr(shared, column), getattr(own, column))
        for code, timed in codes.items():
            for column in ("duration", "host", "memory", "offset"):
                assert np.array_equal(getattr(one.codes[code], column), getattr(timed, column))
