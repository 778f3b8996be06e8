"""What classes run is priced and linked once for all of them that are alike, and is what each costs alone."""

from __future__ import annotations

import pytest

from simcluster.engine import Prices, Workload
from simcluster.engine.pricing.priced_classes import PricedClasses
from simcluster.simulation.compose.build import build_scenario
from tests.support.implementations import many_from
from tests.support.scenarios import scenario

SLOW = 5


def priced(steps=2):
    which = scenario(
        {"pipeline": 2, "data": 2, "tensor": 2},
        recipe="megatron_sp",
        changes=[{"device": SLOW, "compute": 0.5}],
    )
    built = build_scenario(which, unfold=True)
    return built, PricedClasses(Workload(built.program, built.cluster, built.classes, steps))


def test_classes_share_what_costs_the_same():
    built, classes = priced()
    assert len(classes.place_of) == built.program.mesh.num_ranks == 8
    of_class = [classes.groups[classes.place_of[index][0]] for index in range(8)]
    for first in (0, 4):
        stage = of_class[first : first + 4]
        equal = [group for index, group in enumerate(stage, first) if index != SLOW]
        assert all(group is equal[0] for group in equal)
        assert all(group.part is equal[0].part for group in stage)
    slow, nominal = of_class[SLOW], of_class[4]
    assert slow is not nominal
    assert slow.kernels()[0].sum() > nominal.kernels()[0].sum()


@pytest.mark.parametrize("many", [1, 8])
def test_each_costs_what_it_costs_alone(many):
    with many_from(many):
        built, classes = priced()
    prices = Prices(classes.workload)
    for index, (number, column) in enumerate(classes.place_of):
        group = classes.groups[number]
        part = built.program.parts[built.program.part_of(index)]
        assert sorted(group.codes) == sorted({run.code for run in part.executions})
        for code, priced_code in group.codes.items():
            rows = prices.of_class(index, built.program.codes[code])
            columns = (priced_code.duration, priced_code.host, priced_code.memory)
            for own, expected in zip(columns, zip(*rows, strict=True), strict=True):
                assert own[:, column % own.shape[1]].tolist() == list(expected)
