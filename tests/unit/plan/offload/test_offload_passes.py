"""Offload by category: what lies on the host, the copies around its use, and what else stays."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.model import MemoryPlace, Phase, Relocation
from simcluster.plan.offload.offload_passes import offload, place_offloaded_state
from simcluster.plan.rules.offload_rule import OffloadPlan, OffloadRule
from tests.support import pass_graphs
from tests.support.pass_graphs import MESH

STATES = {"moment1", "moment2"}


def to_host(category, **keys):
    return OffloadPlan({category: OffloadRule(MemoryPlace.HOST, **keys)})


def copies(block, *phases):
    """(value, place it is copied to) of the copies of some phases."""
    return [
        (node.inputs[0], block.values[node.outputs[0]].place)
        for node in block.phase(*phases)
        if isinstance(node.operator, Relocation)
    ]


def on_host(block):
    return {name for name, value in block.values.items() if value.place is MemoryPlace.HOST}


def test_parameters_are_copied_for_the_forward_and_for_the_backward():
    graph = place_offloaded_state(pass_graphs.optimized(), to_host("parameters"), MESH)
    block = graph.blocks["layer"]
    assert on_host(block) == set(block.parameters)
    for phase in (Phase.GATHER, Phase.REGATHER):
        assert {place for _, place in copies(block, phase)} == {MemoryPlace.DEVICE}
    assert {name for name, _ in copies(block, Phase.GATHER)} == set(block.parameters)
    computed = {value for node in block.phase(Phase.FORWARD, Phase.BACKWARD) for value in node.inputs}
    assert computed.isdisjoint(block.parameters)


def test_states_are_copied_around_the_update():
    before = pass_graphs.optimized()
    block = offload(before, to_host("optimizer_states"), MESH).blocks["layer"]
    assert {name.rpartition(".")[2] for name in on_host(block)} == STATES
    found = copies(block, Phase.END)
    assert len(found) == 2 * len(on_host(block))
    assert {name for name, place in found if place is MemoryPlace.DEVICE} == on_host(block)
    others = (Phase.FORWARD, Phase.BACKWARD)
    assert list(block.phase(*others)) == list(before.blocks["layer"].phase(*others))


def test_activations_go_out_and_come_back_ahead_of_the_backward():
    before = pass_graphs.optimized()
    block = offload(before, to_host("activations", match=("layers.*.mlp.up.*",)), MESH).blocks["layer"]
    out, back = copies(block, Phase.FORWARD), copies(block, Phase.FETCH)
    assert {name for name, _ in out} == {"mlp.up.out", "mlp.up.out1"}
    assert {place for _, place in out} == {MemoryPlace.HOST}
    assert {name for name, _ in back} == on_host(block)
    late = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
    assert late.isdisjoint({"mlp.up.out", "mlp.up.out1"})


def test_a_share_is_the_first_bytes_of_a_stage():
    graph = offload(pass_graphs.optimized(), to_host("optimizer_states", fraction=0.5), MESH)
    held = [bool(on_host(graph.block_of(each))) for each in graph.instances]
    assert held[0] and not held[-1]


def test_nothing_named_changes_nothing():
    graph = pass_graphs.optimized()
    assert place_offloaded_state(graph, OffloadPlan(), MESH) is graph
    assert offload(graph, OffloadPlan(), MESH) is graph


def test_a_pattern_that_fits_nothing_is_refused():
    with pytest.raises(PlanError, match="matches nothing of optimizer_states") as refused:
        offload(pass_graphs.optimized(), to_host("optimizer_states", match=("layers.*.heart",)), MESH)
    assert refused.value.problems[0].path == "parallel.offload.optimizer_states.match"
