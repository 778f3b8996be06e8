"""What backwards compute again, in a phase of its own where a schedule has an action for it."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.model import Phase
from simcluster.plan.pipeline.action import parse
from simcluster.plan.recompute.layer_recompute import recompute
from simcluster.plan.recompute.recompute_phase import separate_recompute_phase
from tests.support import pass_graphs

AHEAD = parse("F0 R0 B0")


def test_copies_of_the_forward_go_into_their_phase_in_order():
    before = recompute(pass_graphs.sharded(), {"layers.0"})
    graph = separate_recompute_phase(before, [AHEAD])
    old, block = (one.block_of(one.instances[1]) for one in (before, graph))
    again = [node.name for node in block.phase(Phase.RECOMPUTE)]
    assert again == [f"{node.name}.recompute" for node in old.phase(Phase.FORWARD)]
    assert [node.name for node in block.nodes] == [node.name for node in old.nodes]
    read = {value for node in block.phase(Phase.RECOMPUTE) for value in node.inputs}
    assert read.isdisjoint(value for node in block.phase(Phase.BACKWARD) for value in node.outputs)
    assert graph.blocks["head"] == before.blocks["head"]


def test_without_such_an_action_nothing_changes():
    graph = recompute(pass_graphs.sharded(), {"layers.0"})
    assert separate_recompute_phase(graph, [parse("F0 B0")]) is graph


def test_a_stage_with_nothing_to_compute_again_is_refused():
    with pytest.raises(PlanError, match="R0 on stage 0 has nothing to do"):
        separate_recompute_phase(pass_graphs.sharded(), [AHEAD])
