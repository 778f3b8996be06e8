"""The scenario's fusion: how many collectives carry how many bytes, and that values stay right."""

from __future__ import annotations

import itertools

import pytest

from simcluster.errors import PlanError, ScenarioError
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.views.operator_layouts import layouts_document
from simcluster.simulation.views.plan_description import plan_document
from tests.support.covering import quick
from tests.support.scenarios import TINY, TINY_GPT, scenario, under

# With 2^18 vocabulary entries of 32 fp32 numbers, embedding and head are 32 MB each.
LARGE = {**TINY, "vocab": 2**18}
INDEX = {"all_reduce": {"mode": "index", "config": [3, 10]}}
SIZE = {"mode": "size", "config": 1}
AUTO = {"mode": "auto"}
CLOSED = {"openstate": False}
ROWS = {"states": True, "split": "rows", "min_bytes": "1 kB"}
HIDDEN, FFN, VOCAB, LAYERS = 32, 64, 128, 4
NORM, HEAD = 4 * HIDDEN, 4 * HIDDEN * VOCAB
"""Bytes of fp32 gradients: of a norm, of the head's or the embedding's matrix."""


def collectives(which, operation):
    """Bytes of the collectives once per step that are no gathers, in the order in which they start."""
    spans = simulate(which).spans
    mine = (spans.text("kind") == "collective") & (spans.text("stream") == "data (step)")
    rows = zip(
        spans["start"][mine].tolist(),
        spans.text("operator")[mine].tolist(),
        spans["bytes"][mine].tolist(),
        strict=True,
    )
    return [size for _, name, size in sorted(rows) if name.endswith(operation) and size > 4]


def agrees(which):
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


def notes(which):
    return plan_document(build_scenario(which))["notes"]


def buckets(which):
    return plan_document(build_scenario(which))["gradient_buckets"]


# -- number and bytes -------------------------------------------------------------------------------------


