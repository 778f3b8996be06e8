"""Strategies by operand: what they say of iteration dims, and what contradicts itself."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.layout import Layout, Mesh, MindSporeLayout, Strategy, SubAxis
from simcluster.model.operators.activation import Gelu
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.pointwise import Add, Bias
from simcluster.plan.rules.strategy_rule import AxisRoles, StrategyRule
from simcluster.plan.strategies.assignment import _scattered, assign_strategies
from simcluster.plan.strategies.mesh_subaxes import split_mesh_axes
from simcluster.plan.strategies.operand_splits import StrategyMismatch, operand_candidate
from tests.support.plan_graphs import Writer, chain

PATH = "parallel.strategies.0"
MATMUL = Matmul(("rows", "inner"), (("inner", "columns"),), (("rows", "columns"),))
FAN_OUT = Matmul(("b", "h"), (("h", "f"), ("h", "g")), (("b", "f"), ("b", "g")))
MESH = Mesh.of({"pipeline": 1, "data": 2, "tensor": 4})


def entry(written):
    if isinstance(written, str):
        return (written,)
    return () if written in (1, None) else written


def rule(inputs, outputs=None, **options):
    def operands(written):
        return written and tuple(dims and tuple(map(entry, dims)) for dims in written)

    return StrategyRule("*", ({},), "scenario", PATH, operands(inputs), operands(outputs), **options)


def wish(operator, inputs, outputs=None, devices=8, **options):
    return operand_candidate(rule(inputs, outputs, **options), operator.dims(), devices)


def unfit(*arguments, **options):
    with pytest.raises(StrategyMismatch) as caught:
        wish(*arguments, **options)
    return caught.value


def strategy(operator, shapes, *arguments, mesh=MESH, **options):
    """The strategy of one operator by itself, on the mesh cut for it."""
    write = Writer()
    names = [write.input(f"in{index}", *shape) for index, shape in enumerate(shapes)]
    outputs = write.adds("op", operator, *names)
    graph = chain(write.block(*outputs))
    rules = [rule(*arguments, **options)]
    cut, roles = split_mesh_axes(graph, rules, mesh, AxisRoles({"pipeline": ("pipeline",)}), "pipeline")
    return cut, assign_strategies(graph, rules, cut, roles).of("layer")["op"]


def problem(*arguments, **options):
    with pytest.raises(PlanError) as caught:
        strategy(*arguments, **options)
    (only,) = caught.value.problems
    return only


# -- axes by name ---------------------------------------------------------------------------------------


def test_entries_of_operands_are_splits_of_dims():
    found = wish(MATMUL, [["data", 1], [1, "tensor"]])
    assert found.dims == {"rows": ("data",), "inner": (), "columns": ("tensor",)}
    _, chosen = strategy(MATMUL, [(8, 16), (16, 8)], [["data", 1], [1, "tensor"]])
    assert chosen == Strategy.of({"rows": ["data"], "columns": ["tensor"]})


def test_several_axes_split_one_dim_outer_first():
    _, chosen = strategy(MATMUL, [(8, 16), (16, 8)], [[("tensor", "data"), None], [None, None]])
    assert chosen.axes("rows") == ("tensor", "data")


def test_an_input_may_be_left_open():
    _, chosen = strategy(MATMUL, [(8, 16), (16, 8)], [["data", "tensor"], None])
    assert chosen == Strategy.of({"rows": ["data"], "inner": ["tensor"]})


def test_a_shared_dim_is_split_alike_everywhere():
    found = problem(MATMUL, [(8, 16), (16, 8)], [["data", "tensor"], [1, 1]])
    assert found.message == ("layer.op: dim 'inner' is split over tensor in input 0 and whole in input 1")
    assert found.path == f"{PATH}.in"
    assert found.hint == "inputs are (rows, inner), (inner, columns): what they share is split alike"


def test_every_input_and_every_dim_is_spoken_of():
    assert unfit(FAN_OUT, [["data", 1], [1, 1]]).reason == "3 inputs, but 2 given"
    assert unfit(FAN_OUT, [["data", 1], [1, 1]]).hint == "its inputs are (b, h), (h, f), (h, g)"
    assert unfit(MATMUL, [["data"], [1, 1]]).reason == "input 0 has 2 dims (rows, inner), but 1 given"
    assert unfit(MATMUL, [["data", 1], [1, 1]], [[1]]).reason == (
        "output 0 has 2 dims (rows, columns), but 1 given"
    )
    assert unfit(MATMUL, [["data", 1], [1, 1]], [[1, 1], [1, 1]]).reason == "1 output, but 2 given"


def test_an_axis_splits_one_dim_of_an_operator():
    found = problem(MATMUL, [(8, 16), (16, 8)], [["tensor", 1], [1, "tensor"]])
    assert found.message == "layer.op: axis 'tensor' splits two dims at once"


def test_an_unknown_axis_is_named_where_it_stands():
    found = problem(MATMUL, [(8, 16), (16, 8)], [["data", 1], [1, "tensr"]])
    assert (found.path, found.hint) == (f"{PATH}.in.1.1", "did you mean 'tensor'?")


def test_broadcast_operands_say_their_own_dims_only():
    bias = Bias(("rows", "columns"), ("columns",))
    _, chosen = strategy(bias, [(8, 16), (16,)], [["data", "tensor"], ["tensor"]])
    assert chosen == Strategy.of({"rows": ["data"], "columns": ["tensor"]})
    assert (
        "'columns' is split over tensor in input 0 and whole" in unfit(bias, [["data", "tensor"], [1]]).reason
    )


# -- results --------------------------------------------------------------------------------------------

SHAPES = [(8, 16), (16, 8)]
ROWS = [["data", "tensor"], ["tensor", 1]]


def test_a_result_that_is_wanted_as_it_follows_changes_nothing():
    _, chosen = strategy(MATMUL, SHAPES, [["data", 1], [1, "tensor"]], [["data", "tensor"]])
    assert chosen.outputs == ()


def test_a_result_that_is_wanted_otherwise_is_redistributed_behind():
    _, chosen = strategy(MATMUL, SHAPES, [["data", 1], [1, "tensor"]], [[("data", "tensor"), 1]])
    assert chosen.outputs == ((0, Layout((("data", "tensor"), ()))),)


def test_a_sum_that_is_due_is_reduced_behind_where_out_is_whole():
    _, chosen = strategy(MATMUL, SHAPES, ROWS, [["data", 1]])
    assert chosen.outputs == ((0, Layout((("data",), ()))),)


def test_a_forward_reduce_scatter_scatters_over_the_first_dim():
    _, chosen = strategy(MATMUL, SHAPES, ROWS, scatter=True)
    assert chosen.outputs == ((0, Layout((("data", "tensor"), ()))),)
    assert chosen.scatter
    found = problem(MATMUL, SHAPES, [["data", 1], [1, "tensor"]], scatter=True)
    assert found.message == "layer.op: no sum is due in its results, so nothing is scattered"
    assert found.path == f"{PATH}.forward_reduce_scatter"


def test_rows_that_do_not_divide_by_what_is_scattered_show_it():
    """Reference 3.3: rows divisible by i*k."""
    found = problem(MATMUL, [(4, 16), (16, 8)], ROWS, scatter=True)
    assert found.message == "layer.op: rows 4 does not divide over data 2 x tensor 4: 4 / 8 = 0.5"


def test_an_axis_splits_a_result_once():
    found = problem(MATMUL, SHAPES, [["data", 1], [1, 1]], [["data", "data"]])
    assert "output 0 is split twice over one axis" in found.message


# -- numbers of parts -----------------------------------------------------------------------------------


def test_numbers_are_factors_of_a_device_matrix():
    assert wish(MATMUL, [[2, 1], [1, 4]]).dims == {
        "rows": (SubAxis(4, 2),),
        "inner": (),
        "columns": (SubAxis(1, 4),),
    }
    cut, chosen = strategy(MATMUL, SHAPES, [[2, 1], [1, 4]])
    assert cut == MESH
    assert chosen == Strategy.of({"rows": ["data"], "columns": ["tensor"]})


def test_a_factor_within_an_axis_cuts_it():
    cut, chosen = strategy(MATMUL, SHAPES, [[4, 1], [1, 2]])
    assert cut == Mesh.of({"pipeline": 1, "data": 2, "tensor.0": 2, "tensor.1": 2})
    assert chosen == Strategy.of({"rows": ["data", "tensor.0"], "columns": ["tensor.1"]})


def test_ranks_that_are_left_over_repeat_on_the_left_or_the_right():
    _, left = strategy(MATMUL, SHAPES, [[1, 1], [1, 4]])
    assert left == Strategy.of({"columns": ["tensor"]})
    cut, right = strategy(MATMUL, SHAPES, [[2, 1], [1, 2]], repeated_on="right")
    assert cut == Mesh.of({"pipeline": 1, "data": 2, "tensor.0": 2, "tensor.1": 2})
    assert right == Strategy.of({"rows": ["data"], "columns": ["tensor.0"]})


def test_parts_must_divide_the_ranks_of_a_stage():
    found = problem(MATMUL, SHAPES, [[4, 1], [1, 4]])
    assert found.message == "layer.op: 4 x 4 = 16 parts for the 8 ranks of a stage: 8 / 16 = 0.5"
    staged = Mesh.of({"pipeline": 2, "data": 2, "tensor": 4})
    assert strategy(MATMUL, SHAPES, [[2, 1], [1, 4]], mesh=staged)[0] == staged


def test_axes_and_numbers_do_not_mix():
    assert unfit(MATMUL, [["data", 1], [1, 4]]).reason == "axes and numbers are mixed"
    assert unfit(MATMUL, [["data", 1], [1, 1]], [[2, "tensor"]]).reason == "axes and numbers are mixed"


def test_numbers_of_a_result():
    """As it follows: nothing. Rows times contraction: the reduce-scatter. Else a matrix of its own."""
    assert strategy(MATMUL, SHAPES, [[2, 1], [1, 4]], [[2, 4]])[1].outputs == ()
    _, scattered = strategy(MATMUL, SHAPES, [[2, 4], [4, 1]], [[8, 1]])
    assert scattered.outputs == ((0, Layout((("data", "tensor"), ()))),)
    _, reduced = strategy(MATMUL, SHAPES, [[2, 4], [4, 1]], [[2, 1]])
    assert reduced.outputs == ((0, Layout((("data",), ()))),)
    _, other = strategy(MATMUL, SHAPES, [[2, 1], [1, 4]], [[1, 8]])
    assert other.outputs == ((0, Layout(((), ("data", "tensor")))),)
    found = problem(MATMUL, SHAPES, [[2, 1], [1, 4]], [[3, 1]])
    assert found.message == "layer.op: 3 parts for the 8 ranks of a stage: 8 / 3 = 2.66667"
    assert found.path == f"{PATH}.out"


def test_splits_that_do_not_nest_are_refused_with_both():
    mesh = Mesh.of({"data": 3, "tensor": 2})
    found = problem(MATMUL, [(6, 6), (6, 6)], [[1, 1], [1, 3]], mesh=mesh)
    reason = "a split over 3 neighbours does not fit on mesh data 3 x tensor 2: 2 does not divide 3"
    assert found.message == f"layer.op: {reason}"
    assert found.path == PATH


def test_sizes_that_do_not_divide_show_the_division():
    found = problem(MATMUL, [(6, 16), (16, 8)], [[4, 1], [1, 2]])
    assert found.message == "layer.op: rows 6 does not divide over data 2 x tensor.0 2: 6 / 4 = 1.5"


# -- MindSpore's layouts --------------------------------------------------------------------------------


def test_aliases_of_a_layout_are_digits():
    layout = MindSporeLayout((2, 2, 2), ("dp", "sp", "mp"))
    cut, chosen = strategy(MATMUL, SHAPES, [[("sp", "dp"), 1], [1, "mp"]], [["dp", 1]], layout=layout)
    assert cut == Mesh.of({"pipeline": 1, "data": 2, "tensor.0": 2, "tensor.1": 2})
    assert chosen.axes("rows") == ("tensor.0", "data"), "an interleaved split"
    assert chosen.outputs == ((0, Layout((("data",), ()))),)


def test_a_layout_larger_than_a_stage_is_refused():
    layout = MindSporeLayout((4, 4), ("dp", "mp"))
    found = problem(MATMUL, SHAPES, [["dp", 1], [1, "mp"]], layout=layout)
    assert "reaches over 16 ranks, and a stage has 8" in found.message


@pytest.mark.parametrize(
    ("operator", "shapes", "inputs", "local"),
    [
        # Reference 3.5, the feed-forward network 784 -> 64 -> 10 and SAPP's BiasAdd and ReLU.
        (MATMUL, [(256, 784), (784, 64)], [[2, 1], [1, 4]], [(128, 784), (784, 16), (128, 16)]),
        (MATMUL, [(256, 64), (64, 10)], [[2, 4], [4, 1]], [(128, 16), (16, 10), (128, 10)]),
        (Bias(("r", "c"), ("c",)), [(256, 512), (512,)], [[4, 1], [1]], [(64, 512), (512,), (64, 512)]),
        (Gelu(("r", "c")), [(256, 512)], [[4, 1]], [(64, 512), (64, 512)]),
        (Add(("r", "c")), [(8, 8), (8, 8)], [[2, 4], [2, 4]], [(4, 2), (4, 2), (4, 2)]),
    ],
)  # fmt: skip
def test_slices_of_the_references_examples(operator, shapes, inputs, local):
    cut, chosen = strategy(operator, shapes, inputs)
    dims = operator.dims()
    layouts = [*dims.input_layouts(chosen), *dims.output_layouts(chosen)]
    extent = dict(zip(dims.inputs[0], shapes[0], strict=True))
    for names, shape in zip(dims.inputs, shapes, strict=True):
        extent |= dict(zip(names, shape, strict=True))
    found = [
        layout.local_shape([extent[name] for name in names], cut)
        for layout, names in zip(layouts, (*dims.inputs, *dims.outputs), strict=True)
    ]
    assert found == local


def test_only_sums_are_scattered_none_beside_a_maximum():
    assert _scattered(Layout((("data",), ()), (("tensor", "sum"),))) == Layout((("data", "tensor"), ()))
    with pytest.raises(StrategyMismatch, match="is not a sum that could be scattered"):
        _scattered(Layout(((), ()), (("data", "sum"), ("tensor", "max"))))
