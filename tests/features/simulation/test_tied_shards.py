"""Tied parameters in shards: moved once for all copies on a stage, what that holds, and right in values."""

from __future__ import annotations

import pytest

from simcluster.simulation import build_scenario, simulate, verify
from tests.support.covering import quick, quick_at
from tests.support.scenarios import TINY_GPT, scenario, under
from tests.support.traffic import carried

TIED = {**TINY_GPT, "tied": True}
T5 = {"family": "t5", "encoder_layers": 1, "decoder_layers": 1, "hidden": 16, "heads": 4, "vocab": 64}
"""Three copies: both embeddings and the head."""

MICRO = 4
KEPT = {"fsdp": {"reshard_after_forward": False}}
FORMS = {
    "zero 2": {"zero": 2},
    "zero 3": {"zero": 3},
    "fsdp": "fsdp",
    "kept": KEPT,
    "level1": {"mindspore": "level1", "min_bytes": "0 B"},
    "level3": {"mindspore": "level3", "min_bytes": "0 B"},
}
FUSED = {"reduce_scatter": {"mode": "auto"}, "all_gather": {"mode": "units", "config": 2}}


def total(which, kind):
    """Bytes of all collectives of a kind that class 0 takes part in."""
    return sum(size for _, size in carried(which, kind))


@pytest.mark.combinations
@pytest.mark.parametrize("form", quick([*FORMS], "fsdp"))
@pytest.mark.parametrize(
    ("mesh", "fusion"),
    [({"data": 2}, {}), ({"data": 2, "tensor": 2}, FUSED), ({"pipeline": 2, "data": 2}, FUSED)],
)
def test_values_and_both_ways_of_timing_agree(mesh, form, fusion):
    which = scenario(mesh, model=TIED, micro_batches=2, optimizer_sharding=FORMS[form], fusion=fusion)
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
    times = [simulate(which, unfold=unfold).documents["summary"]["step_time_s"] for unfold in (False, True)]
    assert times[0] == times[1]


@pytest.mark.combinations
@pytest.mark.parametrize("form", quick(["zero 2", "zero 3", "fsdp"], "zero 2"))
@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1", "interleaved"])
def test_stages_sum_a_tied_gradient_behind_the_bucket_it_is_scattered_in(form, schedule):
    """PyTorch DDP's buckets: a copy's own backward is over long before its bucket is full, and only then is
    its shard complete.
    """
    mesh, sharding = {"pipeline": 2, "data": 2}, FORMS[form]
    limit = {"bytes": "25 MiB", "first_bytes": "1 MiB"}
    which = scenario(
        mesh, model=TIED, micro_batches=2, optimizer_sharding=sharding, schedule={"kind": schedule}
    )
    found = verify(under(which, reduction={"bucket": "whole", "limit": limit, "copies": True}))
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.combinations
@pytest.mark.parametrize("form", quick(["zero 2", "fsdp", "kept", "level1"], "level1"))
@pytest.mark.parametrize(("mesh", "fusion"), [({"data": 2}, {}), ({"data": 2, "tensor": 2}, FUSED)])
def test_a_copy_whose_block_has_nothing_else_agrees(mesh, form, fusion):
    """The decoder's embedding has no weight of its own. The position bias's gradient is whole on every rank:
    its shard is cut out of it, and travels with nothing.
    """
    which = scenario(mesh, model=T5, micro_batches=2, optimizer_sharding=FORMS[form], fusion=fusion)
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


@pytest.mark.parametrize("fusion", quick_at([{}, FUSED], 1))
def test_gradients_are_scattered_once_and_kept_weights_gathered_once(fusion):
    """N elements for every micro-batch, in fp32 and in bf16: no copy counts twice."""
    which = scenario({"data": 2}, model=TIED, optimizer_sharding=KEPT, fusion=fusion)
    count = build_scenario(which).plan.logical.num_parameters
    assert total(which, "reduce_scatter") == MICRO * 4 * count
    assert total(which, "all_gather") == MICRO * 2 * count
    once = scenario({"data": 2}, model=TIED, optimizer_sharding=FORMS["level1"], fusion=fusion)
    assert total(once, "all_gather") == 2 * count


def test_what_is_dropped_behind_each_use_is_gathered_for_each():
    """Embedding and head of the forward, head and embedding of the backward."""
    which = scenario({"data": 2}, model=TIED, optimizer_sharding="fsdp")
    program = build_scenario(which)
    count = program.plan.logical.num_parameters
    (matrix,) = [
        kind for name, kind in program.plan.logical.parameters() if name == "embedding.tokens.weight"
    ]
    assert total(which, "all_gather") == 2 * MICRO * 2 * (count + matrix.num_elements)


def lives(which, ending):
    """(time, bytes) of the allocations and releases of the embedding's buffer with an ending."""
    rows = simulate(which).memory
    names = rows.names["buffer"]
    return [
        (time, size)
        for time, size, buffer in zip(
            rows["time"].tolist(), rows["bytes"].tolist(), rows["buffer"].tolist(), strict=True
        )
        if names[buffer].startswith("embedding.tokens.weight") and names[buffer].endswith(ending)
    ]


@pytest.mark.parametrize("ending", ["gathered", ".whole"])
def test_the_common_buffer_is_one_from_the_first_to_the_last_that_needs_it(ending):
    which = scenario({"data": 2}, model=TIED, micro_batches=1, optimizer_sharding=KEPT)
    spans = simulate(which).spans
    names, streams = spans.text("operator").tolist(), spans.text("stream").tolist()
    rows = list(
        zip(spans["start"].tolist(), spans["end"].tolist(), names, streams, spans.text("action"), strict=True)
    )
    head = [row for row in rows if row[2].startswith("head.") and row[3] == "compute" and row[4] == "B0"]
    (made, size), (gone, less) = lives(which, ending)
    assert size == -less > 0
    if ending == "gathered":
        first = min(start for start, _, name, *_ in rows if name == "embedding.tokens")
        assert made < first
        assert gone == max(end for _, end, name, *_ in rows if name == "embedding.tokens.wgrad")
    else:
        assert min(start for start, *_ in head) <= made <= max(end for _, end, *_ in head)
        (scatter,) = [end for _, end, name, *_ in rows if name.startswith("embedding") and "scatter" in name]
        assert gone == scatter
