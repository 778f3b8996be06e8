"""The document of memory: what is allocated, reserved and alive, and what profiles make of it."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from simcluster.plan.spec import FrameworkMemorySpec
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.covering import quick

GIB = 1 << 30
RESERVE = sys.modules["simcluster.analysis.memory_usage.allocator_replay"]


def written(**options):
    """A Llama of two layers on one host."""
    model = {"layers": 2, "hidden": 1024, "heads": 8, "ffn": 2816, "vocab": 32_000}
    return {
        "simcluster": 1,
        "name": "held",
        "cluster": {"use": "dgx-h100", "hosts": 1},
        "framework": "megatron-core",
        "model": model | options.pop("model", {}),
        "training": {"global_batch": 8, "micro_batch": 1, "seq_len": 2048} | options.pop("training", {}),
        "parallel": {"mesh": {"data": 8}} | options.pop("parallel", {}),
        **options,
    }


def run(storage=None, **options):
    scenario = Scenario.of(written(**options))
    if storage is not None:
        profile = scenario.spec.framework.model_copy(update={"storage": FrameworkMemorySpec(**storage)})
        scenario = replace(scenario, spec=scenario.spec.model_copy(update={"framework": profile}))
    return simulate(scenario)


def level(found, name):
    """Bytes of a buffer, over all its rows, at their highest."""
    rows = found.memory
    names = rows.names["buffer"]
    mine = np.isin(rows["buffer"], [number for number, known in enumerate(names) if known == name])
    return int(np.cumsum(rows["bytes"][mine]).max(initial=0))


def test_allocated_and_outside_are_the_peak():
    found = run()
    (entry,), (peak,) = found.documents["memory"], found.documents["summary"]["peak_memory_bytes"]
    assert entry["allocated"] + entry["outside"] == peak["total"]
    assert entry["outside"] == level(found, "runtime") + level(found, "communicators")
    assert entry["allocated"] <= entry["reserved"] < 1.2 * entry["allocated"]
    assert found.documents["summary"]["allocated_memory_bytes_max"] == entry["allocated"]
    assert found.documents["summary"]["reserved_memory_bytes_max"] == entry["reserved"]
    assert sum(each["bytes"] for each in entry["alive"]) == peak["total"]
    times, levels = zip(*entry["reserved_over_time"], strict=True)
    assert list(times) == sorted(times) and list(levels) == sorted(set(levels))
    assert levels[-1] == entry["reserved"]


def test_the_ideal_profile_reserves_what_it_allocates():
    (entry,) = run(framework="ideal").documents["memory"]
    assert entry["reserved"] == entry["allocated"]
    assert entry["allocator"] is None
    assert "reserved_over_time" not in entry


def test_every_stage_is_told_once_by_its_fullest_class():
    found = run(parallel={"mesh": {"pipeline": 2, "data": 4}}, training={"global_batch": 16})
    assert [entry["stage"] for entry in found.documents["memory"]] == [0, 1]
    peaks = found.documents["summary"]["peak_memory_bytes"]
    for entry in found.documents["memory"]:
        most = max(peak["total"] for peak in peaks if peak["stage"] == entry["stage"])
        assert entry["allocated"] + entry["outside"] == most


JUMPED = [("1f1b", 2), ("gpipe", 2), ({"kind": "interleaved", "chunks": 2}, 8), ({"kind": "zb_v"}, 2)]


@pytest.mark.parametrize(("schedule", "pipeline"), quick(JUMPED, JUMPED[0], JUMPED[2]), ids=str)
def test_jumping_over_equal_micro_batches_changes_nothing(schedule, pipeline, monkeypatch):
    """With 24 micro-batches the replay jumps where it may; told never to, it finds the same. So do lists and
    machine code.
    """
    options = {
        "model": {"layers": 16, "hidden": 256, "heads": 8, "ffn": 512, "vocab": 4000},
        "parallel": {"mesh": {"pipeline": pipeline, "data": 8 // pipeline}, "schedule": schedule},
        "training": {"global_batch": 8 // pipeline * 24},
    }
    monkeypatch.setattr(RESERVE.POOL_CODE, "pays", lambda seconds: False)
    jumped = run(**options).documents["memory"]
    monkeypatch.setattr(RESERVE.POOL_CODE, "pays", lambda seconds: True)
    assert run(**options).documents["memory"] == jumped
    rows = []
    through = RESERVE._Replay._rows
    monkeypatch.setattr(RESERVE, "STEADY", 10**9)
    monkeypatch.setattr(
        RESERVE._Replay, "_rows", lambda self, *args: (rows.append(args[1:]), through(self, *args))[1]
    )
    assert run(**options).documents["memory"] == jumped
    assert sum(end - begin for begin, end in rows) > 2000


def test_several_steps_reserve_what_two_do():
    one, three = run(), run(run={"steps": 3})
    assert three.documents["memory"][0]["reserved"] == one.documents["memory"][0]["reserved"]


# -- what a profile's storage says --------------------------------------------------------------------------

LOGITS = 2048 * 32_000


def test_a_gradient_in_place_takes_no_memory_of_its_own():
    """fp32 logits and their gradient; then one of them and the gradient in the compute format."""
    beside, within = run({}), run({"in_place": ["loss"]})
    freed = beside.documents["memory"][0]["allocated"] - within.documents["memory"][0]["allocated"]
    assert freed == pytest.approx(2 * LOGITS, rel=1e-3)


def test_scratch_is_held_while_its_kernel_runs():
    without, with_scratch = run({}), run({"scratch": {"loss": 0.5}})
    more = with_scratch.documents["memory"][0]["allocated"] - without.documents["memory"][0]["allocated"]
    assert more == 4 * LOGITS // 2
    assert level(with_scratch, "head.loss.grad (scratch)") == 4 * LOGITS // 2
    rows = with_scratch.memory
    assert not rows["bytes"][rows["micro_batch"] >= 0].sum()


@pytest.mark.parametrize(
    ("model", "more"),
    [
        # Rotary embedding makes other queries and keys; those of the projection are kept with the values.
        ({}, 2 * (1024 + 1024)),
        ({"kv_heads": 2}, 2 * (1024 + 256)),
        # Without it all three are what attention reads anyway.
        ({"positions": "none"}, 0),
    ],
)
def test_parts_of_one_tensor_are_held_together(model, more):
    two, whole = (
        [run(storage, model={**model, "layers": layers}).documents["memory"][0] for layers in (2, 4)]
        for storage in ({}, {"whole": ["matmul"]})
    )
    grown = (whole[1]["allocated"] - whole[0]["allocated"]) - (two[1]["allocated"] - two[0]["allocated"])
    assert grown == 2 * 2048 * more


def test_placeholders_are_one_for_every_shape():
    """Queries, keys and values together; the output projection; gate and up; down: 16 bits per element."""
    elements = 3 * 1024 * 1024 + 1024 * 1024 + 3 * 1024 * 2816
    for layers in (2, 4):
        found = run({"placeholders": ["matmul"]}, model={"layers": layers})
        assert level(found, "gradient placeholders") == 2 * elements


def test_placeholders_of_experts_are_those_of_one_expert():
    experts = {"count": 4, "top_k": 2, "ffn": 512}
    found = run({"placeholders": ["matmul"]}, model={"experts": experts})
    attention = 4 * 1024 * 1024
    assert level(found, "gradient placeholders") == pytest.approx(2 * (attention + 3 * 1024 * 512), rel=0.002)


def test_workspaces_are_the_devices_own():
    assert level(run({"workspaces": 3}), "workspaces") == 3 * 32 * (1 << 20)
    with_a100 = run({"workspaces": 2}, cluster={"use": "dgx-a100", "hosts": 1})
    assert level(with_a100, "workspaces") == 2 * (4096 * 2 + 16 * 8) * 1024
    told = {"workspaces": 2, "workspace": "24 MiB"}
    assert level(run(told), "workspaces") == 2 * 24 * (1 << 20)


def test_a_buffer_for_scores_is_one_for_all_layers():
    """Of unfused attention: 8 heads on two tensor ranks, 16 bits for each of the scores."""
    mesh = {"data": 4, "tensor": 2}
    framework = {"use": "megatron-core-local"}
    found = run(framework=framework, parallel={"mesh": mesh, "recipe": "megatron"})
    assert level(found, "operand buffer") == 2 * 4 * 2048 * 2048
    assert level(run({"operand_buffers": ["softmax"]}), "operand buffer") == 0


def test_weights_in_fp8_alone_have_no_copy_in_16_bits():
    """All that matmuls of layers read, q, k, v, o, gate, up and down; the head stays as it is."""
    training = {"precision": {"compute": "bf16", "matmul": "fp8"}}
    both, alone = (
        run({"fp8_weights": only}, training=training).documents["summary"]["peak_memory_bytes"][0]
        for only in (False, True)
    )
    assert both["breakdown"]["parameters"] - alone["breakdown"]["parameters"] == 2 * 2 * (
        4 * 1024**2 + 3 * 1024 * 2816
    )
    plain = [run({"fp8_weights": only}).documents["memory"][0]["allocated"] for only in (False, True)]
    assert plain[0] == plain[1]


def test_an_unknown_allocator_is_refused():
    with pytest.raises(ValueError, match="unknown allocator 'torhc'"):
        FrameworkMemorySpec(allocator="torhc")
