from __future__ import annotations

import pytest

from simcluster.layout import Layout, Mesh, Movement, MovementKind
from simcluster.model import Phase, Role
from simcluster.model.operators.activation import Gelu, Swiglu
from simcluster.model.operators.cross_entropy import CrossEntropy, JoinLoss
from simcluster.model.operators.elementwise import Elementwise
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.norm import RmsNorm
from simcluster.model.operators.pointwise import Add, Bias
from simcluster.model.operators.reshape import Reshape
from simcluster.work import DType
from tests.support.plan_graphs import (
    TENSOR,
    Writer,
    chain,
    movements_of,
    one,
    sharded,
    told,
)

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD
ROWS = ("batch", "seq", "hidden")


def matmuls(*specs: str, sizes: dict[str, int]):
    """A chain of products: weight i is ``w{i}``, product i ``y{i}``."""
    write = Writer()
    left = specs[0].split(",")[0].split()
    x = write.input("x", *(sizes[name] for name in left))
    for index, spec in enumerate(specs):
        right = spec.split("->")[0].split(",")[1].split()
        weight = write.parameter(f"w{index}", *(sizes[name] for name in right))
        x = write.matmul(f"y{index}", x, weight, spec)
    return write.block(x)


# -- MindSpore's examples of one and two products (reference: its operator-level parallelism) -----------


def test_column_parallel_product_has_no_forward_collective():
    """((2, 1), (1, 4)) on 8: rank k and k + 4 hold W_k, whose gradient is summed over {k, k + 4}."""
    mesh = Mesh.of({"rows": 2, "columns": 4})
    block = matmuls("m k, k n -> m n", sizes={"m": 4, "k": 4, "n": 8})
    found = one(block, {"y0": {"m": ["rows"], "n": ["columns"]}}, mesh)
    assert told(found, FORWARD) == []
    assert found.values["w0"].layout == Layout(((), ("columns",)))
    gradient = found.values[found.gradients["w0"]].layout
    assert gradient == Layout(((), ("columns",)), (("rows", "sum"),))
    assert mesh.groups(gradient.partial_axes).tolist() == [[k, k + 4] for k in range(4)]
    assert told(found, BACKWARD) == ["all_reduce columns"], "the gradient of the input"


def test_row_parallel_product_is_reduced_over_the_contracted_dim():
    """((2, 4), (4, 1)) on 8: forward all-reduce over {0-3} and {4-7}; W's replicas are [0, 4]."""
    mesh = Mesh.of({"rows": 2, "inner": 4})
    block = matmuls("m k, k n -> m n", sizes={"m": 4, "k": 8, "n": 4})
    found = one(block, {"y0": {"m": ["rows"], "k": ["inner"]}}, mesh)
    (reduction,) = movements_of(found, FORWARD)
    assert reduction.operator == Movement(MovementKind.ALL_REDUCE, ("inner",))
    assert mesh.groups(reduction.operator.axes).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert found.values[found.gradients["w0"]].layout.partial_axes == ("rows",)
    assert told(found, BACKWARD) == []


def test_two_products_that_fit_need_nothing_between_them():
    """FFN 784 -> 64 -> 10 as ((2, 1), (1, 4)) then ((2, 4), (4, 1)): one all-reduce at the end."""
    mesh = Mesh.of({"rows": 2, "four": 4})
    block = matmuls("m k, k n -> m n", "m n, n o -> m o", sizes={"m": 4, "k": 6, "n": 8, "o": 10})
    chosen = {"y0": {"m": ["rows"], "n": ["four"]}, "y1": {"m": ["rows"], "n": ["four"]}}
    found = one(block, chosen, mesh)
    assert [node.name for node in found.phase(FORWARD)] == ["y0", "y1", "y1.all_reduce"]
    assert told(found, BACKWARD) == ["all_reduce four"]


