"""Every switch of a framework profile: what it does to the trace, in which direction, by how much."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from simcluster.cluster.device.rates import nanoseconds
from simcluster.collectives import Operation, collective_time
from simcluster.document.pattern import matches
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.work import TRITON_RELEASE, Kernel
from tests.support.covering import quick, quick_at
from tests.support.scenarios import TINY, TINY_GPT, scenario, under

WHOLE = {"bucket": "whole"}
LATE = {"overlap": False, "bucket": "whole"}
MESH = {"pipeline": 2, "data": 2, "tensor": 2}
MODEL = {"layers": 4, "hidden": 512, "heads": 8, "kv_heads": 4, "ffn": 1024, "vocab": 256}
ON_GPU = {"host": "dgx-h100", "model": MODEL, "training": {"seq_len": 256}}


def summary(which):
    return simulate(which).documents["summary"]


def rows(run, stream, kind="collective"):
    """(operator, start, end, bytes) of what runs on a stream."""
    table = run.spans.where((run.spans.text("stream") == stream) & (run.spans.text("kind") == kind))
    columns = (table.text("operator"), table["start"], table["end"], table["bytes"])
    return sorted(zip(*(column.tolist() for column in columns), strict=True), key=lambda row: row[1])


def kernels(run):
    return run.spans.where(run.spans.text("kind") == "compute")


def operators(run, pattern):
    return [name for name in run.spans.text("operator").tolist() if matches(pattern, name)]


def agrees(which):
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


def seconds(which, axes, num_bytes, operation=Operation.ALL_REDUCE):
    """The closed form of a collective over some axes of the scenario's mesh."""
    built = build_scenario(which)
    (span,), _ = built.cluster.placements(built.plan.mesh.groups(axes))
    return nanoseconds(collective_time(operation, span, num_bytes, built.cluster).seconds) * 1e-9


# -- reduction ------------------------------------------------------------------------------------------


def gradient_bytes(which, itemsize=4):
    return itemsize * build_scenario(which).plan.logical.num_parameters


def test_late_reduction_is_one_exposed_all_reduce_of_every_gradient():
    which = under(scenario({"data": 4}, devices=4), reduction=LATE)
    size = gradient_bytes(which)
    run = simulate(which)
    found = rows(run, "data (step)")
    assert [row[3] for row in found] == [4, size], "the loss, then all gradients"
    end_of_backward = max(
        end
        for end, action in zip(kernels(run)["end"], kernels(run).text("action"), strict=True)
        if action.startswith("B")
    )
    assert found[0][1] == end_of_backward
    wanted = seconds(which, ("data",), 4) + seconds(which, ("data",), size)
    assert run.documents["summary"]["exposed_communication_s"]["data"] == pytest.approx(wanted, rel=1e-12)
    agrees(which)


def test_overlap_hides_all_but_the_last_buckets():
    base = scenario({"data": 8}, devices=8, **ON_GPU)
    late = summary(under(base, reduction=LATE))
    # Smaller buckets would pay more for their latency than they hide.
    sized = {"bucket": "whole", "limit": {"bytes": "8 MB"}}
    early = summary(under(base, reduction=sized))
    exposed = early["exposed_communication_s"].get("data", 0.0)
    assert exposed < late["exposed_communication_s"]["data"]
    assert early["step_time_s"] < late["step_time_s"]
    same_buckets = summary(under(base, reduction=sized | {"overlap": False}))
    assert early["step_time_s"] < same_buckets["step_time_s"]


def test_reductions_of_layers_wait_for_the_backward_when_late():
    which = under(scenario({"data": 4}, devices=4), reduction={"overlap": False})
    found = rows(simulate(which), "data (step)")
    assert len(found) == 6, "four layers, embedding, head"
    assert all(before[2] == after[1] for before, after in itertools.pairwise(found))
    agrees(which)