def test_indices_count_gradients_from_the_last_layer_on():
    """Ready first: the head's matrix, its norm, then a layer from its last matrix to its first norm."""
    which = scenario({"data": 2}, fusion=INDEX)
    down = up = gate = 4 * HIDDEN * FFN
    out, norm = 4 * HIDDEN**2, NORM
    first = HEAD + NORM + down
    layer_rest = up + gate + norm + out + 2 * (4 * HIDDEN**2 // 2) + 4 * HIDDEN**2
    total = sum(4 * kind.num_elements for _, kind in build_scenario(which).plan.logical.parameters())
    assert collectives(which, "all_reduce") == [first, layer_rest, total - first - layer_rest]
    assert buckets(which) == {"all_reduce": {"gradients": [3, 10]}, "reduce_scatter": "layer"}
    short = scenario({"data": 2}, all_reduce_fusion_config=[3, 10])
    assert build_scenario(short).program.digest() == build_scenario(which).program.digest()


def test_indices_beyond_the_last_gradient_close_nothing():
    which = scenario({"data": 2}, fusion={"all_reduce": {"mode": "index", "config": [1, 1000]}})
    assert collectives(which, "all_reduce")[0] == HEAD
    assert len(collectives(which, "all_reduce")) == 2


def test_auto_closes_a_bucket_at_64_mb():
    """64 MB are full exactly with the embedding: 2 x 32 MB and what lies between fill the only bucket."""
    whole = scenario({"data": 2}, model=LARGE, fusion={"all_reduce": AUTO})
    assert len(collectives(whole, "all_reduce")) == 1
    larger = scenario({"data": 2}, model={**TINY, "vocab": 2**19}, fusion={"all_reduce": AUTO})
    first, rest = collectives(larger, "all_reduce")
    assert first == 64 * 2**20
    assert rest > 64 * 2**20


def test_size_is_in_mb_of_two_to_the_twenty():
    which = scenario({"data": 2}, model={**TINY, "vocab": 2**13}, fusion={"all_reduce": SIZE})
    found = collectives(which, "all_reduce")
    assert found[0] == 2**20
    assert len(found) == 2
    assert buckets(which)["all_reduce"] == {"bytes": 2**20}


def test_closed_every_gradient_is_a_collective():
    for switches in ({}, {"reduction": {"bucket": "whole", "limit": {"bytes": "5 kB"}, "copies": True}}):
        which = under(scenario({"data": 2}, fusion=CLOSED), **switches)
        wanted = sorted(4 * kind.num_elements for _, kind in build_scenario(which).plan.logical.parameters())
        assert sorted(collectives(which, "all_reduce")) == wanted
        assert set(buckets(which).values()) == {"nothing"}
    agrees(which)


def test_closed_every_weight_is_gathered_by_itself():
    which = scenario({"data": 2}, optimizer_sharding={"zero": 1}, fusion=CLOSED)
    count = len(list(build_scenario(which).plan.logical.parameters()))
    assert len(collectives(which, "all_gather")) == count
    assert len(collectives(which, "reduce_scatter")) == count
    agrees(which)


@pytest.mark.parametrize(
    "sharded",
    quick([{"zero": 2}, {"zero": 3}, "fsdp", {"mindspore": "level3", "min_bytes": "0 B"}], "fsdp"),
)
def test_closed_units_travel_in_parts(sharded):
    def number(fusion):
        which = scenario({"data": 2}, optimizer_sharding=sharded, **fusion)
        spans = simulate(which).spans
        table = spans.where(spans.text("kind") == "collective")
        return len(table), sum(table["bytes"].tolist())

    (together, size), (apart, same) = number({}), number({"fusion": CLOSED})
    assert apart > 2 * together
    assert size == same
    agrees(scenario({"data": 2}, optimizer_sharding=sharded, fusion=CLOSED))


def test_scattered_gradients_have_buckets_of_their_own():
    which = scenario({"data": 2}, optimizer_sharding={"zero": 1}, fusion={"reduce_scatter": AUTO})
    total = sum(4 * kind.num_elements for _, kind in build_scenario(which).plan.logical.parameters())
    assert collectives(which, "reduce_scatter") == [total]


def test_each_operation_follows_its_own_rule():
    """Norms are below min_bytes, so they stay whole and are all-reduced; matrices are scattered."""

    def found(**fusion):
        which = scenario({"data": 2}, micro_batches=1, optimizer_sharding=ROWS, **fusion)
        return collectives(which, "all_reduce"), collectives(which, "reduce_scatter")

    norms, matrices = found()
    one, kept = found(fusion={"all_reduce": AUTO})
    loss = 4  # travels along with the norm of the head, layer by layer
    assert one == [sum(norms) - loss] == [(2 * LAYERS + 1) * NORM]
    assert kept == matrices
    one_norm, (kept, one) = one, found(fusion={"reduce_scatter": AUTO})
    assert (kept, one) == (norms, [sum(matrices)])
    both = {"all_reduce": AUTO, "reduce_scatter": AUTO}
    assert found(fusion=both) == (one_norm, [sum(matrices)])
    agrees(scenario({"data": 2}, optimizer_sharding=ROWS, fusion=both))


def test_the_scenario_wins_over_the_profile():
    ddp = under(scenario({"data": 2}, fusion=INDEX), **_reduction("ddp"))
    ideal = scenario({"data": 2}, fusion=INDEX)
    assert collectives(ddp, "all_reduce") == collectives(ideal, "all_reduce")
    agrees(ddp)
    assert not any(
        "bucket of" in each or "buckets of" in each
        for each in plan_document(build_scenario(ddp))["framework_changes"]
    )
    beside = under(scenario({"data": 2}, fusion={"reduce_scatter": AUTO}), **_reduction("ddp"))
    alone = under(scenario({"data": 2}), **_reduction("ddp"))
    assert build_scenario(beside).program.digest() == build_scenario(alone).program.digest()
    assert any("buckets of" in each for each in plan_document(build_scenario(alone))["framework_changes"])


def _reduction(name):
    return {"reduction": FrameworkSpec.load(name).reduction.model_dump(mode="json")}


def test_buffers_are_counted_in_what_travels():
    switches = {"reduction": {"bucket": "whole", "limit": {"elements": 1000}, "buffers": 2.0}}

    def held(which):
        peak = simulate(which).documents["summary"]["peak_memory_bytes"][0]
        return peak["breakdown"]["communication"]

    plain = {"reduction": switches["reduction"] | {"buffers": 0.0}}
    base = scenario({"data": 2}, fusion=INDEX)
    largest = max(collectives(base, "all_reduce"))
    assert held(under(base, **switches)) - held(under(base, **plain)) == 2 * largest
    closed = scenario({"data": 2}, fusion=CLOSED)
    assert held(under(closed, **switches)) == held(under(closed, **plain))


def test_the_plan_tells_what_is_fused():
    def told(**fusion):
        return plan_document(build_scenario(scenario({"data": 2}, **fusion)))["fusion"]

    assert told() == told(fusion={"reduce_scatter": AUTO}) == []
    assert told(fusion=CLOSED) == ["no collectives fused"]
    assert told(fusion=INDEX) == ["all-reduces of gradients up to 3, 10 and the rest"]
    assert told(fusion={"all_reduce": AUTO}) == ["all-reduces of gradients fused to 64.0 MiB"]


def test_layouts_list_what_the_trace_has():
    which = scenario({"data": 2}, fusion=INDEX)
    (entry,) = [
        each for each in layouts_document(build_scenario(which)) if each["block"] == "gradient buckets"
    ]
    sizes = [node["bytes"] for node in entry["nodes"] if node["bytes"] > 4]
    assert sizes == collectives(which, "all_reduce")


# -- fusion ids and first buckets -------------------------------------------------------------------------


def test_only_equal_fusion_ids_travel_together():
    ids = [{"match": "layers.*.mlp.*", "id": 2}, {"match": "embedding.*", "id": 0}]
    which = scenario({"data": 2}, fusion={"all_reduce": AUTO, "ids": ids})
    total = sum(4 * kind.num_elements for _, kind in build_scenario(which).plan.logical.parameters())
    mlp = LAYERS * (3 * 4 * HIDDEN * FFN + NORM)
    assert sorted(collectives(which, "all_reduce")) == sorted([mlp, HEAD, total - mlp - HEAD])
    agrees(which)
    told = plan_document(build_scenario(which))
    assert told["fusion"][-1] == f"{4 * LAYERS + 1} parameters with fusion id 0, 2"
    assert told["gradient_buckets"]["ids"]["embedding.tokens.weight"] == 0


def test_ids_of_layers_that_verification_leaves_out_do_not_hinder_it():
    ids = [{"match": "layers.7.*", "id": 2}, {"match": "layers.*.mlp.*", "id": 3}]
    which = scenario({"data": 2}, model={**TINY, "layers": 8}, fusion={"all_reduce": AUTO, "ids": ids})
    agrees(which)


@pytest.mark.parametrize("sharding", [{"zero": 0}, {"zero": 1}, ROWS], ids=str)
def test_an_id_of_zero_is_that_of_openstate_false(sharding):
    """Nothing waits for the other gradients of its layer: the steps are equal, not only what is sent."""
    ids, more = [{"match": "*", "id": 0}], {"optimizer_sharding": sharding}
    buckets = {"all_reduce": AUTO, "reduce_scatter": AUTO, "all_gather": AUTO}
    alone = scenario({"data": 2}, fusion={**buckets, "ids": ids}, **more)
    closed = scenario({"data": 2}, fusion=CLOSED, **more)
    ends = [simulate(which).spans["end"].max() for which in (alone, closed)]
    assert ends[0] == ends[1]
    for operation in ("all_reduce", "reduce_scatter"):
        assert collectives(alone, operation) == collectives(closed, operation)


def test_tied_parameters_go_by_the_name_that_counts():
    def found(match):
        fusion = {"all_reduce": AUTO, "ids": [{"match": match, "id": 0}]}
        return scenario({"data": 2}, model={**TINY_GPT, "tied": True}, fusion=fusion)

    sizes = collectives(found("embedding.tokens.*"), "all_reduce")
    assert len(sizes) == 2
    with pytest.raises((PlanError, ScenarioError), match="no parameter is called"):
        build_scenario(found("head.logits.*"))


def test_ddp_has_a_first_bucket_and_scenarios_can_say_it():
    """2^13 entries of 32 numbers: the matrix of the head is 1 MiB."""
    model = {**TINY, "vocab": 2**13, "layers": 40}
    said = {"all_reduce": {"mode": "size", "config": 25, "first": 1}}
    ddp = scenario({"data": 2}, model=model, fusion=said)
    profile = under(
        scenario({"data": 2}, model=model),
        reduction={"bucket": "whole", "limit": {"bytes": "25 MiB", "first_bytes": "1 MiB"}},
    )
    assert FrameworkSpec.load("ddp").reduction.limit == profile.framework.reduction.limit
    sizes = collectives(ddp, "all_reduce")
    assert sizes == collectives(profile, "all_reduce")
    assert sizes[0] == 2**20
    assert len(sizes) == 2
    assert plan_document(build_scenario(ddp))["fusion"] == [
        "all-reduces of gradients fused to 25.0 MiB, the first to 1.00 MiB"
    ]


# -- values -----------------------------------------------------------------------------------------------

FUSIONS = {"index": INDEX, "size": {"all_reduce": SIZE, "reduce_scatter": SIZE}, "closed": CLOSED}


SHARDED = {"zero 0": {"zero": 0}, "zero 1": {"zero": 1}, "rows": ROWS}
RECIPES = ("megatron", "megatron_sp", "pangu")
PAIRS = [
    (recipe, sharded, [*FUSIONS][(row + column) % 3])
    for row, recipe in enumerate(RECIPES)
    for column, sharded in enumerate(SHARDED)
]
"""Every two of recipe, sharding and fusion once."""


@pytest.mark.parametrize(("recipe", "sharded", "fusion"), quick(PAIRS, PAIRS[8]))
def test_values_agree_with_recipes(recipe, sharded, fusion):
    mesh = {"pipeline": 2, "data": 2, "tensor": 2}
    which = scenario(
        mesh,
        model={**TINY_GPT, "layers": 2},
        micro_batches=2,
        recipe=recipe,
        optimizer_sharding=SHARDED[sharded],
        fusion=FUSIONS[fusion],
    )
    agrees(which)
    times = [simulate(which, unfold=unfold).documents["summary"]["step_time_s"] for unfold in (False, True)]
    assert times[0] == times[1]


def test_any_fusion_carries_the_same_bytes():
    base = {
        "mesh": {"pipeline": 2, "data": 2, "tensor": 2},
        "recipe": "megatron_sp",
        "optimizer_sharding": ROWS,
    }
    mesh = base.pop("mesh")
    sent = [
        simulate(scenario(mesh, micro_batches=1, **base, **fusion)).documents["summary"][
            "communication_bytes"
        ]
        for fusion in ({}, *({"fusion": each} for each in FUSIONS.values()))
    ]
    for before, after in itertools.pairwise(sent):
        for axis, operations in before.items():
            for operation, size in operations.items():
                assert after[axis][operation] == pytest.approx(size, rel=1e-12)


# -- what changes nothing ---------------------------------------------------------------------------------


def test_a_rule_without_gradients_is_told_and_changes_nothing():
    plain = scenario({"data": 2}, optimizer_sharding={"zero": 1})
    idle = scenario({"data": 2}, optimizer_sharding={"zero": 1}, fusion={"all_reduce": AUTO})
    assert build_scenario(plain).program.digest() == build_scenario(idle).program.digest()
    assert notes(idle) == ["fusion.all_reduce fuses nothing: no gradients are all-reduced once per step"]
    alone = scenario({"tensor": 2}, fusion=INDEX)
    assert any("fusion.all_reduce fuses nothing" in each for each in notes(alone))
    assert any("openstate changes nothing" in each for each in notes(scenario({"tensor": 2}, fusion=CLOSED)))
    assert not any("fusion" in each for each in notes(scenario({"data": 2}, fusion=CLOSED)))


@pytest.mark.parametrize(("beyond", "told"), [(-1, False), (0, True), (40, True)])
def test_an_index_behind_the_last_gradient_of_every_stage_is_told(beyond, told):
    """MindSpore: invalid fusion index."""
    number = len(list(build_scenario(scenario({"data": 2})).plan.logical.parameters()))
    last = {"all_reduce": {"mode": "index", "config": [number + beyond]}}
    found = notes(scenario({"data": 2}, fusion=last))
    assert any(f"at most {number} are all-reduced" in each for each in found) == told