def test_row_split_then_column_split_takes_one_all_gather():
    """((4, 1), (1, 1)) then ((1, 1), (1, 4)) on 4."""
    mesh = Mesh.of({"four": 4})
    block = matmuls("m k, k n -> m n", "m n, n o -> m o", sizes={"m": 4, "k": 6, "n": 8, "o": 8})
    found = one(block, {"y0": {"m": ["four"]}, "y1": {"o": ["four"]}}, mesh)
    assert told(found, FORWARD) == ["all_gather four"]


# -- one reduction per tensor ---------------------------------------------------------------------------


def test_gradients_that_meet_while_partial_are_reduced_once():
    """Queries, keys and values as three products of one input: one all-reduce in backward, not three."""
    write = Writer()
    x = write.input("x", 4, 8)
    parts = [
        write.matmul(name, x, write.parameter(f"w{name}", 8, 4), "batch hidden, hidden out -> batch out")
        for name in "qkv"
    ]
    write.add("y", Add(("batch", "out"), 3), *parts)
    found = one(write.block("y"), {name: {"batch": ["data"], "out": TENSOR} for name in "qkvy"})
    assert told(found, FORWARD) == []
    (reduction,) = movements_of(found, BACKWARD)
    assert reduction.operator == Movement(MovementKind.ALL_REDUCE, ("tensor",))
    assert reduction.name == "x.grad_sum.all_reduce"
    assert found.values[reduction.inputs[0]].layout == Layout((("data",), ()), (("tensor", "sum"),))


def test_a_replicated_term_joins_a_partial_sum_without_a_collective():
    write = Writer()
    x = write.input("x", 4, 8)
    spec = "batch hidden, hidden out -> batch out"
    q, k = (write.matmul(name, x, write.parameter(f"w{name}", 8, 8), spec) for name in "qk")
    bent = write.add("bent", Gelu(("batch", "out")), x)
    write.add("y", Add(("batch", "out"), 3), q, k, bent)
    found = one(write.block("y"), {"q": {"out": TENSOR}, "k": {"out": TENSOR}})
    (total,) = [node for node in found.nodes if node.name == "x.grad_sum"]
    assert found.values["x.grad_sum"].layout == Layout(((), ()), (("tensor", "sum"),))
    assert [(total.inputs[index], axes) for index, axes in total.masked] == [("bent.grad.out", ("tensor",))]
    assert [node.name for node in movements_of(found, BACKWARD)] == ["x.grad_sum.all_reduce"]


def test_a_sum_of_gradients_lies_as_its_terms_do_if_they_agree():
    write = Writer()
    x = write.input("x", 4, 8)
    bent = write.add("bent", Gelu(("batch", "hidden")), x)
    one_, two = (write.add(name, Gelu(("batch", "hidden")), bent) for name in ("one", "two"))
    write.add("y", Swiglu(("batch", "hidden")), one_, two)
    columns, rows = {"hidden": TENSOR}, {"batch": TENSOR}
    found = one(write.block("y"), {"bent": rows, "one": columns, "two": columns, "y": columns})
    assert found.values["bent.grad_sum"].layout == Layout(((), ("tensor",)))
    moved = [node.name for node in movements_of(found, BACKWARD)]
    assert moved == ["bent.grad_sum.all_to_all"], "the sum once; bent is kept as it was exchanged"
    found = one(write.block("y"), {"bent": rows, "one": columns, "two": rows, "y": columns})
    assert found.values["bent.grad_sum"].layout == Layout((("tensor",), ()))


def test_what_is_exchanged_is_kept_as_backward_wants_it():
    """It is no larger than what its producer made; a gathered copy would be."""
    write = Writer()
    x = write.input("x", 4, 8)
    bent = write.add("bent", Gelu(("batch", "hidden")), x)
    write.add("one", Gelu(("batch", "hidden")), bent)
    rows, columns = {"batch": TENSOR}, {"hidden": TENSOR}
    found = one(write.block("one"), {"bent": rows, "one": columns})
    assert found.node("one.grad").inputs[0] == "bent.all_to_all"
    assert told(found, BACKWARD) == ["all_to_all tensor"], "the gradient of bent"
    found = one(write.block("one"), {"bent": rows})
    assert found.node("one.grad").inputs[0] == "bent.all_gather2"


