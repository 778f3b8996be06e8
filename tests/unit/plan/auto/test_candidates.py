"""The strategies that an operator could have."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.layout import Mesh, Strategy
from simcluster.plan.auto.candidates import CandidateRules, SearchMesh, candidate_strategies, leaves_mesh_free
from simcluster.plan.auto.operator_graph import OperatorGraph
from tests.support.searches import costs_of, free_mesh, product_chain

LOOSE = CandidateRules(fully_use_devices=False)


def kind_of(rows, inner, columns):
    return OperatorGraph.of(product_chain((inner, columns), rows=rows), {}).kinds[0]


def ways_of(strategies, mesh):
    return [tuple(mesh.product(strategy.axes(dim)) for dim in ("b", "d0", "d1")) for strategy in strategies]


@pytest.mark.parametrize(("devices", "full", "loose"), [(8, 10, 20), (64, 28, 84), (1, 1, 1)])
def test_a_product_has_every_composition_of_the_devices(devices, full, loose):
    """Halvings n over three dims: (n + 2 over 2), and with some that split nothing (n + 3 over 3)."""
    kind, mesh = kind_of(1024, 1024, 1024), free_mesh(devices)
    assert len(candidate_strategies(kind, mesh, CandidateRules())) == full
    assert len(candidate_strategies(kind, mesh, LOOSE)) == loose


@given(
    sizes=st.tuples(*[st.sampled_from([1, 2, 3, 4, 6, 12, 20])] * 3),
    devices=st.sampled_from([1, 2, 4, 6, 8, 12]),
)
@settings(max_examples=60, deadline=None)
def test_device_matrices_are_all_that_divide(sizes, devices):
    """Against all triples of parts: those are reached whose product divides the devices."""
    kind, mesh = kind_of(*sizes), free_mesh(devices)
    ways = ways_of(candidate_strategies(kind, mesh, LOOSE), mesh.mesh)
    assert len(set(ways)) == len(ways)
    wanted = {
        triple
        for triple in itertools.product(range(1, devices + 1), repeat=3)
        if devices % math.prod(triple) == 0
        and all(size % part == 0 for size, part in zip(sizes, triple, strict=True))
    }
    assert set(ways) <= wanted
    powers = {triple for triple in wanted if all(part & (part - 1) == 0 for part in triple)}
    if devices & (devices - 1) == 0:
        assert set(ways) == powers
    most = max(map(math.prod, ways))
    full = ways_of(candidate_strategies(kind, mesh, CandidateRules()), mesh.mesh)
    assert set(full) == {triple for triple in ways if math.prod(triple) == most}


def test_the_batch_is_outermost_and_ranks_that_are_left_over_too():
    mesh = free_mesh(8)
    outer, middle, inner = mesh.units
    made = candidate_strategies(kind_of(64, 64, 64), mesh, LOOSE)
    assert Strategy.of({"b": (outer,), "d1": (middle, inner)}) in made
    assert Strategy.of({"d1": (inner,)}) in made
    assert Strategy.of({"d1": (outer,)}) not in made


def test_axes_that_the_scenario_names_go_to_any_dim_whole():
    mesh = SearchMesh(Mesh.of({"data": 2, "tensor": 4}), ("data", "tensor"), free=False)
    made = candidate_strategies(kind_of(64, 64, 64), mesh, CandidateRules())
    assert len(made) == 9
    assert Strategy.of({"b": ("tensor",), "d1": ("data",)}) in made
    assert len(candidate_strategies(kind_of(64, 64, 64), mesh, LOOSE)) == 16


@pytest.mark.parametrize(
    ("mesh", "free"),
    [
        ({"data": 8}, True),
        ({"pipeline": 2, "data": 4}, True),
        ({"data": 8, "tensor": 1}, True),
        ({"data": 2, "tensor": 4}, False),
    ],
)
def test_a_mesh_with_one_axis_a_stage_leaves_its_ranks_to_the_search(mesh, free):
    assert leaves_mesh_free(Mesh.of(mesh), "pipeline") is free


def test_aligned_slices_have_a_last_dim_that_is_a_multiple():
    kind, mesh = kind_of(64, 64, 64), free_mesh(8)
    made = ways_of(candidate_strategies(kind, mesh, CandidateRules(slice_multiple=16)), mesh.mesh)
    assert max(inner for _, inner, _ in made) == 4
    assert max(columns for _, _, columns in made) == 4
    assert (8, 1, 1) in made


def test_what_the_user_fixed_is_the_only_candidate():
    fixed = Strategy.of({"b": ("data",)})
    graph = product_chain((64, 64))
    kind = OperatorGraph.of(graph, {"net": {"m0": fixed}}).kinds[0]
    assert candidate_strategies(kind, free_mesh(8), CandidateRules()) == (fixed,)


def test_what_cannot_be_split_over_all_devices_is_over_as_many_as_it_can():
    costs = costs_of(product_chain((3, 5), rows=4), 8)
    assert ways_of(costs.choices(0), costs.search_mesh.mesh) == [(4, 1, 1)]