@pytest.mark.combinations
@pytest.mark.parametrize("model", [TINY, TINY_GPT], ids=["llama", "gpt"])
@pytest.mark.parametrize("limit", quick(["100 B", "5 kB", "20 kB", "1 MB"], "100 B", "5 kB"))
@pytest.mark.parametrize("overlap", [True, False])
def test_buckets_of_a_size_cross_layers(model, limit, overlap):
    reduction = {"overlap": overlap, "bucket": "whole", "limit": {"bytes": limit}}
    which = under(scenario({"data": 2}, model=model), reduction=reduction)
    built = build_scenario(which)
    found = [row[3] for row in rows(simulate(which), "data (step)")][1:]
    assert sum(found) == gradient_bytes(which)
    cap = {"100 B": 100, "5 kB": 5000, "20 kB": 20_000, "1 MB": 1_000_000}[limit]
    assert all(size >= cap for size in found[:-1])
    largest = max(kind.num_bytes for _, kind in built.plan.logical.parameters())
    assert all(size < cap + 2 * largest for size in found)
    if limit == "100 B":
        assert len(found) > 20
    if limit == "1 MB":
        assert len(found) == 1
    agrees(which)


def test_the_first_bucket_may_be_smaller():
    limit = {"bytes": "20 kB", "first_bytes": "100 B"}
    which = under(scenario({"data": 2}), reduction=WHOLE | {"limit": limit})
    found = [row[3] for row in rows(simulate(which), "data (step)")]
    assert found[1] < 20_000 <= found[2]


def test_buckets_travel_as_soon_as_their_last_gradient_is_there():
    which = under(scenario({"data": 2}, micro_batches=2), reduction=WHOLE | {"limit": {"bytes": "30 kB"}})
    run = simulate(which)
    buckets = rows(run, "data (step)")
    last_kernel = max(
        end
        for end, action in zip(kernels(run)["end"], kernels(run).text("action"), strict=True)
        if action.startswith("B")
    )
    assert len(buckets) > 3
    assert buckets[1][1] < last_kernel <= buckets[-1][1]


@pytest.mark.combinations
@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize(
    "reduction", quick_at([WHOLE, LATE, WHOLE | {"limit": {"bytes": "3 kB"}}, {"overlap": False}], 2), ids=str
)
def test_buckets_work_with_tied_embeddings_stages_and_sharded_states(reduction, zero):
    which = under(
        scenario(
            {"pipeline": 3, "data": 2, "tensor": 2},
            model={**TINY_GPT, "layers": 3},
            micro_batches=3,
            recipe="megatron_sp",
            optimizer_sharding={"zero": zero},
        ),
        reduction=reduction,
    )
    agrees(which)
    folded, unfolded = simulate(which), simulate(which, unfold=True)
    times = [run.documents["summary"]["step_time_s"] for run in (folded, unfolded)]
    assert times[0] == times[1]


def test_whole_buckets_carry_the_same_bytes_as_layers():
    base = scenario({"pipeline": 2, "data": 2, "tensor": 2}, recipe="megatron_sp")
    sent = [summary(under(base, **switch))["communication_bytes"] for switch in ({}, {"reduction": WHOLE})]
    assert sent[0]["data"].keys() == sent[1]["data"].keys()
    for axis, operations in sent[0].items():
        for operation, size in operations.items():
            assert sent[1][axis][operation] == pytest.approx(size, rel=1e-12)


def test_copies_into_buckets_cost_kernels_and_memory():
    base = scenario({"data": 2})
    plain, copied = (simulate(under(base, reduction=switch)) for switch in (WHOLE, WHOLE | {"copies": True}))
    size = gradient_bytes(base)
    before, after = (run.documents["summary"]["peak_memory_bytes"][0] for run in (plain, copied))
    difference = after["breakdown"]["communication"] - before["breakdown"]["communication"]
    assert difference == size
    count = sum(1 for _ in build_scenario(base).plan.logical.parameters())
    assert len(kernels(copied)) - len(kernels(plain)) == 2 * count
    assert copied.documents["summary"]["step_time_s"] > plain.documents["summary"]["step_time_s"]
    for zero in (0, 1):
        agrees(under(scenario({"data": 2}, optimizer_sharding={"zero": zero}), reduction={"copies": True}))
    agrees(under(scenario({"data": 2}), reduction=LATE | {"copies": True}))


