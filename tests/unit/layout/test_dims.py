from __future__ import annotations

import pytest

from simcluster.layout import Dims, Layout, Strategy

# y = x @ w, and the same with a second weight that has no dim "group".
MATMUL = Dims(
    (("m", "k"), ("k", "n")),
    (("m", "n"),),
    linear=(frozenset({0}), frozenset({1})),
    terms=((frozenset({0, 1}),),),
)
FAN_OUT = Dims(
    (("m", "k"), ("k", "group"), ("k", "n")),
    (("m", "group"), ("m", "n")),
    linear=(frozenset({0}), frozenset({1, 2})),
    terms=((frozenset({0, 1}),), (frozenset({0, 2}),)),
)
FAN_IN = Dims(
    (("m", "group"), ("m", "n"), ("group", "k"), ("n", "k")),
    (("m", "k"),),
    linear=(frozenset({0, 1}), frozenset({2, 3})),
    terms=((frozenset({0, 2}), frozenset({1, 3})),),
)


def test_names_come_once_in_order_of_appearance():
    assert FAN_IN.names == ("m", "group", "n", "k")
    assert Dims((("a", "b"),), (("b", "c"),)).names == ("a", "b", "c")


def test_whole_dims_are_not_splittable():
    dims = Dims((("batch", "hidden"),), (("batch", "hidden"),), unsplittable=(("hidden", "its mean"),))
    assert dims.splittable == ("batch",)


def test_operands_are_laid_out_by_dim_name():
    strategy = Strategy.of({"m": ["data"], "k": ["tensor", "expert"]})
    assert MATMUL.input_layouts(strategy) == (
        Layout((("data",), ("tensor", "expert"))),
        Layout((("tensor", "expert"), ())),
    )


def test_a_reduced_dim_makes_the_result_partial():
    strategy = Strategy.of({"m": ["data"], "k": ["tensor"]})
    assert MATMUL.output_layouts(strategy) == (Layout((("data",), ()), (("tensor", "sum"),)),)
    assert MATMUL.output_layouts(Strategy.of({"n": ["tensor"]})) == (Layout(((), ("tensor",))),)


def test_the_reduction_is_the_operators_own():
    dims = Dims((("batch", "vocab"),), (("batch",),), reduction="max")
    assert dims.output_layouts(Strategy.of({"vocab": ["tensor"]})) == (Layout(((),), (("tensor", "max"),)),)


def test_partial_sums_let_through_add_to_what_is_due():
    strategy = Strategy.of({"k": ["tensor"]})
    assert MATMUL.output_layouts(strategy, ("context",)) == (
        Layout(((), ()), (("context", "sum"), ("tensor", "sum"))),
    )


def test_a_result_that_knows_nothing_of_a_split_dim_is_replicated():
    layouts = FAN_OUT.output_layouts(Strategy.of({"group": ["tensor"]}))
    assert layouts == (Layout(((), ("tensor",))), Layout(((), ())))
    assert FAN_OUT.masked(Strategy.of({"group": ["tensor"]})) == ()


def test_a_sum_split_in_one_term_only_counts_the_other_once():
    strategy = Strategy.of({"group": ["tensor", "expert"], "m": ["data"]})
    assert FAN_IN.output_layouts(strategy) == (
        Layout((("data",), ()), (("expert", "sum"), ("tensor", "sum"))),
    )
    assert FAN_IN.masked(strategy) == ((1, ("tensor", "expert")),)
    both = Strategy.of({"group": ["tensor"], "n": ["data"]})
    assert sorted(FAN_IN.masked(both)) == [(0, ("data",)), (1, ("tensor",))]
    assert FAN_IN.masked(Strategy.of({"m": ["data"], "k": ["tensor"]})) == ()


def test_without_terms_every_output_is_one_term_of_all_inputs():
    dims = Dims((("rows", "hidden"), ("hidden",)), (("rows",), ("hidden",)))
    assert [dims.terms_of(output) for output in (0, 1)] == [(frozenset({0, 1}),)] * 2
    layouts = dims.output_layouts(Strategy.of({"rows": ["data"]}))
    assert layouts == (Layout((("data",),)), Layout(((),), (("data", "sum"),)))


@pytest.mark.parametrize(
    ("partial", "joining"),
    [({0}, set()), ({1}, {2}), ({2}, {1}), ({1, 2}, set()), ({0, 1}, None), ({0, 1, 2}, None)],
)
def test_a_partial_sum_passes_if_a_whole_linear_set_can_be_partial(partial, joining):
    found = FAN_OUT.passes("tensor", frozenset(partial), Strategy.of({"m": ["data"]}))
    assert found == (None if joining is None else frozenset(joining))


def test_no_partial_sum_passes_over_an_axis_in_use():
    assert MATMUL.passes("tensor", frozenset({0}), Strategy.of({"n": ["data", "tensor"]})) is None


def test_nothing_passes_where_nothing_is_linear():
    dims = Dims((("x",),), (("x",),))
    assert dims.passes("tensor", frozenset({0}), Strategy()) is None
