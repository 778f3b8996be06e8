from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simcluster.errors import SimulationError
from simcluster.plan import make_plan
from simcluster.scenario import Scenario
from simcluster.simulation import Verification, build_scenario, verify
from simcluster.simulation.compose.build import plan_scenario
from simcluster.simulation.verification import shrink_sizes
from simcluster.simulation.verification.shrink_sizes import small_mesh
from simcluster.simulation.verification.single_device_comparison import verify_plan
from simcluster.values import Oracle, SeededData, TensorComparison
from tests.support.covering import quick, quick_at
from tests.support.scenarios import TINY, TINY_GPT, scenario, shrunk

FEW_RANKS = 16
"""Three stages and two ranks of each other axis are 12: more show no other composition."""
LATER = {
    "bloom-176b-384-a100": "tiny-gpt-cpu",
    "gpt-auto-dynamic-atlas-800t-a2": "tiny-gpt-cpu",
    "gpt-auto-propagation-8-v100": "tiny-gpt-cpu",
    "gpt-auto-recursive-atlas-800t-a2": "tiny-gpt-cpu",
    "gpt3-175b-1024-a100": "tiny-gpt-cpu",
    "llama2-13b-32-h100-sweep": "quickstart",
    "llama2-7b-8-ascend-910b-copies": "llama2-7b-8-ascend-910b-fine-grained",
    "llama2-7b-8-ascend-910b-tensor": "llama2-7b-8-ascend-910b-fine-grained",
    "llama2-7b-atlas-900-a2": "quickstart",
    "llama2-7b-h100-ascend-910b": "tiny-gpt-cpu",
    "llama3-405b-16384-h100": "quickstart",
    "llama3-70b-256-h100-propagated": "quickstart",
    "llama3-70b-64-h100-32k": "quickstart",
    "llama3-70b-inference-8-ascend-910b": "llama3-70b-inference-8-h100",
    "llama3-8b-16-ascend-910b-sharded": "llama3-8b-atlas-800t-a2",
    "llama3-8b-1m-tokens-256-h100": "quickstart",
    "manual-halo-exchange-4-ascend-910": "manual-all-reduce-8-ascend-910",
    "megatron-1.7b-32-a100": "tiny-gpt-cpu",
    "megatron-1t-2048-h200": "tiny-gpt-cpu",
    "megatron-39b-512-a100": "tiny-gpt-cpu",
    "mixed-h100-ascend-cpu": "llama3-8b-atlas-800t-a2",
    "mixtral-8x7b-64-h100": "deepseek-v3-4-layers-8-b200",
    "mpt-7b-32-a100": "llama3-8b-8-h100-torchtitan",
    "ops-shard-8-ascend-910b": "tiny-gpt-cpu",
    "opt-175b-992-a100": "tiny-gpt-cpu",
    "pangu-alpha-200b-2048-ascend-910": "tiny-gpt-cpu",
    "qwen3-30b-a3b-32-h100-skewed": "deepseek-v3-4-layers-8-b200",
    "remote-sensing-16-ascend-910": "resnet-50-8-v100",
    "resnet-50-64-ascend-910": "resnet-50-8-v100",
    "resnet-50-8-ascend-910": "resnet-50-8-v100",
    "resnet-50-8-v100-from-disks": "resnet-50-8-v100",
    "resnet-50-auto-8-v100": "resnet-50-8-v100",
    "tenants-576-h100": "llama3-8b-8-h100-torchtitan",
    "wide-deep-1-ascend-910-host": "wide-deep-16-ascend-910-host",
    "wide-deep-32-ascend-910-host": "wide-deep-16-ascend-910-host",
    "wide-deep-8-ascend-910": "wide-deep-16-ascend-910-host",
    "wide-deep-8-ascend-910-host": "wide-deep-16-ascend-910-host",
    "wide-deep-8-ascend-910-rows": "wide-deep-16-ascend-910-host",
    "wide-deep-auto-8-ascend-910": "wide-deep-16-ascend-910-host",
    "zero-infinity-gpt3-175b-16-v100": "zero-offload-10b-1-v100",
}
"""Thorough ones, each with one of the quick run that is nearest to it in its model and in how that is split.

What they have besides, the quick run shows on small models: the contract of compositions has schedules,
sharding, recomputation, offload, context, experts, copies, precisions and profiles in pairs; and there are
``test_padding``, ``test_mixed``, ``test_pieces``, ``test_written_strategies`` (layouts, propagation),
``test_fusion`` (the recipe of PanGu), ``test_inference``, ``test_inputs``, ``test_host_work``,
``test_offload``, ``test_recompute_search``, ``test_residual`` (neighbours), ``test_onnx_network`` and
``test_auto`` (searched strategies).
"""
LONG = {
    "deepseek-v3-2048-h800",
    "llama2-13b-8-a100-40-offload",
    "llama2-13b-8-a100-40-recompute",
    "llama3-70b-512-h100",
    "llama3-70b-64-h100-overlap",
    "llama3-70b-64-h100-seqpipe",
    "llama3-70b-64-h100-sequence-parallel",
    "megatron-1t-2048-h200-interleaved",
    "megatron-1t-2048-h200-zb-v",
    "onnx-language-model-8-h100",
}
"""Whose sequences stay long in their small forms, or layers many: contracts show these on small models
(``test_compositions``: schedules, sharding, offload, recomputation), and ``test_auto`` the ONNX model.
"""
ALIKE = {
    "gpt-auto-dynamic-8-v100": "gpt-auto-dynamic-atlas-800t-a2",
    "gpt-auto-propagation-atlas-800t-a2": "gpt-auto-propagation-8-v100",
    "gpt-auto-recursive-8-v100": "gpt-auto-recursive-atlas-800t-a2",
    "megatron-18b-256-a100": "megatron-39b-512-a100",
    "mt-nlg-530b-2240-a100": "bloom-176b-384-a100",
    "pangu-alpha-200b-2048-ascend-910-searched": "pangu-alpha-200b-2048-ascend-910",
}
"""Exhaustive ones, each with one that is its like in model and plan, once both are small."""


