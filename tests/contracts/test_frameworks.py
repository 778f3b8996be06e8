"""Every shipped framework profile: sourced, told in words, runs, is no faster than ideal, computes what one
device computes, and holds the bytes per parameter that its documentation says.
"""

from __future__ import annotations

import itertools

import pytest

from simcluster.layout import Movement
from simcluster.model import Operator
from simcluster.model.operators.pointwise import Accumulate
from simcluster.plan.diagnostics.profile_description import describe_profile
from simcluster.plan.spec.framework import IDEAL, FrameworkSpec
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.compose.build import plan_scenario
from simcluster.simulation.verification.single_device_comparison import verify_plan
from tests.support.covering import covering, quick, thorough_but_few
from tests.support.recipe_choices import label
from tests.support.scenarios import TINY, TINY_GPT, scenario, under

PROFILES = sorted(FrameworkSpec.entries())
WANTED = {
    "ideal",
    "megatron-lm-2021",
    "megatron-lm-2022",
    "megatron-core",
    "megatron-deepspeed",
    "deepspeed-zero",
    "ddp",
    "fsdp",
    "torchtitan",
    "llm-foundry",
    "nemo",
    "mindformers",
    "mindspeed-llm",
    "mindspore-graph",
    "mindspore-pynative",
}


def with_framework(name, mesh, **options) -> Scenario:
    which = scenario(mesh, **options)
    return Scenario(which.spec.model_copy(update={"framework": FrameworkSpec.load(name)}), None, which.folder)


def test_the_frameworks_people_use_are_there():
    assert set(PROFILES) >= WANTED


@pytest.mark.parametrize("name", PROFILES)
def test_it_has_a_title_a_source_and_a_phrase_for_every_change(name):
    spec = FrameworkSpec.load(name)
    assert spec.title
    assert spec.source
    phrases = describe_profile(spec.changes())
    assert all(phrases)
    assert bool(phrases) == (name != IDEAL)


def _families(kind):
    return {getattr(kind, "family", None)}.union(*map(_families, kind.__subclasses__()))


@pytest.mark.parametrize("name", PROFILES)
def test_it_names_families_of_operators_that_there_are(name):
    spec = FrameworkSpec.load(name)
    named = {
        *itertools.chain(*spec.fuse),
        *spec.passes,
        *(() if spec.accumulate == "all" else spec.accumulate),
    }
    assert named <= _families(Operator)


@pytest.mark.combinations
@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(("zero", "model"), [(0, TINY), (1, TINY_GPT)], ids=["llama", "gpt"])
def test_it_says_what_it_changes_and_is_no_faster_than_ideal_at_the_same_work(name, model, zero):
    """The same number formats, a vocabulary that needs no padding under any profile, and as much or as little
    host time per operator: a graph that is sunk to the device needs none.
    """
    options = {
        "mesh": {"pipeline": 2, "data": 2, "tensor": 2},
        "model": {**model, "vocab": 256},
        "host": "dgx-h100",
        "training": {"precision": {"compute": "bf16", "gradients": "fp32"}},
        "optimizer_sharding": {"zero": zero},
    }
    dispatch = FrameworkSpec.load(name).dispatch
    own, ideal = with_framework(name, **options), under(with_framework(IDEAL, **options), dispatch=dispatch)
    found, least = (simulate(which).documents for which in (own, ideal))
    assert found["summary"]["step_time_s"] >= least["summary"]["step_time_s"] * (1 - 1e-12) > 0
    assert found["plan"]["framework"] == name
    assert bool(found["plan"]["framework_changes"]) == (name != IDEAL)


DENSE = {
    "model": {"use": "llama2-7b", "layers": 8},
    "mesh": {"data": 4, "tensor": 2},
    "recipe": "megatron_sp",
}
MIXTURE = {
    "model": {"use": "mixtral-8x7b", "layers": 2},
    "mesh": {"data": 1, "expert": 8},
    "recipe": "megatron",
}


@pytest.mark.combinations
@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("choice", [DENSE, MIXTURE], ids=["dense", "mixture"])
def test_a_step_of_common_sizes_uses_a_plausible_part_of_the_peak(name, choice):
    """On one host of the devices that the framework is made for. Published steps of large models use 0.2 to
    0.6; with few layers and no network a little more is possible.
    """
    host = "atlas-800t-a2" if name.startswith("mind") else "dgx-a100"
    which = with_framework(
        name,
        **choice,
        host=host,
        devices=8,
        training={"global_batch": 32, "micro_batch": 1, "seq_len": 4096, "precision": "bf16"},
        optimizer_sharding={"zero": 1},
    )
    found = simulate(which).documents["summary"]
    assert found["fits"]
    assert 0.2 < found["mfu"] < 0.72