def test_reduction_buffers_are_held_all_along():
    base = scenario({"data": 2})
    limit = {"bucket": "whole", "limit": {"elements": 1000}}
    held = [
        summary(under(base, reduction=limit | {"buffers": buffers}))["peak_memory_bytes"][0]["breakdown"]
        for buffers in (0.0, 4.5)
    ]
    assert held[1]["communication"] - held[0]["communication"] == 4.5 * 1000 * 4
    alone = summary(under(scenario({"tensor": 2}), reduction=limit | {"buffers": 4.5}))
    without = summary(under(scenario({"tensor": 2}), reduction=limit))
    assert alone["peak_memory_bytes_max"] == without["peak_memory_bytes_max"]


# -- gathers, layer collectives, transfers ---------------------------------------------------------------


def test_exposed_gathers_end_before_the_first_kernel():
    base = scenario({"data": 4}, devices=4, optimizer_sharding={"zero": 1})
    which = under(base, gather="exposed")
    run = simulate(which)
    gathers = [row for row in rows(run, "data (step)") if "all_gather" in row[0]]
    assert len(gathers) == 6
    assert min(kernels(run)["start"]) == max(row[2] for row in gathers)
    ideal = simulate(under(base))
    assert min(kernels(ideal)["start"]) < max(
        row[2] for row in rows(ideal, "data (step)") if "all_gather" in row[0]
    )
    assert run.documents["summary"]["step_time_s"] > ideal.documents["summary"]["step_time_s"]
    agrees(which)


@pytest.mark.parametrize("zero", [1, 2])
def test_reductions_wait_for_the_backward_behind_exposed_gathers_too(zero):
    """Waits at the beginning of a step leave those at its end as they are."""
    base = scenario({"data": 4}, devices=4, optimizer_sharding={"zero": zero})
    which = under(base, gather="exposed", reduction={"overlap": False})
    run = simulate(which)
    busy = kernels(run)
    passes = np.array([action[:1] for action in busy.text("action").tolist()])
    found = rows(run, "data (step)")
    gathered = max(end for name, _, end, _ in found if "all_gather" in name)
    reduced = min(start for name, start, _, _ in found if "all_gather" not in name)
    assert gathered == busy["start"].min()
    assert reduced == busy["end"][passes == "B"].max()
    agrees(which)


def test_without_sharded_states_there_is_nothing_to_gather():
    base = scenario({"data": 4}, devices=4)
    assert summary(under(base, gather="exposed"))["step_time_s"] == summary(base)["step_time_s"]


@pytest.mark.parametrize("recipe", quick(["megatron", "megatron_sp"], "megatron"))
def test_blocking_collectives_of_layers_run_beside_no_kernel(recipe):
    base = scenario({"tensor": 4}, devices=4, recipe=recipe, **ON_GPU)
    blocking = under(base, layer_collectives="blocking")
    found, ideal = simulate(blocking), simulate(base)
    busy = kernels(found)
    for _, start, end, _ in rows(found, "tensor"):
        assert not np.any((busy["start"] < end) & (busy["end"] > start))
    exposed = [run.documents["summary"]["exposed_communication_s"]["tensor"] for run in (found, ideal)]
    assert exposed[0] > exposed[1]
    total = sum(end - start for _, start, end, _ in rows(found, "tensor")) * 1e-9
    assert exposed[0] == pytest.approx(total, rel=1e-9)
    agrees(blocking)


