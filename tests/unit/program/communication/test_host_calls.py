"""How often the host calls for collectives, and what of the calls each collective costs."""

from __future__ import annotations

import pytest

from simcluster.program import InstructionKind
from simcluster.program.communication import CollectiveCalls, HostCalls
from tests.support.instruction_blocks import block, instruction, program, run


def reduce(num_bytes, **more):
    return instruction(
        "reduce",
        stream="data",
        action=InstructionKind.COLLECTIVE,
        operation="all_reduce",
        group=("data",),
        num_bytes=num_bytes,
        **more,
    )


@pytest.mark.parametrize(("alike", "calls"), [(0, 0), (3, 3), (4, 1), (9, 3), (12, 3)])
def test_collectives_that_are_alike_are_called_in_groups_if_there_are_enough(alike, calls):
    assert HostCalls(reuse=4).count(alike) == calls
    assert HostCalls().count(alike) == alike


def test_a_part_calls_for_each_kind_of_its_collectives_and_not_for_those_inside_graphs():
    codes = [block("layer", [reduce(8), reduce(16), reduce(8, piece="f")])]
    which = program(codes, [run(0, micro_batch=number) for number in range(5)])
    calls = CollectiveCalls.of(which, HostCalls(seconds=1.0, reuse=4))
    assert calls.number(0) == (15, 2 + 2)
    small, large, inside = codes[0].instructions
    assert calls.seconds(codes[0], small) == calls.seconds(codes[0], large) == 2 / 5
    assert calls.seconds(codes[0], inside) == 0.0


def test_a_collective_of_two_parts_costs_its_share_where_that_is_largest():
    codes = [block("layer", [reduce(8)])]
    which = program(codes, [run(0)] * 4, [run(0)] * 2)
    assert CollectiveCalls.of(which, HostCalls(1.0, 4)).seconds(codes[0], codes[0].instructions[0]) == 1.0
