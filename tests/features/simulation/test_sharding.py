"""Sharded states, gradients and weights in memory, in traffic and in time, against the published forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from simcluster.analysis import AllocationAccount
from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.engine import Workload, run
from simcluster.plan import FREE_EXECUTION
from simcluster.program import Category, PlacedProgram, build, check_program, partition_ranks
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.recording import record_run
from tests.support.scenarios import TINY, TINY_GPT, scenario

KEPT = {"fsdp": {"reshard_after_forward": False}}
ROWS = {"min_bytes": "0 B"}
WAYS = 4


def paper(states, gradients):
    return {
        "precision": {"compute": "bf16", "gradients": gradients},
        "optimizer": {"kind": "adamw", "states": states},
    }


@pytest.mark.parametrize(
    ("form", "gradients", "bytes_per_parameter"),
    [
        # ZeRO (arXiv 1910.02054, figure 1): K = 12, fp16 gradients.
        ({"zero": 0}, "bf16", 16),
        ({"zero": 1}, "bf16", 4 + 12 / WAYS),
        ({"zero": 2}, "bf16", 2 + 14 / WAYS),
        ({"zero": 3}, "bf16", 16 / WAYS),
        # FSDP with fp32 shards: parameter 4, gradient 4, Adam 8.
        ("fsdp", "fp32", 16 / WAYS),
        (KEPT, "fp32", 16 / WAYS),
        # MindSpore: fp32 weights and states in shards; the levels differ in the gradients.
        ({"mindspore": "level1", **ROWS}, "fp32", 4 + 12 / WAYS),
        ({"mindspore": "level2", **ROWS}, "fp32", 16 / WAYS),
        ({"mindspore": "level3", **ROWS}, "fp32", 16 / WAYS),
    ],
)
def test_memory_per_parameter(form, gradients, bytes_per_parameter):
    built = build_scenario(
        scenario({"data": WAYS}, devices=4, optimizer_sharding=form, training=paper("fp32", gradients))
    )
    (stage,) = built.program.parts
    total = sum(each.num_bytes for each in stage.residents if each.whole.shape != ())
    assert total == bytes_per_parameter * built.plan.logical.num_parameters


def sent(form, micro_batches, **options):
    """Elements that a rank sends over data per step, without the loss, as multiples of (d - 1) / d N."""
    which = scenario(
        {"data": WAYS},
        devices=4,
        micro_batches=micro_batches,
        optimizer_sharding=form,
        training={"precision": "fp32"},
        **options,
    )
    moved = simulate(which).documents["summary"]["communication_bytes"]["data"]
    loss = 2 * (WAYS - 1) / WAYS * 4
    whole = (WAYS - 1) / WAYS * 4 * build_scenario(which).plan.logical.num_parameters
    return (sum(moved.values()) - loss) / whole


@pytest.mark.combinations
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize(
    ("form", "once", "each"),
    [
        ({"zero": 0}, 2, 0),
        ({"zero": 1}, 2, 0),
        ({"zero": 2}, 1, 1),
        ({"zero": 3}, 0, 3),
        ("fsdp", 0, 3),
        (KEPT, 0, 2),
        ({"mindspore": "level1", **ROWS}, 2, 0),
        ({"mindspore": "level2", **ROWS}, 1, 1),
        ({"mindspore": "level3", **ROWS}, 0, 3),
    ],
)
def test_traffic_per_step(form, once, each, micro_batches):
    """ZeRO section 7, FSDP: 2 N, or 3 N with weights gathered twice; what is sharded, every micro-batch."""
    assert sent(form, micro_batches) == pytest.approx(once + each * micro_batches, rel=1e-12)


@pytest.mark.parametrize("form", [{"states": True}, "fsdp"])
def test_replicas_of_shards_reduce_in_their_group_first(form):
    """MindSpore's groups, HYBRID_SHARD of PyTorch and Megatron's optimizer instances scatter the sums of a
    group and all-reduce shards between groups: also once per step, if one all-reduce would take less.
    """
    written = {"axes": "shard", **({"fsdp": {}} if form == "fsdp" else form)}
    which = scenario(
        {"replica": 2, "shard": 2},
        devices=2,
        roles={"batch": ["replica", "shard"]},
        optimizer_sharding=written,
        training={"precision": "fp32", "global_batch": 16},
    )
    documents = simulate(which).documents
    moved = documents["summary"]["communication_bytes"]
    parameters = 4 * build_scenario(which).plan.logical.num_parameters
    assert sum(moved["replica"].values()) == parameters / 2
    assert moved["shard"]["reduce_scatter"] == parameters / 2 * (4 if form == "fsdp" else 1)
    assert moved["replica+shard"] == {"all_reduce": 2 * 3 / 4 * 4}  # the loss


def test_recomputation_gathers_no_third_time():
    assert sent("fsdp", 2, recompute={"layers": "all"}) == pytest.approx(6, rel=1e-12)
    assert sent(KEPT, 2, recompute={"layers": "all"}) == pytest.approx(4, rel=1e-12)


def units_alive(table, ending):
    """The most block instances of which a buffer with this ending is alive at a time, by class."""
    most = Counter()
    names = table.names["buffer"]
    held: Counter[tuple[int, str]] = Counter()
    for index, buffer, size in zip(
        table["class"].tolist(), table["buffer"].tolist(), table["bytes"].tolist(), strict=True
    ):
        name = names[buffer]
        if not name.endswith(ending):
            continue
        unit = ".".join(name.split(".")[:2]) if name.startswith("layers.") else name.split(".")[0]
        held[index, unit] += size
        if size < 0 and not held[index, unit]:
            del held[index, unit]
        most[index] = max(most[index], sum(one == index for one, _ in held))
    assert not held
    return most


def slow_network(which):
    """The scenario's cluster with links a thousand times slower, so that communication is all there is."""
    written = which.spec.cluster.host.model_dump(mode="json", exclude={"use"}, exclude_none=True)
    for part in ("fabric", "network"):
        if written.get(part):
            written[part]["bandwidth"] = "10 MB/s"
    return validate_data({"host": written, "hosts": which.spec.cluster.hosts}, ClusterSpec).build()


