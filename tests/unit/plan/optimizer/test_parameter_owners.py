"""Who owns which parameter, and rules that depend on how parameters are used."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.layout import Layout, Mesh
from simcluster.model import AdamW, Block, Graph, Instance, Node, Phase, Role, TensorType, Value
from simcluster.model.operators.optimizer_muon import Muon
from simcluster.plan.optimizer import OptimizerPlan, assign_owners, check_owners
from simcluster.work import DType


def graph_of(sizes, split=()):
    """A block that updates one parameter of each size; those in ``split`` lie split over ``expert``."""
    names = [f"p{index}" for index in range(len(sizes))]
    values = {
        name: Value(
            TensorType((size,), DType.BF16), Role.PARAMETER, Layout((("expert",) if name in split else (),))
        )
        for name, size in zip(names, sizes, strict=True)
    }
    nodes = [Node(f"{name}.update", AdamW(), (), (), Phase.END, origin=name) for name in names]
    block = Block("layer", (), (), (), tuple(names), values, tuple(nodes))
    return Graph({"layer": block}, (Instance("layers.0", "layer"),), ())


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 5))
def test_turns_go_there_and_back_by_size(sizes, count):
    graph = graph_of(sizes)
    owners = assign_owners(graph, graph.instances, ["data"], Mesh.of({"data": count, "tensor": 2}))
    ordered = [owner.place for _, owner in sorted(owners.items(), key=lambda one: sizes[int(one[0][1][1:])])]
    assert len(owners) == len(sizes)
    if count > 1:
        held = Counter(place for (place,) in ordered)
        assert max(held.values()) - min(held[place] for place in range(count)) <= 2
        assert ordered[: 2 * count] == [
            (place,) for place in [*range(count), *range(count)[::-1]][: len(ordered)]
        ]


def test_experts_have_turns_of_their_own():
    graph, mesh = graph_of([4, 4, 4, 4], split=("p2", "p3")), Mesh.of({"data": 2, "expert": 2})
    owners = assign_owners(graph, graph.instances, ["data", "expert"], mesh)
    assert [(owner.axes, owner.place) for owner in owners.values()] == [
        (("data", "expert"), (0, 0)),
        (("data", "expert"), (0, 1)),
        (("data",), (0,)),
        (("data",), (1,)),
    ]


def test_too_many_owners_are_refused_with_their_number():
    usual = dict.fromkeys(("uneven", "moved", "servers", "rows"), False)
    check_owners(["data"], Mesh.of({"data": 256}), **usual)
    with pytest.raises(PlanError, match="each of 512 ranks updates other parameters; up to 256"):
        check_owners(["data"], Mesh.of({"data": 512}), **usual)


def test_without_matrices_muon_is_adamw():
    muon = Muon(learning_rate=0.1)
    plan = OptimizerPlan(muon, None, dict.fromkeys(muon.all_states, DType.FP32))
    assert plan.rules.of("layers.0.norm.weight") == AdamW(learning_rate=0.1)
    assert plan.of("layers.0.norm.weight")[1].keys() == {"moment1", "moment2"}
