"""What all ranks run, send and call for in a step: two stages of two ranks, of which one does it thrice."""

from __future__ import annotations

from simcluster.program import InstructionKind, partition_ranks
from simcluster.program.communication import HostCalls
from simcluster.program.placed import PlacedProgram, call_counts, sent_bytes
from tests.support.instruction_blocks import block, instruction, program, run
from tests.support.pipelines import quiet_cluster


def collective(operation, num_bytes):
    more = {"stream": "data", "action": InstructionKind.COLLECTIVE, "group": ("data",)}
    return instruction(operation, operation=operation, num_bytes=num_bytes, **more)


def test_sums_over_ranks():
    codes = [block("layer", [collective("all_reduce", 8), collective("all_gather", 64)])]
    thrice = [run(0, micro_batch=number) for number in range(3)]
    which = program(codes, thrice, [run(0)], axes={"pipeline": 2, "data": 2})
    cluster = quiet_cluster(4)
    placed = PlacedProgram(which, partition_ranks(which, cluster), cluster, 2)
    assert list(placed.executions(5)) == [(codes[0], 2 * 3 * 5), (codes[0], 2 * 5)]
    # In a ring of two a rank sends 2 x 8 / 2 bytes, and 64 / 2; ranks do so twice in the mean.
    assert sent_bytes(placed, 5) == {"data": {"all_gather": 2 * 32, "all_reduce": 2 * 8}}
    assert call_counts(placed, HostCalls()) == {"collectives": 2 * 2, "collective_calls": 2 * 2}
