"""Weights gathered together: how many collectives carry them, when, what they hold, and that values agree."""

from __future__ import annotations

import pytest

from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.views.operator_layouts import layouts_document
from simcluster.simulation.views.plan_description import plan_document
from tests.support.covering import quick, quick_at
from tests.support.scenarios import TINY, TINY_GPT, scenario
from tests.support.traffic import carried

AUTO, SIZE = {"mode": "auto"}, {"mode": "size", "config": 1}
LARGE = {**TINY, "vocab": 2**13}
"""With matrices of 1 MiB in fp32, 512 KiB in bf16, for embedding and head."""

ZERO_1, ZERO_3, FSDP = {"zero": 1}, {"zero": 3}, "fsdp"
KEPT = {"fsdp": {"reshard_after_forward": False}}
LEVEL_1 = {"mindspore": "level1", "min_bytes": "0 B"}
LEVEL_3 = {"mindspore": "level3", "min_bytes": "0 B"}
EVERY = {"zero 1": ZERO_1, "zero 3": ZERO_3, "fsdp": FSDP, "kept": KEPT, "level1": LEVEL_1, "level3": LEVEL_3}

IDS = [{"match": "layers.*.mlp.*", "id": 2}, {"match": "{head,*.norm}.*", "id": 0}]


def gathers(which, **how):
    """(start, bytes) of every gather of weights that rank 0 takes part in, in the order of their starts."""
    return carried(which, "all_gather", **how)


def communication(which):
    return simulate(which).documents["summary"]["peak_memory_bytes"][0]["breakdown"]["communication"]


@pytest.mark.combinations
@pytest.mark.parametrize("sharded", quick([*EVERY], "zero 3", "kept"))
@pytest.mark.parametrize("mesh", [{"data": 2}, {"pipeline": 2, "data": 2}])
@pytest.mark.parametrize(
    "fusion", [{"all_gather": AUTO}, {"all_gather": SIZE, "ids": IDS}], ids=["auto", "size"]
)
def test_any_size_gathers_the_same_bytes_and_values(fusion, sharded, mesh):
    form = {"optimizer_sharding": EVERY[sharded], "model": {**TINY, "layers": 2}, "micro_batches": 2}
    plain, which = scenario(mesh, **form), scenario(mesh, **form, fusion=fusion)
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
    assert sum(size for _, size in gathers(which)) == sum(size for _, size in gathers(plain))
    folded, unfolded = (simulate(which, unfold=each).documents["summary"] for each in (False, True))
    assert folded["step_time_s"] == unfolded["step_time_s"]


@pytest.mark.parametrize(
    ("sharded", "uses"), quick_at([("zero 1", 1), ("fsdp", 8), ("kept", 4), ("level1", 1)], 1)
)
def test_auto_is_one_collective_for_each_use_of_a_small_model(sharded, uses):
    """Four micro-batches: once per step, for each forward, or for each forward and backward."""
    which = scenario({"data": 2}, optimizer_sharding=EVERY[sharded], fusion={"all_gather": AUTO})
    total = 2 * sum(kind.num_elements for _, kind in build_scenario(which).plan.logical.parameters())
    sizes = [size for _, size in gathers(which)]
    assert len(sizes) == uses
    assert set(sizes) == {total}


def test_a_bucket_is_closed_by_the_weight_that_fills_it():
    """In bf16 embedding and head are 512 KiB each, and the layers between them less."""
    which = scenario({"data": 2}, model={**LARGE, "vocab": 2**14}, optimizer_sharding=ZERO_1,
                     fusion={"all_gather": SIZE})  # fmt: skip
    first, rest = [size for _, size in gathers(which)]
    assert first == 2**20
    assert rest > 2**20
    assert plan_document(build_scenario(which))["gradient_buckets"]["all_gather"] == {"bytes": 2**20}


def test_the_backward_gathers_its_last_layers_last_weights_first():
    """Cut into single weights, both directions gather them in the order of use."""
    ids = [{"match": "*", "id": 0}]
    which = scenario({"data": 2}, optimizer_sharding=FSDP, fusion={"all_gather": AUTO, "ids": ids})
    spans = simulate(which).spans
    rows = sorted(
        (start, name.partition(".all_gather")[0])
        for start, batch, name in zip(
            spans["start"].tolist(),
            spans["micro_batch"].tolist(),
            spans.text("operator").tolist(),
            strict=True,
        )
        if batch == 0 and "all_gather" in name
    )
    program = build_scenario(which).program
    slots = {
        run.instance: program.codes[run.code].slots[0].name.removesuffix(".weight")
        for run in program.parts[0].executions
        if "gathers." in run.instance
    }
    order = [slots[".".join(name.split(".")[:2])] for _, name in rows]
    count = len(order) // 2
    assert order[0] == "embedding.tokens"
    assert order[count - 1] == "head.logits"
    assert order[count:] == order[:count][::-1]


@pytest.mark.parametrize("sharded", quick(["zero 1", "fsdp", "level1"], "level1"))
def test_recipes_agree(sharded):
    which = scenario(
        {"pipeline": 2, "data": 2, "tensor": 2},
        model={**TINY_GPT, "layers": 2},
        micro_batches=2,
        recipe="megatron_sp",
        optimizer_sharding=EVERY[sharded],
        fusion={"all_gather": AUTO, "all_reduce": AUTO},
    )
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


def test_what_is_gathered_together_is_held_together():
    """FSDP holds two units at a time. Level1 keeps those of all layers until the last backward either way,
    but the casts of all shards, half of everything on each of two ranks, live while they travel."""

    def more(sharded):
        plain = scenario({"data": 2}, optimizer_sharding=sharded)
        which = scenario({"data": 2}, optimizer_sharding=sharded, fusion={"all_gather": AUTO})
        return communication(which) - communication(plain)

    kinds = list(build_scenario(scenario({"data": 2})).plan.logical.parameters())
    layer = 2 * sum(kind.num_elements for name, kind in kinds if name.startswith("layers.0."))
    # Where two units are gathered ahead, three others of equal size are not.
    assert more(FSDP) >= 2 * layer
    assert more(LEVEL_1) == sum(kind.num_elements for _, kind in kinds)


def test_gradients_stay_as_the_profile_says():
    plain = scenario({"data": 2}, optimizer_sharding=ZERO_1)
    which = scenario({"data": 2}, optimizer_sharding=ZERO_1, fusion={"all_gather": AUTO})
    for each in (plain, which):
        spans = simulate(each).spans
        names = spans.text("operator")[spans.text("kind") == "collective"].tolist()
        assert sum(name.endswith("reduce_scatter") for name in names) == 6


def test_without_gathers_it_is_told_and_changes_nothing():
    plain = scenario({"data": 2})
    which = scenario({"data": 2}, fusion={"all_gather": AUTO})
    assert build_scenario(plain).program.digest() == build_scenario(which).program.digest()
    assert plan_document(build_scenario(which))["notes"] == [
        "fusion.all_gather fuses nothing: no weights are gathered"
    ]


def test_the_plan_and_the_layouts_tell_it():
    which = scenario({"data": 2}, optimizer_sharding=FSDP, fusion={"all_gather": AUTO})
    assert plan_document(build_scenario(which))["fusion"] == ["all-gathers of weights fused to 64.0 MiB"]
    (entry,) = [each for each in layouts_document(build_scenario(which)) if each["block"] == "weight buckets"]
    assert [node["phase"] for node in entry["nodes"]] == ["gather", "regather"]
    assert entry["nodes"][0]["bytes"] == gathers(which)[0][1]
    assert entry["nodes"][0]["why"] == "39 weights travel together, for each use"