def shipped(path):
    exhaustive = path.stem in LONG | ALIKE.keys()
    marks = [pytest.mark.exhaustive] * exhaustive + [pytest.mark.thorough] * (path.stem in LATER)
    return pytest.param(path, id=path.stem, marks=marks)


PATHS = sorted(Path("scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", [shipped(path) for path in PATHS])
def test_every_shipped_scenario_computes_what_one_device_computes(path, monkeypatch):
    """On few ranks: the rule by which plans are made small is the same for any number."""
    monkeypatch.setattr(shrink_sizes, "MOST_RANKS", FEW_RANKS)
    assert_right(Scenario.load(path))


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_shipped_scenario_does_on_as_many_ranks_as_users_see(path):
    assert_right(Scenario.load(path))


def test_what_is_shown_later_is_shown_by_another_now():
    names = {path.stem for path in PATHS}
    later = LATER.keys() | ALIKE.keys() | LONG
    assert later <= names
    assert {*LATER.values()} <= names - later
    assert {*ALIKE.values()} <= names - ALIKE.keys() - LONG


def assert_right(which):
    plan = plan_scenario(which)
    found = verify_plan(which, plan)
    assert found.agrees, found.first_difference or found.fault
    states = {"state"} if any(block.states for block in plan.logical.blocks.values()) else set()
    compared = (
        {"loss", "gradient", "update"} | states if which.spec.inference is None else {"logits", "token"}
    )
    steps = {0, 1} if which.spec.inference is None else {0}
    servers = which.spec.parallel.parameter_server
    if servers is not None and servers.update != "synchronous":
        compared.discard("state")
    assert {each.what for each in found.comparisons} == compared
    assert {each.step for each in found.comparisons} == steps
    assert max(each.error for each in found.comparisons) < 1e-9


@pytest.mark.combinations
@pytest.mark.parametrize("dtype", quick(["float64", "float32"], "float32"))
@pytest.mark.parametrize("model", [TINY, TINY_GPT], ids=["llama", "gpt"])
def test_both_precisions(model, dtype):
    which = scenario({"pipeline": 2, "data": 2, "tensor": 2}, model=model, recipe="megatron_sp")
    found = verify(which, dtype=dtype)
    assert found.agrees, found.first_difference or found.fault


@pytest.mark.combinations
@pytest.mark.parametrize(
    "optimizer", quick(["sgd", "momentum", "adam", "adamw", "lamb"], "sgd", "momentum", "adam")
)
@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_optimizers(optimizer, zero, precision):
    training = {"optimizer": {"kind": optimizer, "weight_decay": 0.1}, "precision": precision}
    which = scenario({"data": 2, "tensor": 2}, training=training, optimizer_sharding={"zero": zero})
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault


def test_results_that_are_gathered_before_the_first_is_read():
    """A gather waits for no kernel that is issued behind it, however far ahead its reader is."""
    strategies = [
        {"match": "layers.*.mlp.up", "split": {"ffn": "a"}},
        {"match": "layers.*.mlp.activation", "split": {"seq": "b"}},
    ]
    assert verify(scenario({"data": 1, "a": 2, "b": 2}, recipe="data", strategies=strategies)).agrees


def test_grouped_heads_are_split_inside_their_groups():
    """More tensor ranks than key-value heads: keys and values replicated, their gradients summed."""
    model = {**TINY, "heads": 8, "kv_heads": 2}
    which = scenario({"tensor": 4}, devices=4, model=model, recipe="megatron")
    built = build_scenario(which)
    qkv = next(node for node in built.plan.graph.blocks["layer"].nodes if node.name == "attention.qkv")
    assert qkv.strategy.axes("group") == ("tensor",)
    small = shrunk(which)
    assert small.model.kv_heads < 4
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"data": 8}, {"data": 8}),
        ({"pipeline": 4, "data": 8, "tensor": 8}, {"pipeline": 4, "data": 4, "tensor": 4}),
        ({"pipeline": 16, "data": 128, "tensor": 8}, {"pipeline": 4, "data": 4, "tensor": 4}),
        ({"data": 16384}, {"data": 64}),
        ({"pipeline": 35, "data": 8, "tensor": 8}, {"pipeline": 3, "data": 4, "tensor": 4}),
        ({"pipeline": 4, "data": 67}, {"pipeline": 4, "data": 2}),
        ({"pipeline": 2, "data": 64}, {"pipeline": 2, "data": 32}),
    ],
)
def test_the_rule_for_axes(before, after):
    assert small_mesh(before, "pipeline") == after