def test_a_partial_sum_is_exchanged_before_it_is_reduced_where_that_is_less():
    """As what experts made of tokens, which is more than the tokens are; nothing of it is kept."""
    mesh = Mesh.of({"data": 2, "tensor": 2})
    split = {"h": {"batch": ["data"], "hidden": ["tensor"]}, "y": {"out": ["data"]}}

    def forward(small):
        write = Writer()
        h = write.matmul(
            "h", write.input("x", 4, 8), write.parameter("w", 8, 8), "batch hidden, hidden out -> batch out"
        )
        known = write.feed("known", 8, small, dtype=DType.FP32)
        write.matmul("y", h, known, "batch out, out small -> batch small")
        return one(write.block("y"), split, mesh)

    smaller = forward(2)
    assert told(smaller, FORWARD)[0] == "all_to_all data"
    assert [each for each in told(smaller, FORWARD) if "reduce" in each] == ["all_reduce data+tensor"]
    assert "all_reduce tensor" in told(forward(16), FORWARD)


def test_a_partial_tensor_is_reduced_once_for_all_its_readers():
    write = Writer()
    x = write.input("x", 4, 8)
    h = write.matmul("h", x, write.parameter("w", 8, 8), "batch hidden, hidden out -> batch out")
    one_, two = (write.add(name, Gelu(("batch", "out")), h) for name in ("one", "two"))
    write.add("y", Swiglu(("batch", "out")), one_, two)
    found = one(write.block("y"), {"h": {"hidden": TENSOR}})
    assert told(found, FORWARD) == ["all_reduce tensor"]
    readers = [node.inputs for node in found.phase(FORWARD) if node.name in ("one", "two")]
    assert readers == [("h.all_reduce",)] * 2


def test_readers_that_want_different_layouts_share_the_reduction():
    write = Writer()
    x = write.input("x", 4, 8)
    h = write.matmul("h", x, write.parameter("w", 8, 8), "batch hidden, hidden out -> batch out")
    one_, two = (write.add(name, Gelu(("batch", "out")), h) for name in ("one", "two"))
    write.add("y", Swiglu(("batch", "out")), one_, two)
    found = one(write.block("y"), {"h": {"hidden": TENSOR}, "one": {"out": TENSOR}, "two": {"batch": TENSOR}})
    told_forward = told(found, FORWARD)
    assert told_forward[0] == "reduce_scatter tensor"
    assert sum(each.startswith(("reduce_scatter", "all_reduce")) for each in told_forward) == 1


def test_a_partial_result_is_reduced_where_it_is_smallest():
    """h [4, 8] is partial; o = h @ w [4, 2] is smaller and linear in it."""
    write = Writer()
    x = write.input("x", 4, 8)
    h = write.matmul("h", x, write.parameter("w", 8, 8), "batch hidden, hidden inner -> batch inner")
    narrow = write.matmul(
        "o", h, write.feed("proj", 8, 2, dtype=DType.FP32), "batch inner, inner out -> batch out"
    )
    write.add("y", Gelu(("batch", "out")), narrow)
    found = one(write.block("y"), {"h": {"hidden": TENSOR}})
    (reduction,) = movements_of(found, FORWARD)
    assert reduction.name == "o.all_reduce"
    wide = Writer()
    x = wide.input("x", 4, 8)
    h = wide.matmul("h", x, wide.parameter("w", 8, 2), "batch hidden, hidden inner -> batch inner")
    o = wide.matmul("o", h, wide.feed("proj", 2, 8, dtype=DType.FP32), "batch inner, inner out -> batch out")
    wide.add("y", Gelu(("batch", "out")), o)
    found = one(wide.block("y"), {"h": {"hidden": TENSOR}})
    assert [node.name for node in movements_of(found, FORWARD)] == ["h.all_reduce"]


