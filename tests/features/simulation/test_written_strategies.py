"""Strategies by operand, in numbers and with layouts: the same plans as by dim, and right in values."""

from __future__ import annotations

import pytest

from simcluster.simulation.compose.build import build_scenario, plan_scenario
from simcluster.simulation.run_scenario import simulate
from simcluster.simulation.verification import shrink_sizes
from simcluster.simulation.verification.single_device_comparison import verify
from simcluster.simulation.views.effective_strategies import effective_strategies_of
from simcluster.simulation.views.operator_layouts import layouts_document
from tests.support.covering import quick, quick_at
from tests.support.folding import assert_folded_is_unfolded
from tests.support.scenarios import TINY_GPT, scenario, under
from tests.support.written_strategies import FORMS, LAYER

MESH = {"pipeline": 2, "data": 2, "tensor": 2}
EIGHT = {"data": 2, "tensor": 4}


def written(name, mesh=EIGHT, **options):
    return scenario(
        mesh,
        strategies=FORMS[name],
        recipe="data",
        micro_batch=4,
        micro_batches=2,
        training={"seq_len": 16},
        **options,
    )


@pytest.mark.parametrize("name", quick(FORMS, "interleaved"))
def test_every_form_computes_what_one_device_computes(name):
    found = verify(written(name))
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.combinations
@pytest.mark.parametrize("how", ["mindspore", {"kind": "mindspore", "enable_alltoall": True}], ids=str)
@pytest.mark.parametrize("name", quick(FORMS, "numbers"))
def test_redistributed_as_mindspore_infers_they_do_too(name, how):
    which = written(name, redistribution=how)
    exchanges = any("all_to_all" in kind for kind in every(which))
    assert exchanges <= (how != "mindspore"), "enable_alltoall is false unless set"
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


def every(which):
    return [
        node["kind"]
        for block in layouts_document(build_scenario(which))
        for node in block["nodes"]
        if "why" in node
    ]


@pytest.mark.parametrize("name", quick(FORMS, "numbers"))
def test_pasted_they_give_the_same_times_and_bytes(name):
    """Numbers become layouts over the axes as they were cut."""
    before = written(name)
    spec = before.spec.model_dump(mode="json", exclude_unset=True)
    spec["parallel"]["strategies"] = effective_strategies_of(plan_scenario(before))
    pasted = type(before).of(spec)
    assert build_scenario(pasted).program.digest() == build_scenario(before).program.digest()


def test_numbers_with_a_pipeline_count_the_ranks_of_a_stage():
    found = verify(written("numbers", {"pipeline": 2, "devices": 8}, roles={"batch": []}))
    assert found.agrees, found.fault or found.first_difference


def test_inputs_that_lie_over_an_axis_that_is_cut_lie_over_its_pieces():
    which = written("numbers", host="dgx-h100", devices=8)
    spec = which.spec.model_dump(mode="json", exclude_unset=True)
    spec["data"] = {"strategy": [[None, "tensor"], ["data", "tensor"]]}
    found = verify(type(which).of(spec))
    assert found.agrees, found.fault or found.first_difference


def test_large_meshes_are_shrunk_with_their_numbers(monkeypatch):
    """Numbers count the ranks of the large mesh; verify runs a small one that is cut alike."""
    monkeypatch.setattr(shrink_sizes, "MOST_RANKS", 16)
    forms = [{"match": f"{LAYER}mlp.down", "in": [[16, 1, 8], [8, 1]], "out": [[16, 8, 1]]}]
    model = {"layers": 2, "hidden": 64, "heads": 8, "ffn": 64, "vocab": 128}
    which = scenario(
        {"data": 16, "tensor": 8}, strategies=forms, recipe="megatron", model=model, devices=8, micro_batch=1
    )
    found = verify(which)
    assert found.num_ranks == 16
    assert found.agrees, found.fault or found.first_difference


def test_results_are_reported_by_the_axes_of_the_scenario():
    """Pieces of an axis are no business of the reader's where whole axes travel."""
    summary = simulate(written("numbers")).documents["summary"]
    assert set(summary["communication_bytes"]) <= {"data", "tensor", "data+tensor"}
    plan = simulate(written("numbers")).documents["plan"]
    assert plan["mesh"] == EIGHT
    assert "strategies cut tensor 4 into tensor.0 2 x tensor.1 2" in plan["notes"]
    cut = [{"match": f"{LAYER}mlp.up", "in": [[4, 1, 1], [1, 2], [1, 2]]}]
    sharded = simulate(scenario({"data": 8}, strategies=cut, optimizer_sharding={"zero": 1}, micro_batch=4))
    assert sharded.documents["plan"]["optimizer_sharding"]["axes"] == ["data"]


def kinds(which, name):
    return [
        f"{node['kind']}"
        for block in layouts_document(build_scenario(which))
        for node in block["nodes"]
        if "why" in node and node["phase"] == "forward" and node["inputs"][0][0].startswith(name)
    ]


@pytest.mark.parametrize("how", ["shortest", "mindspore"])
def test_a_forward_reduce_scatter_is_one(how):
    """Whatever is cheaper, and though MindSpore's inference would all-reduce the sum and split it."""
    found = kinds(written("scattered", redistribution=how), "mlp.down.out")
    assert found == ["reduce_scatter over tensor"]


# -- Megatron's plan by hand ----------------------------------------------------------------------------