def timed(which, prefetch, slow=False):
    built = build_scenario(which)
    plan = built.plan
    program = build(replace(plan, execution=replace(FREE_EXECUTION, prefetch=prefetch)))
    cluster = slow_network(which) if slow else built.cluster
    classes = partition_ranks(program, cluster)
    check_program(program, classes)
    timing = run(Workload(program, cluster, classes))
    stages = [program.stage_of(rank) for rank in classes.representatives]
    account = AllocationAccount(PlacedProgram(program, classes, cluster, program.num_stages), timing)
    return record_run(program, stages, timing.classes).table(), account.table()


@pytest.mark.combinations
@pytest.mark.parametrize("slow", [False, True], ids=["fast", "slow"])
@pytest.mark.parametrize("prefetch", [0, 1, 2])
@pytest.mark.parametrize(
    ("mesh", "options"),
    [
        ({"data": 4}, {}),
        ({"pipeline": 2, "data": 2}, {}),
        ({"data": 2, "tensor": 2}, {"recompute": {"layers": "all"}}),
    ],
)
def test_gathered_units_are_bounded_by_the_prefetch_depth(mesh, options, prefetch, slow):
    which = scenario(mesh, devices=4, optimizer_sharding="fsdp", **options)
    _, account = timed(which, prefetch, slow)
    for most in units_alive(account, "gathered").values():
        assert most == prefetch + 1
    for most in units_alive(account, ".whole").values():
        assert most <= 2
        assert most == 2 or not slow


def test_a_gather_starts_when_the_unit_before_the_prefetched_ones_has_ended():
    which = scenario(
        {"data": 4}, devices=4, optimizer_sharding="fsdp", training={"precision": "fp32"}, micro_batches=1
    )
    table, _ = timed(which, 1)
    names, streams, actions = table.text("operator"), table.text("stream"), table.text("action")
    forward = (streams == "compute") & (actions == "F0")
    gathers = streams == "data (weights)"
    ends = {
        layer: table["end"][forward & np.char.startswith(names.astype(str), f"layers.{layer}.")].max()
        for layer in range(4)
    }
    for layer in (2, 3):
        mine = gathers & np.char.startswith(names.astype(str), f"layers.{layer}.") & (actions == "F0")
        assert table["arrival"][mine].tolist() == [ends[layer - 2]]


def gathers_per_step(which):
    """By stage, how often the weights of its first layer are gathered."""
    program = build_scenario(which).program
    return [
        Counter(
            execution.instance
            for execution in stage.executions
            if program.codes[execution.code].phase in ("gather", "regather")
            and "layers" in execution.instance
        ).most_common()[0][1]
        for stage in program.parts
    ]


def test_kept_weights_are_shared_by_the_micro_batches_in_flight():
    """1F1B on two stages: the first always has one in flight, the last is done with each before the next."""
    mesh = {"pipeline": 2, "data": 2}
    kept = scenario(mesh, devices=4, optimizer_sharding=KEPT, schedule="1f1b", micro_batches=4)
    assert gathers_per_step(kept) == [1, 4]
    assert gathers_per_step(scenario(mesh, devices=4, optimizer_sharding=KEPT, schedule="gpipe")) == [1, 1]
    assert gathers_per_step(scenario(mesh, devices=4, optimizer_sharding="fsdp")) == [8, 8]
    once = {"mindspore": "level1", "min_bytes": "0 B"}
    once = scenario(mesh, devices=4, optimizer_sharding=once, schedule="1f1b", micro_batches=4)
    assert gathers_per_step(once) == [1, 1]
    account = simulate(kept).memory
    rows = account.where(account["class"] == 0)
    names = np.array(rows.names["buffer"])[rows["buffer"]]
    mine = names == "layers.0.mlp.down.weight.gathered"
    assert rows["bytes"][mine].tolist() == [
        TINY["hidden"] * TINY["ffn"] * 2,
        -TINY["hidden"] * TINY["ffn"] * 2,
    ]


def test_gathered_weights_are_booked_as_communication():
    which = scenario({"data": 4}, devices=4, optimizer_sharding="fsdp", model=TINY_GPT)
    program = build_scenario(which).program
    slots = [slot for code in program.codes for slot in code.slots if slot.name.endswith("gathered")]
    assert slots
    assert {slot.category for slot in slots} == {Category.COMMUNICATION}


def test_the_expanded_form_is_in_the_plan_document_and_in_the_summary():
    from simcluster.report.content.run_header import header_rows

    documents = simulate(scenario({"data": 4}, devices=4, optimizer_sharding="fsdp")).documents
    assert documents["plan"]["optimizer_sharding"] == {
        "states": True,
        "gradients": True,
        "weights": True,
        "regather": True,
        "gather_once": False,
        "keep_cast": False,
        "split": "flat",
        "axes": ["data"],
        "min_bytes": 0,
        "shard_size": -1,
        "whole": [],
    }
    numbers = dict(header_rows(documents))["numbers"]
    assert (
        "weights, gradients and states sharded over data, gathered in forward and again in backward"
        in numbers
    )