def test_axes_that_crossed_hosts_still_do():
    which = Scenario.load("scenarios/quickstart.yaml")
    small = shrunk(which)
    mesh = build_scenario(which).plan.mesh
    for axis in mesh.names:
        crossed = which.cluster.placement(mesh.groups((axis,))[0]).num_hosts > 1
        reduced = small.scenario.spec.parallel.mesh
        from simcluster.layout import Mesh

        crosses = small.cluster.placement(Mesh.of(reduced).groups((axis,))[0]).num_hosts > 1
        assert crosses == crossed, axis


def test_micro_batches_stay_more_than_stages():
    small = shrunk(Scenario.load("scenarios/quickstart.yaml"))
    training = small.scenario.spec.training
    ways = small.scenario.spec.parallel.mesh["data"]
    assert training.global_batch // training.micro_batch // ways == 5


FP8 = {"compute": "bf16", "matmul": "fp8"}
FORMATS = {
    "fp8": "fp8",
    "sent in fp8": {**FP8, "fp8": {"communication": "fp8"}},
    "kept as it was": {**FP8, "fp8": {"saved": "compute"}},
    "some layers": {**FP8, "fp8": {"operators": ["layers.{1,2}.*", "head.logits"]}},
    "tf32": "tf32",
    "nvfp4": "nvfp4",
    "sent in nvfp4": {"matmul": "nvfp4", "nvfp4": {"communication": "nvfp4"}},
}


@pytest.mark.combinations
@pytest.mark.parametrize("recompute", ["none", "all"])
@pytest.mark.parametrize("recipe", ["megatron", "megatron_sp"])
@pytest.mark.parametrize("precision", quick_at(FORMATS.values(), 1), ids=FORMATS)
def test_formats(precision, recipe, recompute):
    mesh = {"pipeline": 2, "data": 2, "tensor": 2}
    zero, model = (1, TINY_GPT) if recompute == "none" else (0, TINY)
    which = scenario(
        mesh,
        host="dgx-b200",
        model=model,
        training={"precision": precision},
        recipe=recipe,
        recompute={"layers": recompute},
        optimizer_sharding={"zero": zero},
    )
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault


