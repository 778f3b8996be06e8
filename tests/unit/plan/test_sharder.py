from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.layout import Kind, Layout, Mesh, Movement, Strategy
from simcluster.model import Phase, Role, Transformer
from simcluster.model.operators.cross_entropy import CrossEntropy, JoinLoss
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.norm import RmsNorm
from simcluster.model.operators.pointwise import Add, Bias, Gelu, Swiglu
from simcluster.plan.differentiate import differentiate
from simcluster.plan.shard import shard
from simcluster.plan.sharder import BlockSharder
from simcluster.plan.spec import RecipeSpec
from simcluster.plan.strategies import Roles, Rule, Strategies, assign
from simcluster.work import DType
from tests.unit.plan.graphs import (
    Writer,
    chain,
    check_values,
    movements_of,
    router,
    strategies,
    told,
)

MESH = Mesh.of({"data": 2, "tensor": 2})
FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD
ROWS = ("batch", "seq", "hidden")
SPLIT, TENSOR = Strategy.of, ["tensor"]


def sharded(graph, chosen, mesh=MESH, seed=0):
    """The sharded graph; every value of every block is checked on all ranks."""
    logical = differentiate(graph, DType.FP32)
    found = chosen if isinstance(chosen, Strategies) else strategies(graph, chosen)
    made = shard(logical, found, mesh, router(mesh))
    for instance in made.instances:
        origin = logical.blocks[instance.block.partition("#")[0]]
        check_values(origin, made.block_of(instance), mesh, seed)
    return made


def one(block, chosen, mesh=MESH):
    """One sharded block whose inputs come as their first readers want them; its values are checked."""
    logical = differentiate(chain(block), DType.FP32).blocks[block.name]
    by_node = {node.name: Strategy.of(chosen.get(node.name, {})) for node in block.nodes}
    incoming = []
    for value in block.inputs:
        reader = next(node for node in block.nodes if value in node.inputs)
        names = reader.operator.dims().inputs[reader.inputs.index(value)]
        incoming.append(by_node[reader.name].layout(names))
    made = BlockSharder(logical, by_node, mesh, router(mesh)).run(incoming, [None] * len(block.outputs), {})
    check_values(logical, made, mesh)
    return made


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
    assert reduction.operator == Movement(Kind.ALL_REDUCE, ("inner",))
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
    assert reduction.operator == Movement(Kind.ALL_REDUCE, ("tensor",))
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
    assert moved == ["bent.all_to_all2", "bent.grad_sum.all_to_all"], "bent again, and the sum once"
    found = one(write.block("y"), {"bent": rows, "one": columns, "two": rows, "y": columns})
    assert found.values["bent.grad_sum"].layout == Layout((("tensor",), ()))


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


# -- recipes on a transformer ---------------------------------------------------------------------------

LLAMA = Transformer(layers=2, hidden=8, heads=4, kv_heads=2, head_dim=2, ffn=12, vocab=16)
GPT = Transformer(
    layers=2,
    hidden=8,
    heads=4,
    kv_heads=4,
    head_dim=2,
    ffn=12,
    vocab=16,
    norm="layer",
    activation="gelu",
    positions="learned",
    max_positions=6,
    bias=True,
    tied=True,
)
SHARED_KEYS = replace(LLAMA, kv_heads=1)
MODELS = pytest.mark.parametrize("model", [LLAMA, GPT, SHARED_KEYS], ids=["llama", "gpt", "shared keys"])


def by_recipe(model, recipe, mesh=MESH, seq=4):
    graph = model.graph(4, seq, DType.FP32, 4 * seq)
    rules = [
        Rule(each.match, each.alternatives(), f"recipe {recipe}")
        for each in RecipeSpec.load(recipe).strategies
    ]
    chosen = assign(graph, rules[::-1], mesh, Roles({"batch": ("data",), "pipeline": ("pipeline",)}))
    return sharded(graph, chosen, mesh)


@MODELS
def test_megatron_has_two_all_reduces_forward_and_two_backward_per_layer(model):
    layer = by_recipe(model, "megatron").blocks["layer"]
    keys = ["all_reduce tensor"] * 2 if model is SHARED_KEYS else []
    assert [node.name for node in movements_of(layer, FORWARD)] == [
        "attention.out.all_reduce",
        "mlp.down.all_reduce",
    ]
    backward = movements_of(layer, BACKWARD)
    assert told(layer, FORWARD) == ["all_reduce tensor"] * 2
    assert told(layer, BACKWARD) == ["all_reduce tensor", *keys, "all_reduce tensor"]
    assert [backward[0].name, backward[-1].name] == [
        "mlp.up.dgrad.all_reduce",
        "attention.qkv.dgrad.all_reduce",
    ]
    for node in (*movements_of(layer, FORWARD), backward[0], backward[-1]):
        assert layer.values[node.outputs[0]].type.shape == (4, 4, 8)