def test_a_partial_gradient_that_only_adds_up_is_reduced_at_the_end():
    """A table [2, 4] read as one row [8]: its gradient is as large as what it is made of, and waits."""
    write = Writer()
    x, table = write.input("x", 4, 8), write.parameter("table", 2, 4)
    row = write.add("row", Reshape.of(("rows", "columns"), (2, 4), (8,)), table)
    labels = ("batch", "hidden")
    y = write.add("sum", Elementwise("add", (labels, labels[1:]), labels), x, row)
    found = one(write.block(y), {"sum": {"batch": TENSOR}})
    assert not movements_of(found, BACKWARD)
    assert found.values["table.grad"].layout == Layout.replicated(2).with_partial(TENSOR)


@pytest.mark.parametrize(
    "operator",
    [Bias(("batch", "out"), ("out",)), Gelu(("batch", "out")), RmsNorm(("batch", "out"))],
    ids=lambda each: each.kind,
)
def test_biases_norms_and_activations_are_reduced_before(operator):
    write = Writer()
    x = write.input("x", 4, 8)
    h = write.matmul("h", x, write.parameter("w", 8, 8), "batch hidden, hidden out -> batch out")
    extra = [write.parameter("b", 8)] if len(operator.dims().inputs) > 1 else []
    write.adds("y", operator, h, *extra)
    found = one(write.block("y"), {"h": {"hidden": TENSOR}})
    assert [node.name for node in found.phase(FORWARD)] == ["h", "h.all_reduce", "y"]


def test_what_leaves_a_block_is_reduced_to_what_the_next_one_wants():
    write = Writer("first")
    x = write.feed("x", 4, 4, dtype=DType.FP32)
    first = write.block(write.matmul("y", x, write.parameter("w", 4, 4), "m k, k n -> m n"))
    write = Writer("next")
    x = write.input("x", 4, 4)
    write.matmul("z", x, write.parameter("w", 4, 4), "m n, n o -> m o")
    made = sharded(chain(first, write.block("z")), {"y": {"k": TENSOR}, "z": {"m": TENSOR}})
    assert told(made.blocks["first"], FORWARD) == ["reduce_scatter tensor"]
    assert told(made.blocks["next"], FORWARD) == []
    assert told(made.blocks["next"], BACKWARD) == []
    assert told(made.blocks["first"], BACKWARD) == ["all_gather tensor"]


# -- the loss -------------------------------------------------------------------------------------------


def head(seq=4, vocab=8):
    write = Writer("head")
    x, targets = write.input("x", 4, seq, 8), write.feed("targets", 4, seq)
    weight = write.parameter("w", vocab, 8)
    logits = write.add(
        "logits", Matmul(ROWS, (("vocab", "hidden"),), (("batch", "seq", "vocab"),)), x, weight
    )
    loss, _ = write.adds("loss", CrossEntropy(1 / (4 * seq)), logits, targets)
    return write.block(loss=loss)


def test_a_partial_loss_stays_a_partial_scalar_until_the_end():
    rows = {"batch": ["data"], "seq": TENSOR}
    found = one(head(), {"logits": rows, "loss": rows})
    assert found.values["loss"].layout == Layout((), (("data", "sum"), ("tensor", "sum")))
    assert found.values["loss"].role is Role.ACCUMULATOR
    assert told(found) == []


def test_a_split_vocabulary_reduces_three_numbers_per_token():
    """The maximum, the sum of exponentials and the target's logit; never the logits."""
    rows = {"batch": ["data"], "vocab": TENSOR}
    found = one(head(), {"logits": rows, "loss": rows})
    reductions = movements_of(found, FORWARD)
    assert [node.operator.reduction for node in reductions] == ["max", "sum", "sum"]
    assert {found.values[node.inputs[0]].type.shape for node in reductions} == {(4, 4)}
    assert [node.name for node in reductions] == [
        f"loss.{part}.all_reduce" for part in ("max", "sum", "target")
    ]
    (join,) = [node for node in found.nodes if isinstance(node.operator, JoinLoss)]
    assert join.origin == "loss"
    assert told(found, BACKWARD) == ["all_reduce tensor"], "the gradient of the logits' input alone"