def test_running_statistics_are_updated_in_the_order_of_forwards():
    text = "F1 F0 I1 B0 W1\nF1 F0 I1 B0 W1"
    network = {"family": "resnet", "blocks": [2], "image": 16, "classes": 6, "width": 4, "version": "v1"}
    which = Scenario.of(
        {
            "simcluster": 1,
            "name": "ResNet",
            "cluster": {"host": {"use": "atlas-800", "devices": 4, "network": {"nics": 1}}, "hosts": 1},
            "model": network,
            "training": {"global_batch": 16, "micro_batch": 4, "seq_len": 1, "precision": "fp16"},
            "parallel": {"mesh": {"data": 2, "pipeline": 2}, "schedule": {"kind": "text", "text": text}},
        }
    )
    verify(which).check()


def test_casts_to_fp8_change_values():
    """They are no copies: the same plan in bf16 has another loss."""
    losses = []
    for precision in ("bf16", "fp8"):
        which = scenario({"data": 2}, host="dgx-h100", training={"precision": precision})
        small = shrunk(which)
        spec = small.scenario.spec
        plan = make_plan(small.model, spec.training, spec.parallel, which.framework, small.cluster)
        source = SeededData(0, np.dtype("float64"))
        (step,) = Oracle(plan.logical, plan.update, source, plan.num_micro_batches).run(1)
        losses.append(step.loss)
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_what_becomes_of_formats_is_told():
    training = {"precision": "fp8", "optimizer": {"states": {"moment2": "int8"}}}
    which = scenario({"data": 2}, host="dgx-h100", training=training)
    told = {what: after for what, _, after in verify(which).changes}
    assert told["casts to fp8"] == "4 and 3 significant bits, any exponent"
    assert told["moment2"] == "float64"
    single = verify(which, dtype="float32")
    assert single.agrees, single.first_difference or single.fault
    assert {what: after for what, _, after in single.changes}["casts to fp8"] == "copies"


@pytest.mark.parametrize(
    ("written", "factor"),
    quick_at(
        [
            ({}, 1),
            ({"gradients_mean": True}, 1),
            ({"gradients_mean": False}, 4),
            ({"gradients_mean": True, "gradients_degree": 2}, 2),
        ],
        2,
        3,
    ),
)
def test_gradients_are_added_or_averaged_as_mindspore_says(written, factor):
    """Added means of four ranks are four times the mean over the batch."""
    which = scenario({"data": 4, "tensor": 2}, training={"optimizer": {"kind": "sgd"}}, **written)
    assert verify(which).agrees
    plan = build_scenario(which).plan
    losses = [
        node.operator.scale
        for _, node in plan.logical.nodes()
        if getattr(node.operator, "kind", "") == "cross_entropy"
    ]
    assert losses == [pytest.approx(factor / (16 * 8))]


AGREEING = TensorComparison(0, "loss", "loss", 0.0, ())
DIFFERING = TensorComparison(1, "gradient", "head.weight", 0.25, (0, 3))


@pytest.mark.parametrize(
    ("comparisons", "fault", "why"),
    [
        ((AGREEING, DIFFERING), "", "gradient of head.weight in step 2, off by 2.5e-01"),
        ((AGREEING,), "buffer x is read before it is written", "buffer x is read before it is written"),
        ((), "", "nothing was compared"),
    ],
)
def test_a_verification_that_does_not_agree_is_false_and_says_why(comparisons, fault, why):
    found = Verification("small", "float64", 4, (), comparisons, fault)
    assert not found
    with pytest.raises(SimulationError, match=f"small differs from one device: {why}"):
        found.check()
    assert repr(found).startswith("Verification: small DIFFERS from one device (4 ranks, float64): ")
    assert why in repr(found) and "\n" not in repr(found)
    assert "DIFFERS from one device" in str(found)


def test_a_verification_that_agrees_is_true_and_short():
    changes = tuple((f"layers {number}", "80", "2") for number in range(20))
    found = Verification("small", "float32", 1, changes, (AGREEING,) * 500)
    assert found
    found.check()
    assert repr(found) == "Verification: small agrees with one device (1 rank, float32)"
    assert "Compared" in str(found) and "500" in str(found)