# frameworks.md sections 1, 5, 7 and 8: bytes of parameters, gradients and optimizer states per parameter,
# for Adam with fp32 states: (what every rank holds, what data ranks share). Megatron's documentation counts
# 20 and 4 + 16 for fp16: 4 of these are fp32 copies of gradients, which zero_grad drops before the next
# forward.
BYTES = {
    ("megatron-lm-2021", "fp16"): {0: (16, 0)},
    ("megatron-lm-2021", "bf16"): {0: (18, 0)},
    ("megatron-lm-2022", "fp16"): {0: (16, 0), 1: (4, 12)},
    ("megatron-lm-2022", "bf16"): {0: (18, 0), 1: (6, 12)},
    ("megatron-core", "fp16"): {0: (16, 0), 1: (4, 12)},
    ("megatron-core", "bf16"): {0: (18, 0), 1: (6, 12)},
    ("megatron-core", "fp32"): {0: (16, 0), 1: (8, 8)},
    ("megatron-deepspeed", "bf16"): {1: (6, 12)},
    ("deepspeed-zero", "fp16"): {0: (16, 0), 1: (4, 12)},
    ("deepspeed-zero", "bf16"): {0: (16, 0), 1: (4, 12)},
    ("ddp", "fp32"): {0: (16, 0)},
    ("ddp", "bf16"): {0: (16, 0)},
    ("fsdp", "bf16"): {0: (16, 0)},
    ("torchtitan", "bf16"): {0: (16, 0)},
    ("llm-foundry", "bf16"): {0: (16, 0)},
    ("nemo", "bf16"): {1: (6, 12)},
    ("mindformers", "bf16"): {0: (16, 0)},
    ("mindspeed-llm", "bf16"): {0: (18, 0)},
    ("mindspore-graph", "bf16"): {0: (16, 0)},
    ("mindspore-pynative", "bf16"): {0: (16, 0)},
}
_STATES = ("parameters", "gradients", "optimizer_states")


@pytest.mark.parametrize(
    ("name", "compute", "zero"),
    [(*key, zero) for key, rows in BYTES.items() for zero in rows],
)
def test_bytes_per_parameter(name, compute, zero):
    which = with_framework(
        name,
        {"data": 2},
        host="dgx-h100",
        model={**TINY, "vocab": 256},
        training={"precision": compute, "optimizer": "adam"},
        optimizer_sharding={"zero": zero},
    )
    built = build_scenario(which)
    (stage,) = built.program.parts
    held = sum(each.num_bytes for each in stage.residents if each.category in _STATES)
    own, shared = BYTES[name, compute][zero]
    # The loss has an accumulator of four bytes.
    assert held - 4 == (own + shared / 2) * built.plan.logical.num_parameters


def test_every_profile_of_the_table_is_measured():
    assert {name for name, _ in BYTES} == WANTED - {IDEAL}


PLACES = [
    ("data", {"data": 4}),
    ("data", {"pipeline": 3, "data": 2}),
    ("megatron", {"pipeline": 2, "data": 2, "tensor": 2}),
    ("megatron_sp", {"tensor": 2, "data": 2}),
    ("megatron_sp", {"pipeline": 2, "tensor": 2}),
]
ROWS = list(
    covering(
        {
            "framework": PROFILES,
            "place": PLACES,
            "model": ["llama", "gpt"],
            "zero": [0, 1],
            "recompute": ["none", "all"],
            "precision": ["fp32", "fp16", "bf16"],
            "micro_batches": [1, 3],
        },
        small=("micro_batches",),
    )
)


def shown_by_compositions(row):
    """Their contract has every profile with every other choice but fp16."""
    return row["precision"] != "fp16"


@pytest.mark.parametrize(
    "row",
    thorough_but_few(ROWS, ["framework"], shown_by_compositions),
    ids=lambda row: f"{row['framework']}-{label(row)}",
)
def test_it_computes_what_one_device_computes(row):
    recipe, mesh = row["place"]
    which = with_framework(
        row["framework"],
        mesh,
        model={"llama": TINY, "gpt": TINY_GPT}[row["model"]],
        host="dgx-h100",
        micro_batches=row["micro_batches"],
        training={"precision": row["precision"]},
        recipe=recipe,
        optimizer_sharding={"zero": row["zero"]},
        recompute={"layers": row["recompute"]},
    )
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}


def test_every_profile_meets_every_place():
    met = {(row["framework"], row["place"][0], tuple(row["place"][1].items())) for row in ROWS}
    places = [(recipe, tuple(mesh.items())) for recipe, mesh in PLACES]
    assert met == {(name, *place) for name, place in itertools.product(PROFILES, places)}


SMALL = {"hidden": 32, "heads": 4, "vocab": 32}
BERT = {"family": "bert", "layers": 2, "max_positions": 16, **SMALL}
T5 = {"family": "t5", "encoder_layers": 2, "decoder_layers": 2, **SMALL}
PARTS, WHOLE = {"pipeline": 2, "context": 2, "data": 2}, {"pipeline": 2, "data": 2}
MOVED = [(name, BERT, PARTS, "1f1b") for name in ("ddp", "megatron-core", "mindformers")]
MOVED += [(name, T5, WHOLE, "interleaved") for name in ("fsdp", "llm-foundry")]
MOVED += [
    (name, T5, WHOLE, kind)
    for name in ("megatron-core", "mindformers")
    for kind in ("interleaved", "v_half", "zb_v")
]


@pytest.mark.parametrize(
    ("name", "model", "mesh", "kind"),
    quick(MOVED, *MOVED[::4]),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_gradients_that_move_into_their_buffers_do_as_they_count(name, model, mesh, kind):
    """Position tables over parts of sequences, and biases of positions that several stages read."""
    which = with_framework(name, mesh, model=model, host="dgx-h100", micro_batches=2, schedule={"kind": kind})
    plan = plan_scenario(which)
    found = verify_plan(which, plan)
    assert found.agrees, found.fault or found.first_difference
    for block in plan.graph.blocks.values():
        moved = {out for node in block.nodes if isinstance(node.operator, Movement) for out in node.outputs}
        adding = [node for node in block.nodes if isinstance(node.operator, Accumulate)]
        assert not any(moved.intersection(node.inputs) for node in adding)
