"""Operators on the host: where they and what they alone use lie, and the copies in between."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.model import MemoryPlace, Relocation
from simcluster.plan.offload.host_operators import place_on_hosts
from tests.support import pass_graphs

HOST, DEVICE = MemoryPlace.HOST, MemoryPlace.DEVICE


def test_an_operator_its_gradient_and_what_only_they_use_are_there():
    graph = place_on_hosts(pass_graphs.differentiated(), ["embedding.tokens"])
    block = graph.block_of(graph.instances[0])
    placed = {node.name: node.place for node in block.nodes if not isinstance(node.operator, Relocation)}
    assert {name for name, place in placed.items() if place is HOST} == {
        "tokens",
        "tokens.wgrad",
    }
    assert {block.values[name].place for name in ("tokens.weight", block.gradients["tokens.weight"])} == {
        HOST
    }


def test_what_others_read_is_copied():
    graph = place_on_hosts(pass_graphs.differentiated(), ["embedding.tokens"])
    block = graph.block_of(graph.instances[0])
    crossing = [
        (block.values[node.inputs[0]].place, block.values[node.outputs[0]].place)
        for node in block.nodes
        if isinstance(node.operator, Relocation)
    ]
    assert crossing == [(HOST, DEVICE), (DEVICE, HOST)]
    assert block.values["out"].place is DEVICE


def test_an_update_there_keeps_states_there():
    graph = place_on_hosts(pass_graphs.optimized(), ["layers.*.mlp.*.update"])
    block = graph.blocks["layer"]
    states = {name: block.values[name].place for name in block.values if name.endswith("moment1")}
    assert {name for name, place in states.items() if place is HOST} == {
        name for name in states if name.startswith("mlp.")
    }


def test_other_blocks_stay():
    before = pass_graphs.differentiated()
    graph = place_on_hosts(before, ["embedding.tokens"])
    assert graph.blocks["layer"] == before.blocks["layer"]
    assert place_on_hosts(before, []) is before


def test_a_pattern_that_fits_none_is_refused():
    with pytest.raises(PlanError, match=r"'embedding\.heart' matches no operator"):
        place_on_hosts(pass_graphs.differentiated(), ["embedding.heart"])
