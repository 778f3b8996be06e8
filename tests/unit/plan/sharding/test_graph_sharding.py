from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.layout import Layout, Mesh, Movement, MovementKind, Strategy
from simcluster.model import Phase
from simcluster.model.operators.activation import Gelu, Swiglu
from simcluster.model.operators.pointwise import Add, Bias
from simcluster.plan.strategies.assignment import Strategies
from simcluster.work import DType
from tests.support.pass_graphs import recipe_strategies
from tests.support.plan_graphs import (
    GPT,
    LLAMA,
    MESH,
    TENSOR,
    Writer,
    movements_of,
    one,
    sharded,
    strategies,
    told,
)

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD

# -- recipes on a transformer ---------------------------------------------------------------------------
SHARED_KEYS = replace(LLAMA, kv_heads=1)
MODELS = pytest.mark.parametrize("model", [LLAMA, GPT, SHARED_KEYS], ids=["llama", "gpt", "shared keys"])


def by_recipe(model, recipe, mesh=MESH, seq=4):
    graph = model.graph(4, seq, DType.FP32, 4 * seq)
    return sharded(graph, recipe_strategies(graph, recipe, mesh), mesh)


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
        node.name
        for node in movements_of(layer, BACKWARD)
        if node.operator.kind is MovementKind.REDUCE_SCATTER
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


@pytest.mark.parametrize(
    ("tokens", "logits", "partial"),
    [
        ({"batch": ["data"]}, {"seq": TENSOR}, ()),
        ({"batch": ["data"], "seq": TENSOR}, {"batch": ["data"]}, ("data",)),
        ({"batch": ["data"]}, {"batch": ["data"], "vocab": TENSOR}, ("data",)),
    ],
)
def test_gradients_of_tied_parameters_add_while_all_of_them_are_partial(tokens, logits, partial):
    """Over what only some are partial they are reduced in every micro-batch, before they add."""
    graph = GPT.graph(4, 4, DType.FP32, 16)
    made = sharded(graph, strategies(graph, {"tokens": tokens, "logits": logits}))
    embedding, head_ = made.blocks["embedding"], made.blocks["head"]
    table = embedding.values["tokens.weight"].layout
    assert head_.values["logits.weight"].layout == table
    for block, name in ((embedding, "tokens.weight"), (head_, "logits.weight")):
        assert block.values[block.gradients[name]].layout == table.with_partial(partial)


def test_layers_with_equal_strategies_share_one_block():
    made = by_recipe(LLAMA, "megatron")
    assert [each.block for each in made.instances] == ["embedding", "layer", "layer", "head"]


def test_layers_with_other_strategies_get_blocks_of_their_own():
    graph = LLAMA.graph(4, 4, DType.FP32, 16)
    chosen = strategies(graph, {})
    unequal = {
        **chosen.by_instance,
        "layers.1": {**chosen.of("layers.1"), "mlp.down": Strategy.of({"ffn": TENSOR})},
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
        node.outputs[0]
        for node in movements_of(layer, FORWARD)
        if node.operator.kind is MovementKind.ALL_GATHER
    }
    read = {value for node in layer.nodes if node.phase is BACKWARD for value in node.inputs}
    assert not copies & read, "a redistributed copy lives inside its phase"


def test_every_movement_says_why():
    layer = by_recipe(LLAMA, "megatron_sp").blocks["layer"]
    why = {node.name: node.why for node in movements_of(layer)}
    assert why["attention.norm.all_gather"] == (
        "attention.norm.out has layout (data, tensor, -); attention.qkv needs (data, -, -)"
    )
    assert why["mlp.down.reduce_scatter"] == (
        "mlp.down.out has layout (data, -, -) partial tensor; mlp.residual needs (data, tensor, -)"
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
    whole = [dim for dim, _ in dims.unsplittable if node.operator.decompose(frozenset({dim})) is None]
    free = [dim for dim, size in extent.items() if size % 4 == 0 and dim not in whole]
    found: dict[str, list[str]] = {}
    for axis in draw(st.permutations(MESH.names)):
        where = draw(st.sampled_from([None, *free]))
        if where is not None:
            found.setdefault(where, []).append(axis)
    return Strategy.of(found)


@st.composite
def behind(draw, node, block):
    """A strategy for one operator whose results are redistributed behind it, or scattered forward."""
    made = draw(choices(node, block))
    dims = node.operator.dims()
    follows = dims.output_layouts(made)
    first = follows[0]
    sizes = block.values[node.outputs[0]].type.shape
    if first.partial and sizes and sizes[0] % 4 == 0 and draw(st.booleans()):
        outer, *rest = first.dims
        scattered = Layout(((*outer, *first.partial_axes), *rest))
        return replace(made, outputs=((0, scattered),), scatter=True)
    found = []
    for index, (value, layout) in enumerate(zip(node.outputs, follows, strict=True)):
        shape = block.values[value].type.shape
        split: list[list[str]] = [[] for _ in shape]
        for axis in draw(st.permutations(MESH.names)):
            where = draw(st.sampled_from([None, *(dim for dim, size in enumerate(shape) if size % 4 == 0)]))
            if where is not None:
                split[where].append(axis)
        wanted = Layout(tuple(map(tuple, split)))
        if wanted != layout and draw(st.booleans()):
            found.append((index, wanted))
    return replace(made, outputs=tuple(found))


ROUTERS = {
    "shortest": {},
    "mindspore": {"infers": True, "all_to_all": False},
    "mindspore with all-to-all": {"infers": True},
}

ANY = {
    "llama": replace(LLAMA, layers=1, heads=16, kv_heads=4, head_dim=4, ffn=4),
    "gpt": replace(GPT, layers=1, head_dim=4, ffn=4),
}


@pytest.mark.parametrize("name", sorted(ANY))
@settings(max_examples=10)
@given(data=st.data())
def test_any_allowed_strategies_give_the_values_of_one_device(name, data):
    graph = ANY[name].graph(4, 4, DType.FP32, 16)
    by_instance = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        by_instance[instance.name] = {
            node.name: data.draw(choices(node, block) | behind(node, block), label=node.name)
            for node in block.nodes
        }
    sources = {instance: dict.fromkeys(found, "test") for instance, found in by_instance.items()}
    how = data.draw(st.sampled_from(sorted(ROUTERS)), label="router")
    sharded(graph, Strategies(by_instance, sources), way=ROUTERS[how])


@settings(max_examples=10)
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


@settings(max_examples=16)
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
