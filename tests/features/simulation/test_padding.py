"""Scenarios whose dims do not divide: refused unless padding is asked for; then right, at its price."""

from __future__ import annotations

import math
from types import MappingProxyType

import pytest

from simcluster.errors import PlanError
from simcluster.model import BlockBuilder, TensorType
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.elementwise import Elementwise
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.padding_mask import Mask
from simcluster.plan.sharding import padding
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.run_scenario import simulate
from simcluster.simulation.verification.single_device_comparison import compare_values, verify
from simcluster.simulation.views.operator_layouts import layouts_document
from simcluster.work import DType
from tests.support.covering import quick_at
from tests.support.random_graphs import UNEVEN, Network
from tests.support.random_plans import assert_right as assert_network_right
from tests.support.scenarios import TINY, TINY_GPT, scenario

SIX = {"layers": 2, "hidden": 30, "heads": 6, "kv_heads": 6, "ffn": 42, "vocab": 64, "head_dim": 4}
MESH = {"data": 2, "tensor": 4}
EVERYWHERE = [
    {"match": "layers.*.{attention,mlp}.{norm,residual}", "split": {"batch": [], "seq": ["tensor", "data"]}},
    {"match": "layers.*.mlp.{up,activation}", "split": {"batch": ["data", "tensor"]}},
    {"match": "layers.*.mlp.down", "split": {"batch": "tensor", "hidden": "data"}},
    {"match": "embedding.tokens", "split": {"batch": "data", "hidden": "tensor"}},
    {"match": "head.{logits,loss}", "split": {"batch": [], "seq": "data", "vocab": "tensor"}},
]


def uneven(mesh=MESH, **options):
    asked = {"model": SIX, "micro_batches": 2, "micro_batch": 3, "uneven": "pad", **options}
    return scenario(mesh, **{"training": {"seq_len": 7}, **asked})


def whole(which):
    """The comparisons of a scenario as it is, not shrunk."""
    built = build_scenario(which)
    comparisons, fault = compare_values(built.plan, built.cluster, "float64", seed=3)
    assert not fault
    assert comparisons
    return comparisons


def assert_right(which):
    wrong = [each for each in whole(which) if not each.agrees]
    assert not wrong, wrong[0]


@pytest.mark.parametrize(
    "options",
    quick_at(
        [
            {"recipe": "megatron"},
            {"recipe": "megatron_sp"},
            {"recipe": "megatron_sp", "optimizer_sharding": {"zero": 1}},
            {"recipe": "megatron", "optimizer_sharding": "fsdp"},
            {"recipe": "megatron", "strategies": EVERYWHERE},
            {"recipe": "data", "strategies": EVERYWHERE, "optimizer_sharding": {"zero": 3}},
            {
                "recipe": "megatron",
                "training": {"seq_len": 7, "optimizer": {"kind": "lamb", "weight_decay": 0.1, "clip": 0.05}},
            },
            {"recipe": "megatron_sp", "model": {**TINY_GPT, "heads": 6, "hidden": 30, "head_dim": 5}},
            {"recipe": "megatron_sp", "redistribution": "mindspore"},
            {"recipe": "megatron", "mesh": {"pipeline": 2, "tensor": 4}},
        ],
        5,
        9,
    ),
    ids=str,
)
def test_padded_plans_compute_what_one_device_computes(options):
    assert_right(uneven(**{"mesh": MESH, **options}))


def test_verify_shrinks_a_plan_so_that_it_still_pads():
    found = verify(uneven(recipe="megatron_sp"))
    assert found.agrees, found.fault or found.first_difference
    changes = {name: after for name, _, after in found.changes}
    assert int(changes["ffn"]) % 4
    assert int(changes["heads"]) % 4


def test_propagation_follows_padded_neighbours():
    strategies = [{"match": "layers.*.mlp.up", "split": {"batch": "data", "ffn": "tensor"}}]
    assert_right(uneven(propagate=True, strategies=strategies))


# -- refused ---------------------------------------------------------------------------------------------