@MODELS
def test_sequence_parallelism_gathers_and_scatters_instead(model):
    layer = by_recipe(model, "megatron_sp").blocks["layer"]
    keys = ["all_reduce tensor"] * 2 if model is SHARED_KEYS else []
    assert told(layer, FORWARD) == ["all_gather tensor", "reduce_scatter tensor"] * 2
    backward = ["all_gather tensor", "all_gather tensor", "reduce_scatter tensor"]
    attention = [backward[0], *keys, *backward[1:]]
    assert sorted(told(layer, BACKWARD)) == sorted(backward + attention)
    assert {
        node.name for node in movements_of(layer, BACKWARD) if node.operator.kind is Kind.REDUCE_SCATTER
    } == {"mlp.up.dgrad.reduce_scatter", "attention.qkv.dgrad.reduce_scatter"}
    norm = layer.values[layer.gradients["mlp.norm.weight"]].layout
    assert norm.partial_axes == ("data", "tensor"), "every rank saw its part of the sequence only"


@MODELS
def test_data_parallelism_has_no_collective_inside_a_layer(model):
    made = by_recipe(model, "data", Mesh.of({"data": 4}))
    for block in made.blocks.values():
        assert told(block) == []
    layer = made.blocks["layer"]
    for name in layer.parameters:
        assert layer.values[layer.gradients[name]].layout.partial == (("data", "sum"),)


@pytest.mark.parametrize("recipe", ["megatron", "megatron_sp"])
def test_tied_embeddings_hold_one_layout_and_partial_gradients_that_add(recipe):
    made = by_recipe(GPT, recipe)
    embedding, head_ = made.blocks["embedding"], made.blocks["head"]
    table, weight = embedding.values["tokens.weight"], head_.values["logits.weight"]
    assert table.layout == weight.layout == Layout((("tensor",), ()))
    gradients = [
        embedding.values[embedding.gradients["tokens.weight"]].layout,
        head_.values[head_.gradients["logits.weight"]].layout,
    ]
    assert gradients == [Layout((("tensor",), ()), (("data", "sum"),))] * 2


def test_tied_parameters_with_gradients_that_do_not_add_are_refused():
    graph = GPT.graph(4, 4, DType.FP32, 16)
    chosen = strategies(graph, {"tokens": {"batch": ["data"]}, "logits": {"seq": TENSOR}})
    with pytest.raises(PlanError, match="tied parameters need gradients in one layout, but have") as caught:
        shard(differentiate(graph, DType.FP32), chosen, MESH, router(MESH))
    (problem,) = caught.value.problems
    assert "embedding.tokens.weight (-, -) partial data" in problem.message
    assert problem.path == "parallel.strategies"


def test_layers_with_equal_strategies_share_one_block():
    made = by_recipe(LLAMA, "megatron")
    assert [each.block for each in made.instances] == ["embedding", "layer", "layer", "head"]


def test_layers_with_other_strategies_get_blocks_of_their_own():
    graph = LLAMA.graph(4, 4, DType.FP32, 16)
    chosen = strategies(graph, {})
    unequal = {
        **chosen.by_instance,
        "layers.1": {**chosen.of("layers.1"), "mlp.down": SPLIT({"ffn": TENSOR})},
    }
    made = sharded(graph, Strategies(unequal, chosen.sources))
    assert [each.block for each in made.instances] == ["embedding", "layer", "layer#1", "head"]


# -- what backward keeps --------------------------------------------------------------------------------


def test_what_backward_needs_is_kept_as_its_producer_made_it_and_gathered_again():
    layer = by_recipe(LLAMA, "megatron_sp").blocks["layer"]
    for name in ("attention.norm", "mlp.norm"):
        gathered = [
            node.name for node in layer.nodes if node.origin == name and isinstance(node.operator, Movement)
        ]
        assert gathered == [f"{name}.all_gather", f"{name}.all_gather2"]
        again = next(node for node in layer.nodes if node.name == f"{name}.all_gather2")
        assert again.phase is BACKWARD
        assert again.inputs == (f"{name}.out",)
    copies = {
        node.outputs[0] for node in movements_of(layer, FORWARD) if node.operator.kind is Kind.ALL_GATHER
    }
    read = {value for node in layer.nodes if node.phase is BACKWARD for value in node.inputs}
    assert not copies & read, "a redistributed copy lives inside its phase"


