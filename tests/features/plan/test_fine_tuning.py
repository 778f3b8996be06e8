"""Fine-tuning with adapters: memory and traffic of what is trained alone, and the values of one device."""

from __future__ import annotations

import pytest

from simcluster.errors import SimclusterError
from simcluster.program import Category
from simcluster.simulation import build_scenario, verify
from tests.support.scenarios import TINY, TINY_GPT, scenario

LORA = {"lora": {"rank": 4, "alpha": 8, "targets": ["linear_qkv", "mlp.down"]}}
QKV = 32 * 4 + 4 * (32 + 2 * 16)
DOWN = 64 * 4 + 4 * 32
TRAINED = 4 * (QKV + DOWN)
"""Parameters of all adapters of the tiny model."""


def held(mesh, **given):
    """Bytes of every category that rank 0 of a scenario holds, and its plan."""
    built = build_scenario(scenario(mesh, **given))
    bytes_of = dict.fromkeys(Category, 0)
    for buffer in built.program.parts[0].residents:
        bytes_of[buffer.category] += buffer.num_bytes
    return bytes_of, built.plan


def test_a_frozen_parameter_takes_two_bytes_and_a_trained_one_eighteen():
    bytes_of, plan = held({"data": 2}, training={"precision": "bf16", **LORA})
    frozen = plan.logical.num_parameters - TRAINED
    assert bytes_of[Category.PARAMETERS] == 2 * (frozen + TRAINED)
    assert bytes_of[Category.GRADIENTS] == 4 * TRAINED + 4  # the loss
    assert bytes_of[Category.OPTIMIZER] == 12 * TRAINED


def test_shards_of_frozen_weights_have_no_master_format():
    """Those of trained weights are in fp32, as the optimizer updates them."""
    fsdp = {"optimizer_sharding": "fsdp"}
    bytes_of, plan = held({"data": 2}, training={"precision": "bf16", **LORA}, **fsdp)
    frozen = plan.logical.num_parameters - TRAINED
    assert bytes_of[Category.PARAMETERS] == (2 * frozen + 4 * TRAINED) / 2
    assert bytes_of[Category.OPTIMIZER] == 8 * TRAINED / 2


def test_only_gradients_of_adapters_are_reduced():
    built = build_scenario(scenario({"data": 2}, training={"precision": "bf16", **LORA}))
    sent = sum(
        instruction.num_bytes
        for execution in built.program.parts[0].executions
        for instruction in built.program.codes[execution.code].instructions
        if "reduce" in str(getattr(instruction, "kind", ""))
    )
    assert sent in (0, 4 * TRAINED, 4 * TRAINED + 4)


@pytest.mark.parametrize(
    ("mesh", "training", "parallel"),
    [
        (
            {"pipeline": 2, "data": 2, "tensor": 2},
            {"lora": {"rank": 4, "dropout": 0.5}},
            {"recipe": "megatron_sp", "optimizer_sharding": {"zero": 1}},
        ),
        pytest.param(
            {"data": 4},
            {"lora": {"rank": 3, "targets": ["q_proj", "layers.{2,3}.mlp.up"]}},
            {"recipe": "fsdp", "recompute": {"layers": "all"}},
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            {"pipeline": 4, "tensor": 2},
            {"lora": {"rank": 4, "targets": ["layers.3.*"]}, "optimizer": {"kind": "adamw", "clip": 1.0}},
            {"schedule": "zb_h1"},
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            {"pipeline": 2, "data": 2},
            {"frozen": ["*norm*", "layers.{0,2}.*", "embedding.*"]},
            {"schedule": {"kind": "interleaved", "chunks": 2}},
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_values_are_those_of_one_device(mesh, training, parallel):
    assert verify(scenario(mesh, training=training, **parallel)).agrees


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("model", "frozen"),
    [
        (TINY_GPT, ["embedding.*"]),
        ({**TINY, "experts": {"count": 4, "top_k": 2, "ffn": 16}}, None),
        (
            {"family": "t5", "encoder_layers": 2, "decoder_layers": 2, "hidden": 16, "heads": 4, "vocab": 64},
            ["encoder.*"],
        ),
    ],
)
def test_other_models(model, frozen):
    training = {"frozen": frozen} if frozen else {"lora": {"rank": 2}}
    assert verify(scenario({"data": 2, "tensor": 2}, model=model, training=training)).agrees


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"lora": {"rank": 4, "use_dora": True}}, "DoRA"),
        ({"lora": {"rank": 4, "load_in_4bit": True}}, "QLoRA"),
        ({"lora": {"rank": 0}}, "rank"),
        ({"lora": {"r": 4, "target_modules": ["c_attn"]}}, "'c_attn' names no weight"),
        ({"frozen": ["*"]}, "nothing is trained"),
    ],
)
def test_what_is_refused(training, message):
    with pytest.raises(SimclusterError) as error:
        build_scenario(scenario({"data": 2}, training=training))
    assert message in str(error.value)