def test_unasked_it_is_refused_and_the_refusal_says_how_to_ask():
    with pytest.raises(PlanError) as caught:
        build_scenario(uneven(uneven="refuse"))
    first = caught.value.problems[0]
    assert "heads 6 does not divide over tensor 4: 6 / 4 = 1.5" in first.message
    assert "parallel: {uneven: pad}" in first.hint


def test_windows_over_a_padded_dim_are_refused_in_words():
    model = {"family": "resnet", "blocks": [1, 1], "image": 64, "classes": 8, "width": 4}
    strategies = [{"match": "*stem.conv", "split": {"height": "tensor"}}]
    with pytest.raises(PlanError, match=r"height 64 .*: 64 / 3 = 21\.3.*; windows slide over height"):
        build_scenario(
            uneven({"tensor": 3}, devices=1, model=model, strategies=strategies, training={"seq_len": 1})
        )


# -- told ------------------------------------------------------------------------------------------------


def test_it_is_told_which_dims_are_padded_and_what_that_wastes():
    built = build_scenario(uneven(recipe="megatron"))
    notes = "\n".join(built.plan.notes)
    assert "heads 6 padded to 8 over tensor (4) in 8 operators: 25 % of that work is padding" in notes
    assert "ffn 42 padded to 44 over tensor (4) in 6 operators: 5 % of that work is padding" in notes
    nodes = {
        node["name"]: node
        for block in layouts_document(built)
        for node in block["nodes"]
        if block["block"] == "layer"
    }
    assert nodes["attention.core"]["padding"] == "heads 6 padded to 8"
    assert "padding" not in nodes["attention.norm"]


def test_nothing_is_told_where_everything_divides():
    built = build_scenario(scenario({"tensor": 4}, recipe="megatron", uneven="pad"))
    assert not [note for note in built.plan.notes if "of that work is padding" in note]


# -- alternatives ----------------------------------------------------------------------------------------


def test_an_alternative_that_divides_goes_before_padding():
    """4 key-value heads do not divide over 8 ranks, but the 8 queries of each do."""
    model = {**TINY, "heads": 32, "kv_heads": 4}
    chosen = build_scenario(
        scenario({"tensor": 8}, model=model, recipe="megatron", uneven="pad")
    ).plan.strategies
    assert chosen.of("layers.0")["attention.core"].axes("group") == ("tensor",)
    assert chosen.of("layers.0")["attention.core"].axes("heads") == ()


def test_where_none_divides_all_operators_pad_the_first():
    model = {**TINY, "heads": 6, "kv_heads": 6, "hidden": 30}
    chosen = build_scenario(
        scenario({"tensor": 4}, model=model, recipe="megatron", uneven="pad")
    ).plan.strategies
    for name in ("attention.qkv", "attention.rotary", "attention.core", "attention.out"):
        assert chosen.of("layers.0")[name].axes("heads") == ("tensor",)


# -- priced ----------------------------------------------------------------------------------------------


def test_what_divides_is_planned_as_without_leave_to_pad():
    for recipe in ("megatron", "megatron_sp"):
        asked, unasked = (
            build_scenario(scenario(MESH, recipe=recipe, uneven=uneven)) for uneven in ("pad", "refuse")
        )
        assert asked.program.digest() == unasked.program.digest()
        assert asked.plan.notes == unasked.plan.notes


def test_kernels_and_memory_are_those_of_the_padded_size():
    """6 heads over 4 ranks cost what 8 do, but for what masks add."""
    six, eight = (
        build_scenario(uneven(model={**SIX, "heads": heads, "kv_heads": heads, "ffn": 44}, recipe="megatron"))
        for heads in (6, 8)
    )
    for name in ("layer.forward", "layer.backward"):
        kernels = [
            {
                each.name: each.works
                for code in built.program.codes
                if code.name.startswith(name)
                for each in code.instructions
                if each.works and ".mask" not in each.name
            }
            for built in (six, eight)
        ]
        assert kernels[1]
        matrices = [name for name in kernels[1] if "attention" in name and name.rpartition(".")[2] != "grad"]
        assert matrices
        for each in matrices:
            assert kernels[0][each] == kernels[1][each]
    held = [
        sum(each.num_bytes for each in built.program.parts[0].residents if "attention" in each.name)
        for built in (six, eight)
    ]
    assert held[0] == held[1]
    times = [simulate(uneven(model={**SIX, "heads": heads, "kv_heads": heads})) for heads in (6, 8)]
    step = [run.documents["summary"]["step_time_s"] for run in times]
    assert step[0] >= step[1]