def test_asynchronous_tensor_parallelism_hides_the_all_reduce_of_the_inputs_gradient():
    """As in Megatron 2022: the weight gradient's GEMM runs beside it."""
    base = scenario({"tensor": 2}, recipe="megatron", **ON_GPU)
    old, new = (summary(under(base, layer_collectives=how, dispatch=0)) for how in ("blocking", "overlapped"))
    assert new["exposed_communication_s"]["tensor"] < old["exposed_communication_s"]["tensor"]
    assert new["compute_s"] == pytest.approx(old["compute_s"], rel=1e-12)
    assert new["step_time_s"] < old["step_time_s"]


def test_transfers_are_the_frameworks_choice_unless_the_scenario_says():
    def overlapped(schedule, **switches):
        return build_scenario(
            under(scenario({"pipeline": 2}, schedule=schedule), **switches)
        ).plan.pipeline.overlapped

    assert overlapped("1f1b")
    assert not overlapped("1f1b", p2p="blocking")
    assert overlapped({"kind": "1f1b", "p2p": "overlapped"}, p2p="blocking")
    assert not overlapped({"kind": "1f1b", "p2p": "blocking"}, p2p="overlapped")
    assert not overlapped("1f1b", p2p="blocking", p2p_interleaved="overlapped")
    assert overlapped("interleaved", p2p="blocking", p2p_interleaved="overlapped")
    assert not overlapped("interleaved", p2p="blocking")


def test_blocking_transfers_take_longer():
    base = scenario({"pipeline": 4}, micro_batches=8, **ON_GPU)
    assert summary(under(base, p2p="blocking"))["step_time_s"] > summary(base)["step_time_s"]


@pytest.mark.parametrize("p2p", quick(["overlapped", "blocking"], "overlapped"))
def test_scattered_transfers_carry_a_part_and_are_gathered(p2p):
    base = scenario({"pipeline": 2, "tensor": 4}, devices=4, recipe="megatron", host="dgx-h100")
    whole, parts = (under(base, p2p=p2p, p2p_scatter=scatter) for scatter in (False, True))
    before, after = simulate(whole), simulate(parts)
    sent = [
        run.documents["summary"]["communication_bytes"]["pipeline"]["send_receive"] for run in (before, after)
    ]
    assert sent[0] == 4 * sent[1]
    gathers = rows(after, "tensor (transfer)")
    received = [row for stream in ("recv_prev", "recv_next") for row in rows(after, stream, kind="receive")]
    assert len(gathers) == len(received) == 8
    assert {row[3] for row in gathers} == {4 * row[3] for row in received}
    assert rows(before, "tensor (transfer)") == []
    agrees(parts)
    assert (
        simulate(parts, unfold=True).documents["summary"]["step_time_s"]
        == after.documents["summary"]["step_time_s"]
    )


def test_activations_that_are_split_already_are_not_scattered():
    base = scenario({"pipeline": 2, "tensor": 2}, recipe="megatron_sp")
    which = under(base, p2p_scatter=True)
    assert build_scenario(which).program.digest() == build_scenario(base).program.digest()


def test_scattering_pays_where_the_network_is_slow():
    base = scenario({"pipeline": 2, "tensor": 4}, devices=4, recipe="megatron", **ON_GPU)
    blocking = {"p2p": "blocking"}
    parts, whole = (summary(under(base, **blocking, p2p_scatter=scatter)) for scatter in (True, False))
    assert parts["exposed_communication_s"]["pipeline"] < whole["exposed_communication_s"]["pipeline"]


# -- kernels -----------------------------------------------------------------------------------------------


def test_gradients_are_added_by_kernels_of_their_own():
    base = scenario({"data": 2}, micro_batches=3)
    ideal, matmul, none = (simulate(under(base, accumulate=families)) for families in ("all", ["matmul"], []))
    count = sum(1 for _ in build_scenario(base).plan.logical.parameters())
    norms = 4 * 2 + 1
    assert len(operators(ideal, "*.accumulate")) == 0
    assert len(operators(none, "*.accumulate")) == 3 * count
    # RMS norms and the embedding's table; matmuls add themselves.
    assert len(operators(matmul, "*.accumulate")) == 3 * (norms + 1)
    times = [run.documents["summary"]["compute_s"] for run in (ideal, matmul, none)]
    assert times == sorted(times)
    assert len(set(times)) == 3
    for families, recipe in ((["matmul"], "megatron"), ([], "megatron_sp")):
        which = scenario({"data": 2, "tensor": 2}, model=TINY_GPT, recipe=recipe)
        agrees(under(which, accumulate=families))


