"""Sequences of movements by patterns, against MindSpore's inference of every pair of layouts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.layout import Layout, Mesh, infer_mindspore_sequence
from simcluster.plan.auto.movement_sequences import MovementSequences

MESH = Mesh.of({"a": 2, "b": 3, "c": 2, "d": 5})


@st.composite
def layouts(draw, ordered=True):
    """Layouts of three dims over any of the axes."""
    names = list(MESH.names) if ordered else draw(st.permutations(MESH.names))
    dims = [[], [], []]
    for name in names:
        place = draw(st.integers(-1, 2))
        if place >= 0:
            dims[place].append(name)
    return Layout(tuple(map(tuple, dims)))


def volumes(made, need):
    """What MindSpore's sequence moves: kind, ranks, and the shares before and after every step."""
    layout, steps = made, []
    for movement, reached in infer_mindspore_sequence(made, need):
        shares = [1 / MESH.product(each.axes) for each in (layout, reached)]
        steps.append((movement.kind, MESH.product(movement.axes), *shares))
        layout = reached
    return steps


@given(layouts(), layouts())
def test_a_pattern_has_the_steps_of_its_layouts(made, need):
    steps = list(MovementSequences(MESH).between(made, need))
    for step in steps:
        assert MESH.product(step.axes) == step.ways
    share = 1 / MESH.product(made.axes)
    for step in steps:
        assert abs(step.before - share) < 1e-12
        share = step.after
    assert abs(share - 1 / MESH.product(need.axes)) < 1e-12
    wanted = volumes(made, need)
    assert [(step.kind, step.ways) for step in steps] == [(kind, ways) for kind, ways, *_ in wanted]
    shares = [(step.before, step.after) for step in steps]
    assert shares == [pytest.approx((before, after)) for *_, before, after in wanted]


@given(layouts(ordered=False), layouts(ordered=False))
def test_axes_in_any_order_go_by_mindspore_s_own_sequence(made, need):
    steps = [(s.kind, s.ways, s.before, s.after) for s in MovementSequences(MESH).between(made, need)]
    share = 1 / MESH.product(made.axes)
    for _, _, before, after in steps:
        assert abs(before - share) < 1e-12
        share = after
    assert abs(share - 1 / MESH.product(need.axes)) < 1e-12
