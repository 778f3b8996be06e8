"""How strategies are written: by dim, by operand, in numbers, as text, with a layout."""

from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.layout import MindSporeLayout
from simcluster.plan.spec import ParallelSpec
from simcluster.plan.spec.strategy_spec import StrategySpec


def rule(**written):
    return validate_data({"match": "op", **written}, StrategySpec).rule("scenario")


def problem(**written):
    with pytest.raises(ScenarioError) as caught:
        validate_data({"mesh": {"data": 2}, "strategies": [{"match": "op", **written}]}, ParallelSpec)
    (only,) = caught.value.problems
    return only


@pytest.mark.parametrize(
    "written",
    ["((4, 1), (1, 2))", "[[4,1],[1,2]]", "((4, None), (None, 2,),)", [[4, 1], [1, 2]], ((4, None), (1, 2))],
)
def test_numbers_in_every_form(written):
    found = rule(**{"in": written})
    assert found.inputs == ((4, ()), ((), 2))
    assert found.numbered


def test_axes_in_every_form():
    found = rule(**{"in": "((data, None), (1, (tensor, 'expert')))", "out": [["data", ["tensor"]]]})
    assert found.inputs == ((("data",), ()), ((), ("tensor", "expert")))
    assert found.outputs == ((("data",), ("tensor",)),)
    assert not found.numbered
    assert found.names == {"data", "tensor", "expert"}


def test_the_names_of_the_reference_are_accepted():
    assert rule(in_strategy=[[2]], out_strategy=[[1]]) == rule(**{"in": [[2]], "out": [[1]]})


def test_an_input_may_be_left_open():
    assert rule(**{"in": [["data"], None]}).inputs == ((("data",),), None)


def test_a_layout_gives_aliases():
    layout = {"device_matrix": [2, 4], "alias_name": ["dp", "mp"]}
    found = rule(**{"in": [["dp", "None"], ["None", "mp"]], "layout": layout})
    assert found.layout == MindSporeLayout((2, 4), ("dp", "mp"))
    assert found.numbered
    assert found.names == set(), "aliases are no axes of the mesh"
    assert rule(split={"ffn": "mp"}, layout=layout).alternatives == ({"ffn": ("mp",)},)


def test_where_replicas_stand():
    assert rule(**{"in": [[2]], "repeated_on": "right"}).repeated_on == "right"
    assert rule(**{"in": [[2]]}).repeated_on == "left"


@pytest.mark.parametrize(
    ("written", "path", "message"),
    [
        ({}, "", "a strategy needs one of split and in"),
        ({"split": {"a": "data"}, "in": [[1]]}, ".in", "a strategy needs one of split and in"),
        ({"in": "((4, 1), (1, 2)"}, ".in", "'((4, 1), (1, 2)' is no tuple of tuples"),
        ({"in": "(4, 1))"}, ".in", "'(4, 1))' closes a bracket that it did not open"),
        ({"in": "4 * 2"}, ".in", "'4 * 2' is no tuple of tuples"),
        ({"in": "[[[[[[1]]]]]]"}, ".in", "is no tuple of tuples"),
        ({"in": [["data"]], "repeated_on": "left"}, ".repeated_on", "axes say themselves which ranks repeat"),
        (
            {"in": [[2]], "out": [[1]], "forward_reduce_scatter": True},
            ".forward_reduce_scatter",
            "out already gives",
        ),
        (
            {"in": [["dp"]], "layout": {"device_matrix": [2], "alias_name": ["mp"]}},
            ".in.0",
            "the layout has no alias 'dp'",
        ),
        (
            {"in": [[2]], "layout": {"device_matrix": [2], "alias_name": ["mp"]}},
            ".in.0",
            "numbers are given where aliases of the layout are expected",
        ),
        (
            {"split": {"a": "dp"}, "layout": {"device_matrix": [2], "alias_name": ["mp"]}},
            ".split",
            "the layout has no alias 'dp'",
        ),
        (
            {"in": [["mp"]], "layout": {"device_matrix": [2, 2], "alias_name": ["mp"]}},
            ".layout",
            "device_matrix has 2 dims, alias_name 1 names",
        ),
        (
            {
                "in": [["mp"]],
                "layout": {"device_matrix": [2], "alias_name": ["mp"]},
                "repeated_on": "right",
            },
            ".repeated_on",
            "the device matrix says itself which ranks repeat a calculation",
        ),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(written, path, message):
    found = problem(**written)
    assert message in found.message
    assert found.path == f"strategies.0{path}"


@pytest.mark.parametrize("written", [[[0]], [[-2]], [[1.5]], [["data", {}]], 4])
def test_entries_are_axes_or_parts(written):
    assert problem(**{"in": written}).path.startswith("strategies.0.in")