BY_HAND = {
    "axes": [
        {"match": "embedding.tokens", "in": [["data", 1], ["tensor", 1]]},
        {
            "match": f"{LAYER}attention.qkv",
            "in": [["data", 1, 1], [1, "tensor", 1, 1], [1, "tensor", 1], [1, "tensor", 1]],
        },
        {"match": f"{LAYER}attention.qkv.q.bias", "in": [["data", 1, "tensor", 1, 1], ["tensor", 1, 1]]},
        {"match": f"{LAYER}attention.qkv.{{k,v}}.bias", "in": [["data", 1, "tensor", 1], ["tensor", 1]]},
        {
            "match": f"{LAYER}attention.core",
            "in": [["data", 1, "tensor", 1, 1], ["data", 1, "tensor", 1], None],
        },
        {
            "match": f"{LAYER}attention.out",
            "in": [["data", 1, "tensor", 1, 1], ["tensor", 1, 1, 1]],
            "out": [["data", 1, 1]],
        },
        {"match": f"{LAYER}mlp.up", "in": [["data", 1, 1], [1, "tensor"]]},
        {"match": f"{LAYER}mlp.up.bias", "in": [["data", 1, "tensor"], ["tensor"]]},
        {"match": f"{LAYER}mlp.activation", "in": [["data", 1, "tensor"]]},
        {"match": f"{LAYER}mlp.down", "in": [["data", 1, "tensor"], ["tensor", 1]]},
        {"match": "head.logits", "in": [["data", 1, 1], ["tensor", 1]]},
        {"match": "head.loss", "in": [["data", 1, "tensor"], ["data", 1]]},
    ]
}
NUMBER = {"data": 2, "tensor": 2}
BY_HAND["numbers"] = [
    {
        key: [dims and [NUMBER.get(entry, entry) for entry in dims] for dims in value]
        if key in ("in", "out")
        else value
        for key, value in entry.items()
    }
    for entry in BY_HAND["axes"]
]


@pytest.mark.parametrize("form", quick(BY_HAND, "numbers"))
@pytest.mark.parametrize("sharding", quick_at([None, {"zero": 1}], 1), ids=["whole", "zero"])
def test_megatron_by_hand_is_the_recipe_to_the_nanosecond_and_the_byte(form, sharding):
    options = {"model": {**TINY_GPT, "bias": True}, "optimizer_sharding": sharding}
    recipe = simulate(scenario(MESH, recipe="megatron", **options))
    by_hand = simulate(scenario(MESH, recipe="data", strategies=BY_HAND[form], **options))
    for name in ("start", "end", "bytes"):
        assert by_hand.spans[name].tolist() == recipe.spans[name].tolist()
    figures = [
        {name: value for name, value in run.documents["summary"].items() if name != "wall_s"}
        for run in (recipe, by_hand)
    ]
    assert figures[0] == figures[1]


# -- propagation ----------------------------------------------------------------------------------------

THREE = [
    {"match": f"{LAYER}attention.qkv", "split": {"heads": "tensor"}},
    {"match": f"{LAYER}mlp.up", "split": {"ffn": "tensor"}},
    {"match": "head.logits", "split": {"vocab": "tensor"}},
]
ONE = [{"match": "layers.0.mlp.norm", "split": {"seq": "tensor"}}]


@pytest.mark.combinations
@pytest.mark.parametrize("configured", quick_at([THREE, ONE], 0), ids=["three", "one"])
@pytest.mark.parametrize("model", [None, {**TINY_GPT, "bias": True, "tied": True}], ids=["llama", "gpt"])
def test_propagated_plans_compute_what_one_device_computes(configured, model):
    found = verify(scenario(MESH, strategies=configured, propagate=True, model=model))
    assert found.agrees, found.fault or found.first_difference


def test_propagation_pasted_gives_the_same_program():
    before = build_scenario(scenario(MESH, strategies=THREE, propagate=True))
    pasted = build_scenario(scenario(MESH, strategies=effective_strategies_of(before.plan), recipe="data"))
    assert pasted.program.digest() == before.program.digest()


def test_propagation_from_three_operators_finds_megatrons_layers():
    """But for the embedding, whose table nothing asks to be split, and what follows from that."""
    found = build_scenario(scenario(MESH, strategies=THREE, propagate=True)).plan
    recipe = build_scenario(scenario(MESH, recipe="megatron")).plan
    for name in ("layers.0", "layers.3", "head"):
        assert found.strategies.of(name) == recipe.strategies.of(name)
    (note,) = [note for note in found.notes if note.startswith("sharding propagation")]
    assert note.startswith("sharding propagation: 39 operators follow 9 that are configured; layouts cost ")


@pytest.mark.parametrize("name", quick(FORMS, "exchanged"))
def test_folded_is_unfolded_on_meshes_that_are_cut(name):
    assert_folded_is_unfolded(written(name, {"pipeline": 2, **EIGHT}, host="dgx-h100", devices=8))


def test_operators_that_only_the_large_model_has_are_not_missed_in_the_small_one():
    own = [
        {"match": "layers.{0,7}.mlp.up", "split": {"ffn": "data"}},
        {"match": "layers.7.mlp.down", "split": {}},
    ]
    found = verify(scenario({"data": 2}, strategies=own, model={**TINY_GPT, "layers": 8}))
    assert ("layers", "8", "2") in found.changes
    assert found.agrees, found.fault or found.first_difference


def test_a_result_gathered_right_behind_its_maker_waits_for_no_later_kernel():
    """Values are read after the rotation of queries and keys; their copy stands before it."""
    gathered = [
        {
            "match": f"{LAYER}attention.qkv",
            "split": {"heads": "tensor"},
            "out": [None, None, [["data", "tensor"], 1, 1, 1]],
        }
    ]
    which = scenario(EIGHT, strategies=gathered, recipe="megatron", micro_batch=4)
    found = verify(under(which, prefetch=0))
    assert found.agrees, found.fault or found.first_difference