def test_an_added_gradient_is_read_in_the_compute_format_and_written_in_its_own():
    which = under(scenario({"data": 2}, micro_batches=1), accumulate=[])
    run = simulate(which)
    adds = run.spans.where(
        run.spans.text("operator") == "layers.0.mlp.up.wgrad.mlp.up.up.weight.grad.accumulate"
    )
    elements = TINY["hidden"] * TINY["ffn"]
    assert adds["bytes"].tolist() == [elements * (2 + 4 + 4)]


def test_updates_one_by_one():
    base = scenario({"data": 2}, host="dgx-h100")
    together, apart = (simulate(under(base, optimizer=how)) for how in ("together", "one_by_one"))
    count = sum(1 for _ in build_scenario(base).plan.logical.parameters())
    assert len(operators(together, "*.update")) == 6
    assert len(operators(apart, "*.update")) == count
    assert apart.documents["summary"]["host_s"] > together.documents["summary"]["host_s"]
    agrees(under(base, optimizer="one_by_one"))


def test_fewer_fusions_are_more_kernels_and_more_dispatch():
    base = scenario({"data": 2}, model=TINY_GPT, host="dgx-h100")
    ideal, eager = (simulate(under(base, **switch)) for switch in ({}, {"fuse": []}))
    assert len(kernels(eager)) > len(kernels(ideal))
    assert eager.documents["summary"]["host_s"] > ideal.documents["summary"]["host_s"]


def test_an_earlier_release_of_the_attention_kernel_takes_longer():
    base = scenario({"data": 2}, host="dgx-h100")
    kinds = "flash_1", "flash_2", "flash_triton", "flash"
    built_of_kinds = [build_scenario(under(base, attention=kind)) for kind in kinds]
    releases = [
        {
            dict(work.sizes).get("release")
            for code in built.program.codes
            for each in code.instructions
            for work in each.works
            if work.kernel is Kernel.ATTENTION
        }
        for built in built_of_kinds
    ]
    assert releases == [{1}, {2}, {TRITON_RELEASE}, {None}]


def test_dispatch_scales_the_hosts_time():
    base = scenario({"data": 2}, host="dgx-h100")
    slow, usual = (summary(under(base, dispatch=factor)) for factor in (4.0, 1.0))
    assert slow["host_s"] > 3 * usual["host_s"]


# -- number formats ----------------------------------------------------------------------------------------


def residents(which, pattern):
    (stage,) = build_scenario(which).program.parts
    return sum(each.num_bytes for each in stage.residents if matches(pattern, each.name))


def test_main_gradients_are_copied_to_the_masters_format():
    base = scenario({"data": 2}, training={"precision": {"compute": "bf16", "gradients": "bf16"}})
    which = under(base, main_gradients=True)
    assert residents(which, "*.main_grad") == residents(base, "*.main_grad") == 0
    count = sum(1 for _ in build_scenario(base).plan.logical.parameters())
    run, plain = simulate(which), simulate(base)
    held = [np.cumsum(one.memory["bytes"]) for one in (run, plain)]
    assert held[0][-1] == held[1][-1]  # the copies are gone when the step ends
    assert len(operators(run, "*.main_grad")) == count
    assert run.documents["summary"]["compute_s"] > plain.documents["summary"]["compute_s"]
    agrees(which)
    sharded = scenario(
        {"data": 2}, optimizer_sharding={"zero": 1}, training={"precision": {"gradients": "bf16"}}
    )
    agrees(under(sharded, main_gradients=True))