# -- needed ----------------------------------------------------------------------------------------------


def test_masks_stand_only_where_something_would_count():
    """Of the heads' gradients that are summed over; weights, products and attention keep zeros zero."""
    built = build_scenario(uneven(recipe="megatron"))
    masked = {node.name for node in built.plan.graph.blocks["layer"].nodes if isinstance(node.operator, Mask)}
    assert masked == {
        "attention.rotary.grad.out.mask",
        "attention.rotary.grad.out1.mask",
        "attention.core.grad.out2.mask",
    }


def curved(loss, split=MappingProxyType({"inner": ["a", "b"]})):
    """A product, a function that is not zero at zero, another product, and the loss, with its strategy."""
    build = BlockBuilder("net", DType.FP32)
    tokens = (UNEVEN.batch, UNEVEN.seq)
    x = build.feed("x", TensorType((*tokens, 5), DType.FP32))
    rows, inner, classes = (("batch", "seq", last) for last in ("in", "inner", "classes"))
    first, second = build.parameter("w0", (5, 6)), build.parameter("w1", (6, 9))
    x = build.add("up", Matmul(rows, (("in", "inner"),), (inner,)), x, first)
    x = build.add("curve", Elementwise("sigmoid", (inner,), inner), x)
    x = build.add("down", Matmul(inner, (("inner", "classes"),), (classes,)), x, second)
    targets = build.feed("targets", TensorType(tokens, DType.INT64), 9)
    value = build.add("loss", CrossEntropy(1 / 60, classes), x, targets)
    strategies = [
        {"match": "layers.0.{up,curve,down}", "split": {"batch": [], **split}},
        {"match": "layers.0.loss", "split": {"batch": [], **loss}},
    ]
    return Network(build.block(outputs={}, loss=value)), strategies


SEQ = {"seq": ["a"]}
SPLITS = {
    0.0: (SEQ, SEQ),
    -1.0: (SEQ,),
    1.0: ({**SEQ, "classes": ["b"]},),
    -math.inf: ({"classes": ["a", "b"]},),
}


@pytest.mark.parametrize("fill", SPLITS)
def test_without_masks_values_are_wrong(fill, monkeypatch):
    """Each kind of mask is needed: without it something differs from one device."""
    drawn = curved(*SPLITS[fill])
    assert_network_right(drawn, "sgd", None, 1, UNEVEN)
    made = padding.needed_padding

    def changed(dims, padded, floating):
        found = made(dims, padded, floating)
        assert not isinstance(found, str)
        return tuple({dim: value for dim, value in each.items() if value != fill} for each in found)

    monkeypatch.setattr(padding, "needed_padding", changed)
    with pytest.raises(AssertionError):
        assert_network_right(drawn, "sgd", None, 1, UNEVEN)


@pytest.mark.parametrize("sharding", [None, {"zero": 1}])
def test_gradients_keep_zeros_in_their_padding(sharding, monkeypatch):
    """A rank without any column of the first product still has sigmoids of zero: a half each."""
    optimizer = {"kind": "momentum", "clip": 0.01}
    assert_network_right(curved({}), optimizer, sharding, 2, UNEVEN)
    monkeypatch.setattr(padding.Padding, "unknown", lambda self, value, layout, clean: ())
    with pytest.raises(AssertionError):
        assert_network_right(curved({}), optimizer, sharding, 2, UNEVEN)