def test_every_movement_says_why():
    layer = by_recipe(LLAMA, "megatron_sp").blocks["layer"]
    why = {node.name: node.why for node in movements_of(layer)}
    assert why["attention.norm.all_gather"] == (
        "attention.norm.out lies as (data, tensor, -); attention.qkv needs it as (data, -, -)"
    )
    assert why["mlp.down.reduce_scatter"] == (
        "mlp.down.out lies as (data, -, -) partial tensor; mlp.residual needs it as (data, tensor, -)"
    )
    assert all(why.values())


# -- any strategies at all ------------------------------------------------------------------------------


@st.composite
def choices(draw, node, block):
    """A strategy for one operator on a 2 x 2 mesh: any allowed use of one or two axes."""
    dims = node.operator.dims()
    extent = {}
    for names, value in zip(dims.inputs, node.inputs, strict=True):
        extent.update(zip(names, block.values[value].type.shape, strict=True))
    whole = [dim for dim, _ in dims.whole if node.operator.decompose(frozenset({dim})) is None]
    free = [dim for dim, size in extent.items() if size % 4 == 0 and dim not in whole]
    found: dict[str, list[str]] = {}
    for axis in draw(st.permutations(MESH.names)):
        where = draw(st.sampled_from([None, *free]))
        if where is not None:
            found.setdefault(where, []).append(axis)
    return Strategy.of(found)


ANY = {
    "llama": replace(LLAMA, layers=1, heads=16, kv_heads=4, head_dim=4, ffn=4),
    "gpt": replace(GPT, layers=1, head_dim=4, ffn=4, tied=False),
}


@pytest.mark.parametrize("name", sorted(ANY))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_allowed_strategies_give_the_values_of_one_device(name, data):
    graph = ANY[name].graph(4, 4, DType.FP32, 16)
    by_instance = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        by_instance[instance.name] = {
            node.name: data.draw(choices(node, block), label=node.name) for node in block.nodes
        }
    sources = {instance: dict.fromkeys(found, "test") for instance, found in by_instance.items()}
    sharded(graph, Strategies(by_instance, sources))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_parameter_may_be_used_in_two_ways(data):
    write = Writer()
    x, w = write.input("x", 4, 8), write.parameter("w", 8, 8)
    h = write.matmul("h", x, w, "batch hidden, hidden inner -> batch inner")
    write.matmul("y", h, w, "batch hidden, hidden inner -> batch inner")
    block = write.block("y")
    chosen = {
        node.name: dict(data.draw(choices(node, block), label=node.name).splits) for node in block.nodes
    }
    one(block, chosen)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_strategies_of_operators_that_share_their_input(data):
    """Gradients meet in any mixture of split, replicated and partial."""
    write = Writer()
    x = write.input("x", 4, 8)
    spec = "batch hidden, hidden out -> batch out"
    q, k = (write.matmul(name, x, write.parameter(f"w{name}", 8, 8), spec) for name in "qk")
    bent = write.add("bent", Gelu(("batch", "hidden")), x)
    total = write.add("total", Add(("batch", "out"), 3), q, k, bent)
    narrow = write.matmul("narrow", total, write.parameter("w", 8, 4), "batch out, out low -> batch low")
    biased = write.add("biased", Bias(("batch", "low"), ("low",)), narrow, write.parameter("b", 4))
    write.add("y", Swiglu(("batch", "low")), biased, narrow)
    block = write.block("y")
    chosen = {
        node.name: dict(data.draw(choices(node, block), label=node.name).splits) for node in block.nodes
    }
    one(block, chosen)


def test_a_tied_parameter_lies_as_its_first_user_wants_and_its_gradients_follow():
    graph = GPT.graph(4, 4, DType.FP32, 16)
    rows = {"batch": ["data"], "seq": TENSOR}
    chosen = {"tokens": {"batch": ["data"], "vocab": TENSOR}, "logits": rows, "loss": rows}
    made = sharded(graph, chosen)
    wanted = Layout((("tensor",), ()), (("data", "sum"),))
    for name, value in (("embedding", "tokens.weight"), ("head", "logits.weight")):
        block = made.blocks[name]
        assert block.values[block.gradients[value]].layout == wanted
    assert "reduce_scatter tensor" in told(made.blocks["head"], BACKWARD)