def test_gradients_are_cast_before_they_are_added():
    base = under(scenario({"data": 2}), accumulate=[])
    which = under(scenario({"data": 2}), accumulate=[], gradient_casts=True)
    run, plain = simulate(which), simulate(base)
    casts = operators(run, "*.grad.cast")
    assert casts and not operators(plain, "*.grad.cast")
    assert run.documents["summary"]["compute_s"] > plain.documents["summary"]["compute_s"]
    agrees(which)
    same = under(
        scenario({"data": 2}, training={"precision": {"compute": "bf16", "gradients": "bf16"}}),
        accumulate=[],
        gradient_casts=True,
    )
    assert not operators(simulate(same), "*.grad.cast")


def test_gradients_in_the_masters_format_are_not_copied():
    base = scenario({"data": 2})
    which = under(base, main_gradients=True)
    assert build_scenario(which).program.digest() == build_scenario(base).program.digest()


@pytest.mark.combinations
@pytest.mark.parametrize("how", quick(["cast", "cast_twice"], "cast"))
@pytest.mark.parametrize("recompute", ["none", "all"])
@pytest.mark.parametrize("zero", [0, 1])
def test_cast_weights_are_fp32_and_have_no_master_copy(how, recompute, zero):
    base = scenario(
        {"pipeline": 2, "data": 2},
        model=TINY_GPT,
        recompute={"layers": recompute},
        optimizer_sharding={"zero": zero},
    )
    which = under(base, weights=how)
    plan = build_scenario(which).plan
    assert plan.numerics.master is None
    layer = next(block for block in plan.graph.blocks.values() if "layer" in block.name)
    assert str(layer.values["mlp.up.weight"].type.dtype) == "fp32"
    assert str(layer.values["mlp.up.weight.cast"].type.dtype) == "bf16"
    agrees(which)


def test_casts_are_kept_for_the_backward_or_made_again():
    base = scenario({"data": 2}, micro_batches=2)
    count = sum(1 for _ in build_scenario(base).plan.logical.parameters())
    kept, again = (simulate(under(base, weights=how)) for how in ("cast", "cast_twice"))
    assert len(operators(kept, "*.cast")) == len(operators(again, "*.cast")) == 2 * count
    assert operators(kept, "*.cast.again") == []
    # A bias or norm weight that the backward does not read is not cast again.
    assert 0 < len(operators(again, "*.cast.again")) <= 2 * count
    peaks = [run.documents["summary"]["peak_memory_bytes_max"] for run in (kept, again)]
    assert peaks[0] > peaks[1]
    times = [run.documents["summary"]["compute_s"] for run in (kept, again)]
    assert times[0] < times[1]


def test_layers_that_recompute_cast_in_the_recomputation_and_not_once_more():
    base = scenario({"data": 2}, recompute={"layers": "all"})
    run = simulate(under(base, weights="cast_twice"))
    assert operators(run, "layers.*.cast.recompute")
    assert not operators(run, "layers.*.cast.again")


def test_what_the_scenario_says_of_numbers_wins():
    master = scenario({"data": 2}, training={"precision": {"compute": "bf16", "master": "fp32"}})
    assert str(build_scenario(under(master, weights="cast")).plan.numerics.master) == "fp32"
    gradients = scenario({"data": 2}, training={"precision": {"compute": "bf16", "gradients": "fp32"}})
    assert str(build_scenario(under(gradients, gradients="compute")).plan.numerics.gradients) == "fp32"
    single = scenario({"data": 2}, training={"precision": "fp32"})
    assert (
        build_scenario(under(single, weights="cast")).program.digest()
        == build_scenario(single).program.digest()
    )


def test_the_vocabulary_is_padded_as_the_framework_does():
    base = scenario({"tensor": 2}, recipe="megatron", model={**TINY, "vocab": 130})
    assert build_scenario(under(base)).plan.vocab == 256
    assert build_scenario(under(base, vocabulary_multiple=1)).plan.vocab == 130
