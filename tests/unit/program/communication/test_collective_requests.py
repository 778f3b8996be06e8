"""What a scenario's overrides ask of the collectives of a Program, by their names."""

from __future__ import annotations

import pytest

from simcluster.collectives import CollectiveRequest, Selection
from simcluster.collectives.cost.algorithm_selection import Override
from simcluster.errors import PlanError
from simcluster.program import InstructionKind
from simcluster.program.communication import CollectiveRequests
from tests.support.instruction_blocks import block, instruction, program, run, slot


def layers(*instances):
    more = {"operation": "all_reduce", "group": ("tensor",)}
    codes = [
        block(
            "layer", [instruction("sum", [0], [0], "tensor", InstructionKind.COLLECTIVE, **more)], [slot("x")]
        )
        for _ in range(2)
    ]
    return program(codes, [run(place % 2, name) for place, name in enumerate(instances)])


def requested(which, *overrides):
    requests = CollectiveRequests(which, Selection((), tuple(overrides)))
    return [requests.of(code.instructions[0]).algorithm for code in which.codes]


def test_an_override_is_for_the_collectives_that_its_pattern_fits():
    tree = Override("layers.1.*", CollectiveRequest("tree"))
    assert requested(layers("layers.0", "layers.1"), tree) == ["auto", "tree"]


def test_collectives_that_run_the_same_code_have_one_algorithm():
    tree = Override("layers.2.*", CollectiveRequest("tree"))
    with pytest.raises(PlanError, match="run the same code, but only one of them is overridden"):
        requested(layers("layers.0", "layers.1", "layers.2"), tree)


def test_an_override_of_nothing_is_refused_with_the_nearest_name():
    with pytest.raises(PlanError, match=r"no collective has a name that fits 'layer\.0\.sum'"):
        requested(layers("layers.0", "layers.1"), Override("layer.0.sum", CollectiveRequest("tree")))
