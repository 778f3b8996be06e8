"""Closed forms of copies that go abreast: what they hide of collectives, and what stays."""

from __future__ import annotations

import pytest

from simcluster.engine import Workload, run
from simcluster.layout import Layout, Mesh, Movement, MovementKind
from simcluster.model import Block, Graph, Instance, Node, Phase, Role, Value
from simcluster.plan.overlap.micro_batch_interleave import interleave_micro_batches
from simcluster.plan.pipeline.schedule import parse
from simcluster.program import build, partition_ranks
from tests.support.pipelines import KIND, Burn, plan_of, quiet_cluster

AXIS = ("tensor",)


def alternating(kernel: int, pairs: int) -> Graph:
    """One block: a kernel of so many ns and the sum of its result over two ranks, so often, both ways."""
    values = {"f0": Value(KIND, Role.FEED, Layout.replicated(1))}
    nodes = []
    last = "f0"
    for phase, letter in ((Phase.FORWARD, "f"), (Phase.BACKWARD, "b")):
        role = Role.ACTIVATION if phase is Phase.FORWARD else Role.GRADIENT
        for number in range(pairs):
            part, whole = f"{letter}{number}.part", f"{letter}{number + 1}"
            values[part] = Value(KIND, role, Layout.replicated(1).with_partial(AXIS))
            values[whole] = Value(KIND, role, Layout.replicated(1))
            nodes.append(Node(part, Burn(kernel), (last,), (part,), phase))
            nodes.append(Node(whole, Movement(MovementKind.ALL_REDUCE, AXIS), (part,), (whole,), phase))
            last = whole
    block = Block("block", ("f0",), (), (), (), values, tuple(nodes))
    return Graph({"block": block}, (Instance("block", "block"),))


def end_of(kernel: int, pairs: int, text: str, gbps: float) -> int:
    """When a timetable is over (ns), with all-reduces of 16 bytes over links of so many GB/s."""
    mesh = Mesh.of({"pipeline": 1, "tensor": 2})
    program = build(plan_of(alternating(kernel, pairs), (parse(text),), mesh))
    cluster = quiet_cluster(2, bandwidth=f"{gbps} GB/s")
    return run(Workload(program, cluster, partition_ranks(program, cluster), steps=1)).end


COLLECTIVE = 1_600_000
GBPS = 16e-6 / 1.6
"""16 bytes in 1.6 ms."""


@pytest.mark.combinations
@pytest.mark.parametrize("pairs", [1, 3, 8])
@pytest.mark.parametrize("copies", [2, 3, 4])
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0, 1.5, 4.0])
def test_copies_take_the_larger_of_both_and_what_one_of_them_exposes(share, copies, pairs):
    """Copies follow each other by the longer of kernel and collective; and none comes back to a kernel before
    its own collective is over.
    """
    kernel = round(COLLECTIVE * share)
    one = "F0 B0"
    alone = end_of(kernel, pairs, one, GBPS)
    assert alone == pytest.approx(2 * pairs * (kernel + COLLECTIVE), rel=1e-5)
    (row,) = interleave_micro_batches(parse(one), copies)
    found = end_of(kernel, pairs, " ".join(map(str, row)), GBPS)
    scarce = max(kernel, COLLECTIVE)
    period = max(copies * scarce, kernel + COLLECTIVE)
    last = (copies - 1) * scarce + kernel + COLLECTIVE
    assert found == pytest.approx((2 * pairs - 1) * period + last, rel=1e-5)


@pytest.mark.parametrize("pairs", [1, 4])
def test_equal_kernels_and_collectives_of_two_copies_cost_one_collective_more_than_kernels_alone(pairs):
    kernels = 2 * 2 * pairs * COLLECTIVE
    assert end_of(COLLECTIVE, pairs, "F0&F1 B0&B1", GBPS) == pytest.approx(kernels + COLLECTIVE, rel=1e-5)
    # One behind the other hides what is between two actions, and no more.
    apart = end_of(COLLECTIVE, pairs, "F0 F1 B0 B1", GBPS)
    assert apart == pytest.approx(2 * kernels - 3 * COLLECTIVE, rel=1e-5)
