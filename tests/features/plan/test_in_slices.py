"""What goes through a pipeline in slices of sequences, what of it is kept and shared, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.errors import SimclusterError
from simcluster.model import Phase, Role
from simcluster.program import build
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.work import Kernel

LLAMA = {"layers": 4, "hidden": 256, "heads": 4, "kv_heads": 2, "ffn": 512, "vocab": 512}


def scenario(schedule=None, *, seq_len=1024, mesh=None, batch=4, model=LLAMA, **parallel) -> Scenario:
    mesh = mesh or {"pipeline": 2}
    ranks = int(np.prod(list(mesh.values())))
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "slices",
            "cluster": {"host": {"use": "dgx-h100", "devices": ranks, "network": {"nics": 1}}, "hosts": 1},
            "model": model,
            "training": {"global_batch": batch, "micro_batch": 1, "seq_len": seq_len, "precision": "bf16"},
            "parallel": {"mesh": mesh, "schedule": schedule or {"kind": "seqpipe", "slices": 4}, **parallel},
        }
    )


def attention(plan, stage):
    """FLOPs of the attention kernels of a stage in one step, forward and backward."""
    program = build(plan)
    return [
        sum(work.flops for each in program.codes[run.code].instructions for work in each.works)
        for run in program.parts[stage].executions
        for code in (program.codes[run.code],)
        if any(work.kernel is Kernel.ATTENTION for each in code.instructions for work in each.works)
    ]


def flops(plan, kernel=None):
    program = build(plan)
    return sum(
        work.flops
        for part in program.parts
        for run in part.executions
        for each in program.codes[run.code].instructions
        for work in each.works
        if kernel in (None, work.kernel)
    )


@pytest.mark.parametrize("model", [LLAMA, LLAMA | {"window": 300}], ids=["whole", "window"])
def test_slices_compute_what_whole_sequences_do_and_later_ones_more(model):
    whole, sliced = (
        build_scenario(scenario("1f1b", model=model)).plan,
        build_scenario(scenario(model=model)).plan,
    )
    assert flops(sliced, Kernel.ATTENTION) == flops(whole, Kernel.ATTENTION)
    assert flops(sliced, Kernel.GEMM) == flops(whole, Kernel.GEMM)
    blocks = [sliced.graph.blocks[f"layer{end}"] for end in ("", *(f" (slice {n})" for n in (1, 2, 3)))]
    work = [
        sum(
            each.flops
            for node in block.phase(Phase.FORWARD)
            if node.operator.family == "attention"
            for each in node.operator.work(
                [block.values[value].type for value in node.inputs],
                [block.values[value].type for value in node.outputs],
            )
        )
        for block in blocks
    ]
    assert sum(work) > 0
    if "window" not in model:
        # Of a causal square, slice s has 2 s + 1 parts of n squared.
        assert [each / work[0] for each in work] == [1, 3, 5, 7]


def test_weights_and_what_happens_once_are_there_once():
    whole, sliced = build_scenario(scenario("1f1b")).plan, build_scenario(scenario()).plan
    assert sliced.graph.num_parameters == whole.graph.num_parameters
    for one, other in zip(build(whole).parts, build(sliced).parts, strict=True):
        assert one.residents == other.residents
        once = [[run.instance for run in part.executions if run.micro_batch < 0] for part in (one, other)]
        assert once[0] == once[1]


def test_keys_and_values_are_kept_from_the_first_slice_to_the_last():
    plan = build_scenario(scenario()).plan
    block = plan.graph.blocks["layer (slice 3)"]
    cached = [value for value in block.inputs if "(slice" in value]
    assert len(cached) == 6
    gradients = [plan.graph.blocks["layer (slice 2)"].gradients[name] for name in cached if "slice 0" in name]
    assert all(plan.graph.blocks["layer (slice 2)"].values[name].role is Role.SUM for name in gradients)


def test_shorter_bubbles_and_fewer_activations_at_the_price_of_smaller_kernels():
    """8 stages and 8 micro-batches of 8,192 tokens: a bubble of a micro-batch's time on 7 stages is long."""
    model = LLAMA | {"layers": 8, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 16384}
    found = {
        slices: simulate(
            scenario(
                {"kind": "seqpipe", "slices": slices},
                mesh={"pipeline": 8},
                seq_len=8192,
                batch=8,
                model=model,
            )
        ).documents["summary"]
        for slices in (1, 4)
    }
    assert found[4]["step_time_s"] < 0.8 * found[1]["step_time_s"]
    assert found[4]["bubble_fraction"] < 0.6 * found[1]["bubble_fraction"]
    assert found[4]["peak_memory_bytes_max"] < found[1]["peak_memory_bytes_max"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_len": 1022}, "1,022 tokens / 4 slices = 255.5"),
        ({"mesh": {"pipeline": 2, "context": 2}}, "split over context besides"),
        ({"model": {"use": "bert-base"}, "seq_len": 512}, "queries see keys of slices that come later"),
        (
            {"mesh": {"data": 2}, "optimizer_sharding": {"zero": 3}, "model": LLAMA | {"tied": True}},
            "are one parameter on one stage, whose weights are sharded",
        ),
    ],
)
def test_what_has_no_slices_is_refused(options, message):
    with pytest.raises(SimclusterError, match=message):
        build_scenario(scenario(**options))


def test_attention_in_several_kernels_is_refused_with_a_way_out():
    with pytest.raises(SimclusterError, match="takes no slices of sequences") as caught:
        build_scenario(scenario_with("megatron-lm-2021"))
    assert "attention: flash" in caught.value.problems[0].hint


def scenario_with(framework) -> Scenario:
    data = scenario().spec.model_dump(mode="json", exclude_unset=True)
    return Scenario.of(data | {"framework": framework})


@pytest.mark.parametrize("framework", ["megatron-core", "mindspore-graph", "torchtitan"])
def test_frameworks_hold_keys_and_values_as_tensors_of_their_own(framework):
    """Under Megatron queries, keys and values of one product are one tensor, but for what others read."""
    summary = simulate(scenario_with(framework)).documents["summary"]
    assert all(each["fits"] for each in summary["peak_memory_bytes"])


def test_dropout_draws_what_whole_sequences_draw():
    model = {
        "family": "gpt",
        "layers": 4,
        "hidden": 16,
        "heads": 4,
        "ffn": 32,
        "vocab": 64,
        "positions": "alibi",
        "dropout": 0.2,
        "attention_dropout": 0.2,
        "embedding_dropout": 0.1,
    }
    for extra in (model, LLAMA | {"window": 300}, LLAMA | {"tied": True, "qk_norm": True}):
        assert verify(scenario(model=extra, seq_len=16)).agrees


def test_a_network_of_one_length_takes_no_slices():
    network = {"family": "vit", "layers": 3, "hidden": 32, "heads": 4, "image": 12, "patch": 4, "classes": 6}
    with pytest.raises(SimclusterError, match="are 10 tokens, not 5, as each of 2 slices has"):
        build_scenario(scenario("seqpipe", seq_len=10, model=network))
