"""Sharded gradients scattered together: how many collectives, when, what they hold, and that values agree."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.views.operator_layouts import layouts_document
from simcluster.simulation.views.plan_description import plan_document
from tests.support.covering import quick, quick_at
from tests.support.scenarios import TINY, TINY_GPT, scenario, under
from tests.support.traffic import carried

ROWS = {"min_bytes": "0 B"}
EVERY = {
    "zero 2": {"zero": 2},
    "zero 3": {"zero": 3},
    "fsdp": "fsdp",
    "kept": {"fsdp": {"reshard_after_forward": False}},
    "level2": {"mindspore": "level2", **ROWS},
    "level3": {"mindspore": "level3", **ROWS},
}
AUTO, UNITS = {"mode": "auto"}, {"mode": "units"}
INDEX, PAIRS = {"mode": "index", "config": [3, 10]}, {"mode": "units", "config": 2}
SIZE = {"mode": "size", "config": 1}
IDS = [{"match": "layers.*.mlp.*", "id": 2}, {"match": "{head,*.norm}.*", "id": 0}]
FUSIONS = [
    {"reduce_scatter": AUTO},
    {"reduce_scatter": INDEX, "all_gather": PAIRS},
    {"reduce_scatter": SIZE, "ids": IDS},
    {"reduce_scatter": PAIRS, "all_gather": AUTO, "ids": IDS},
]
HIDDEN, FFN, VOCAB, LAYERS, MICRO = 32, 64, 128, 4, 4
NORM, HEAD, DOWN = 4 * HIDDEN, 4 * HIDDEN * VOCAB, 4 * HIDDEN * FFN
"""Bytes of fp32 gradients of TINY."""


def scatters(which, **how):
    """(start, bytes) of every scatter of gradients of class 0, in the order of their starts."""
    return carried(which, "reduce_scatter", **how)


def step(which, **how):
    return simulate(which, **how).documents["summary"]["step_time_s"]


def total(which):
    return sum(4 * kind.num_elements for _, kind in build_scenario(which).plan.logical.parameters())


MESHES = [{"data": 2}, {"pipeline": 2, "data": 2}, {"data": 4}]
CASES = [
    (sharded, MESHES[(row + column) % 3], fusion)
    for row, sharded in enumerate(EVERY)
    for column, fusion in enumerate(FUSIONS)
]
"""Every sharding with every rule, and with every mesh."""


@pytest.mark.thorough
@pytest.mark.parametrize(("sharded", "mesh", "fusion"), CASES)
def test_any_rule_carries_the_same_bytes_and_values(sharded, mesh, fusion):
    form = {"optimizer_sharding": EVERY[sharded], "micro_batches": 2}
    which = scenario(mesh, **form, fusion=fusion)
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
    plain, fused = (sum(size for _, size in scatters(each)) for each in (scenario(mesh, **form), which))
    assert plain == fused
    assert step(which) == step(which, unfold=True)


@pytest.mark.parametrize("sharded", quick(["zero 2", "fsdp", "level2"], "fsdp"))
def test_recipes_and_hybrid_sharding_agree(sharded):
    mesh = {"pipeline": 2, "data": 2, "tensor": 2}
    which = scenario(
        mesh,
        model={**TINY_GPT, "layers": 2},
        micro_batches=2,
        recipe="megatron_sp",
        optimizer_sharding=EVERY[sharded],
        fusion={"reduce_scatter": INDEX, "all_gather": PAIRS, "all_reduce": AUTO},
    )
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
    assert step(which) == step(which, unfold=True)


def test_shards_over_some_of_the_data_ranks_are_reduced_over_the_others_once():
    """Reduce-scatter over the inner axis in every micro-batch, all-reduce of the shards once per step."""
    form = {"states": True, "gradients": True, "weights": True, "axes": ["inner"]}
    which = scenario(
        {"data": 2, "inner": 2},
        roles={"batch": ["data", "inner"]},
        training={"global_batch": 16},
        optimizer_sharding=form,
        fusion={"reduce_scatter": AUTO, "all_reduce": AUTO},
    )
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
    spans = simulate(which).spans
    names = [each for each in spans.text("operator").tolist() if "reduce" in each]
    kinds = Counter("reduce_scatter" if "reduce_scatter" in each else "all_reduce" for each in names)
    assert kinds == {"reduce_scatter": MICRO, "all_reduce": 2}  # the loss has one of its own


WHOLE = {"bucket": "whole"}


@pytest.mark.combinations
@pytest.mark.parametrize("fusion", quick_at([*FUSIONS, {}], 1, 4), ids=str)
@pytest.mark.parametrize("reduction", [{}, WHOLE, WHOLE | {"limit": {"bytes": "2 KiB"}}], ids=str)
@pytest.mark.parametrize(
    ("mesh", "sharding", "recipe"),
    [
        ({"data": 4}, {"zero": 2, "shard_size": 2}, None),
        ({"data": 2, "tensor": 2}, {"zero": 3}, "megatron_sp"),
    ],
    ids=["groups of two", "norms on parts of the sequence"],
)
def test_what_is_reduced_once_more_waits_for_the_bucket_it_is_scattered_in(
    fusion, reduction, mesh, sharding, recipe
):
    """Behind a later backward than that which made it."""
    form = {"micro_batches": 2, "recipe": recipe, "optimizer_sharding": sharding, "fusion": fusion}
    which = under(scenario(mesh, devices=4, **form), reduction=reduction)
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.parametrize("sharded", quick_at([*EVERY], 0))
def test_auto_is_one_collective_for_each_micro_batch_of_a_small_model(sharded):
    which = scenario({"data": 2}, optimizer_sharding=EVERY[sharded], fusion={"reduce_scatter": AUTO})
    assert [size for _, size in scatters(which)] == [total(which)] * MICRO


def test_indices_count_gradients_from_the_last_layer_on():
    """Ready first: the head's matrix, its norm, then a layer from its last matrix to its first norm."""
    which = scenario({"data": 2}, optimizer_sharding={"zero": 2}, fusion={"reduce_scatter": INDEX})
    first = HEAD + NORM + DOWN
    rest = 2 * DOWN + NORM + 4 * HIDDEN**2 + 2 * (4 * HIDDEN**2 // 2) + 4 * HIDDEN**2
    assert [size for _, size in scatters(which)] == [first, rest, total(which) - first - rest] * MICRO


def test_sharded_accumulation_scatters_each_micro_batch_and_whole_accumulation_once():
    """MindSpore's gradient_accumulation_shard, on (level2) and off (level1)."""
    for level, times in (("level1", 1), ("level2", MICRO)):
        form = {"mindspore": level, **ROWS}
        which = scenario({"data": 2}, optimizer_sharding=form, fusion={"reduce_scatter": AUTO})
        assert [size for _, size in scatters(which)] == [total(which)] * times


@pytest.mark.parametrize("sharded", quick(EVERY, "zero 2"))
def test_units_of_one_layer_are_what_shards_have_without_fusion(sharded):
    form, units = EVERY[sharded], {"reduce_scatter": UNITS, "all_gather": UNITS}
    plain = scenario({"pipeline": 2, "data": 2}, optimizer_sharding=form)
    which = scenario({"pipeline": 2, "data": 2}, optimizer_sharding=form, fusion=units)
    assert scatters(which) == scatters(plain)
    assert step(which) == step(plain)


def test_units_of_two_are_full_with_their_second():
    """Head and last layer, two layers, first layer and embedding."""
    which = scenario({"data": 2}, optimizer_sharding="fsdp", fusion={"reduce_scatter": PAIRS})
    layer = (total(which) - 2 * HEAD - NORM) // LAYERS
    sizes = [HEAD + NORM + layer, 2 * layer, layer + HEAD]
    assert [size for _, size in scatters(which)] == sizes * MICRO


def test_only_equal_fusion_ids_travel_together():
    which = scenario({"data": 2}, optimizer_sharding={"zero": 2}, fusion={"reduce_scatter": AUTO, "ids": IDS})
    mlp = LAYERS * 3 * DOWN  # norms have the id of their own entry, 0
    alone = [HEAD, *[NORM] * (2 * LAYERS + 1)]
    rest = total(which) - mlp - sum(alone)
    assert Counter(size for _, size in scatters(which)) == Counter([mlp, rest, *alone] * MICRO)


def wholes(which):
    """Per micro-batch, the gradients that are held whole at a time: the most bytes of them all."""
    rows = simulate(which).memory
    names, held, most = rows.names["buffer"], 0, 0
    for buffer, size in zip(rows["buffer"].tolist(), rows["bytes"].tolist(), strict=True):
        if names[buffer].endswith(".whole"):
            held += size
            most = max(most, held)
    assert held == 0
    return most


SLOW = [{"link": "*", "bandwidth": 0.001}]


@pytest.mark.parametrize("slow", quick_at([False, True], 1))
@pytest.mark.parametrize("rule", quick_at([UNITS, PAIRS, INDEX, AUTO], 1, 2))
def test_two_buckets_at_most_hold_whole_gradients(rule, slow):
    """One that fills beside one that travels; the layer whose backward is done fills on by all of its own."""
    which = scenario(
        {"data": 2},
        optimizer_sharding={"zero": 2},
        fusion={"reduce_scatter": rule},
        micro_batches=2,
        changes=SLOW if slow else [],
    )
    found = [size for _, size in scatters(which)]
    layer = (total(which) - 2 * HEAD - NORM) // LAYERS
    pairs = [first + second for first, second in zip(found, [*found[1:], 0], strict=True)]
    # Buckets that end inside a layer begin with what is left of it.
    inside = layer if rule is INDEX else 0
    assert wholes(which) <= max(pairs) + inside
    if slow:
        assert wholes(which) >= max(pairs) - inside


def test_a_backward_waits_for_the_bucket_before_the_last():
    """Four layers, a bucket each, on a slow network: the third bucket begins when the first is over."""
    which = scenario(
        {"data": 2},
        optimizer_sharding={"zero": 2},
        fusion={"reduce_scatter": UNITS},
        micro_batches=1,
        changes=SLOW,
    )
    spans = simulate(which).spans
    mine = spans["class"] == 0
    ends, starts = {}, defaultdict(list)
    for start, end, name, kind, stream in zip(
        spans["start"][mine].tolist(),
        spans["end"][mine].tolist(),
        spans.text("operator")[mine].tolist(),
        spans.text("action")[mine].tolist(),
        spans.text("stream")[mine].tolist(),
        strict=True,
    ):
        if stream == "data (gradients)":
            ends[len(ends)] = end
        elif stream == "compute" and kind.startswith("B") and name.startswith("layers."):
            starts[int(name.split(".")[1])].append(start)
    assert len(ends) == LAYERS + 2
    for number in range(2, LAYERS + 1):  # 0 is the head's
        assert min(starts[LAYERS - number]) >= ends[number - 2]
    assert min(starts[LAYERS - 2]) == ends[0]


@pytest.mark.parametrize("sharded", quick(["zero 2", "zero 3"], "zero 2"))
def test_the_profiles_limit_fills_buckets_of_sharded_gradients(sharded):
    """As the scenario's own rule would; the buffers are those of the profile, as large as its limit."""
    base = scenario({"data": 2}, optimizer_sharding=EVERY[sharded], micro_batches=2)
    size = {"mode": "size", "config": 1}
    limit = {"bucket": "whole", "limit": {"bytes": "1 MiB"}, "buffers": 2.0}
    limited = under(base, reduction=limit)
    written = scenario(
        {"data": 2}, optimizer_sharding=EVERY[sharded], micro_batches=2, fusion={"reduce_scatter": size}
    )
    assert scatters(limited) == scatters(written) != scatters(base)
    assert plan_document(build_scenario(limited))["gradient_buckets"]["reduce_scatter"] == {"bytes": 2**20}
    (buffers,) = [
        each
        for each in build_scenario(limited).program.parts[0].residents
        if each.name == "reduction buffers"
    ]
    assert buffers.num_bytes == 2 * 2**20
    assert verify(limited).agrees


def test_buffers_are_as_large_as_the_largest_that_travels():
    switches = {"reduction": {"bucket": "whole", "limit": {"elements": 1000}, "buffers": 2.0}}

    def held(**fusion):
        which = under(scenario({"data": 2}, optimizer_sharding={"zero": 2}, **fusion), **switches)
        (buffers,) = [
            each
            for each in build_scenario(which).program.parts[0].residents
            if each.name == "reduction buffers"
        ]
        return buffers.num_bytes

    base = scenario({"data": 2}, optimizer_sharding={"zero": 2}, fusion={"reduce_scatter": INDEX})
    assert held(fusion={"reduce_scatter": INDEX}) == 2 * max(size for _, size in scatters(base))


def test_the_plan_and_the_layouts_tell_it():
    which = scenario({"data": 2}, optimizer_sharding={"zero": 2}, fusion={"reduce_scatter": AUTO})
    document = plan_document(build_scenario(which))
    assert document["fusion"] == ["reduce-scatters of gradients fused to 64.0 MiB"]
    assert document["notes"] == []
    assert document["gradient_buckets"]["reduce_scatter"] == {"bytes": 64 * 2**20}
    (entry,) = [
        each for each in layouts_document(build_scenario(which)) if each["block"] == "gradient buckets"
    ]
    first = next(node for node in entry["nodes"] if node["phase"] == "scatter")
    assert first["why"] == "39 gradients travel together, for each micro-batch"
    assert first["bytes"] == total(which)
    assert TINY["layers"] == LAYERS
