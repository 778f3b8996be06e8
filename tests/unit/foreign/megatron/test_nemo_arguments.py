"""NeMo's and Megatron-Bridge's own words: optimizers, activations, adapters, classes, recipes in Python."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus
from tests.support.foreign_samples import text_of
from tests.support.nemo_files import changed, read


def fates(found):
    return {each.flag.name: each.status for each in found.untranslated}


def refused(text, **options):
    with pytest.raises(ScenarioError) as caught:
        read(text, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "shards"),
    [
        ("distributed_fused_adam", True),
        ("mcore_distributed_optim", True),
        ("megatron_distributed_optim", True),
        ("distributed_adam", True),
        ("fused_adam", False),
        ("megatron_fused_adam", False),
        ("sgd", False),
    ],
)
def test_distributed_optimizers_shard_under_every_name(name, shards):
    found = read(changed("name: distributed_fused_adam", f"name: {name}"))
    assert found.data["parallel"].get("optimizer_sharding") == ({"zero": 1} if shards else None)
    assert found.data["training"]["optimizer"]["kind"] == ("momentum" if name == "sgd" else "adamw")
    assert "model.optim.name" not in fates(found)


def test_an_optimizer_made_by_a_function_that_is_distributed():
    line = "  _target_: nemo.lightning.pytorch.optim.megatron.MegatronOptimizerModule\n"
    text = text_of("llama3_70b_nemo2.yaml").replace("    use_distributed_optimizer: true\n", "")
    assert "optimizer_sharding" not in read(text).data["parallel"]
    made = line.replace("MegatronOptimizerModule", "distributed_fused_adam_with_cosine_annealing")
    assert read(text.replace(line, made)).data["parallel"]["optimizer_sharding"] == {"zero": 1}


@pytest.mark.parametrize("said", ["geglu", "fast-geglu", "fast-swiglu", "gelu", "squared-relu"])
@pytest.mark.parametrize("openai", ["true", "false"])
def test_another_form_of_gelu_leaves_the_gate(said, openai):
    text = changed("activation: fast-swiglu", f"activation: {said}\n  openai_gelu: {openai}")
    expected = said.removeprefix("fast-").replace("-", "_")
    assert read(text).data["model"]["activation"] == expected


@pytest.mark.parametrize(
    ("lines", "activation"),
    [
        ("gated_linear_unit: true", "swiglu"),
        ("gated_linear_unit: true\n  activation_func: torch.nn.functional.silu", "swiglu"),
        ("activation_func: torch.nn.functional.gelu\n  gated_linear_unit: true", "geglu"),
        ("gated_linear_unit: true\n  activation_func: {_target_: torch.nn.functional.gelu}", "geglu"),
        ("gated_linear_unit: false\n  activation_func: gelu", "gelu"),
        ("activation_func: megatron.core.activations.squared_relu", "squared_relu"),
    ],
)
def test_a_function_and_a_gate_make_an_activation(lines, activation):
    found = read(changed("gated_linear_unit: true", lines, "llama3_8b_bridge.yaml"))
    assert found.data["model"]["activation"] == activation


def test_biases_and_windows():
    found = read(changed("  bias: False\n", "  bias: False\n  qkv_bias: true\n  window_size: [1023, 0]\n"))
    assert (found.data["model"]["qkv_bias"], found.data["model"]["window"]) == (True, 1024)
    whole = read(changed("  bias: False\n", "  bias: False\n  window_size: [-1, 0]\n"))
    assert "window" not in whole.data["model"]
    assert "expected two numbers" in refused(changed("  bias: False\n", "  window_size: wide\n"))


EVERY = ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"]


@pytest.mark.parametrize(
    ("sample", "lines", "lora"),
    [
        (
            "gpt_nemo1.yaml",
            "  peft:\n    peft_scheme: lora\n    lora_tuning: {adapter_dim: 8}\n    p_tuning: {num: 4}\n",
            {"rank": 8, "alpha": 8, "targets": ["linear_qkv"]},
        ),
        (
            "llama3_70b_nemo2.yaml",
            "peft:\n  _target_: nemo.collections.llm.peft.lora.LoRA\n  dim: 16\n  dropout: 0.1\n",
            {"rank": 16, "alpha": 32, "dropout": 0.1, "targets": EVERY},
        ),
        ("llama3_8b_bridge.yaml", "peft: lora\n", {"rank": 32, "alpha": 32, "targets": EVERY}),
    ],
)
def test_adapters_are_read(sample, lines, lora):
    text = text_of(sample)
    text = text.replace("model:\n", f"model:\n{lines}", 1) if lines.startswith(" ") else lines + text
    assert read(text).data["training"]["lora"] == lora


def test_other_adapters_are_refused_once():
    text = "peft:\n  _target_: nemo.collections.llm.peft.dora.DoRA\n  dim: 16\n"
    assert refused(text + text_of("llama3_70b_nemo2.yaml")).count("no scenario can say adapters other") == 1


def test_no_adapters_are_none():
    plain = read(text_of("gpt_nemo1.yaml")).data
    for lines in ("  peft: {peft_scheme: null, lora_tuning: {adapter_dim: 32}}\n", "  peft: null\n"):
        assert read(text_of("gpt_nemo1.yaml").replace("model:\n", f"model:\n{lines}", 1)).data == plain
    assert read("peft: null\n" + text_of("gpt_nemo1.yaml")).data == plain


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("name: megatron_gpt\nrestore", "name: megatron_mamba\nrestore", "state-space layers"),
        ("name: megatron_gpt\nrestore", "name: megatron_griffin\nrestore", "recurrent layers"),
        ("model:\n", "model:\n  _target_: nemo.collections.llm.gpt.model.ssm.MambaModel\n", "state-space"),
        ("model:\n", "model:\n  config: {_target_: nemo.llm.RecurrentGemmaConfig2B}\n", "recurrent layers"),
    ],
)
def test_what_is_no_transformer_is_refused(old, new, what):
    text = text_of("gpt_nemo1.yaml")
    assert f"no scenario can say {what}" in refused(text.replace(old, new, 1))


def test_bridge_trains_in_bf16_with_sharded_states():
    """A file that adds to a recipe in Python need not say it."""
    text = changed("mixed_precision: bf16_mixed\n", "", "llama3_8b_bridge.yaml")
    text = text.replace("  use_distributed_optimizer: true\n", "").replace(
        "  grad_reduce_in_fp32: true\n", ""
    )
    data = read(text).data
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "fp32"}
    assert data["parallel"]["optimizer_sharding"] == {"zero": 1}
    said = text.replace("train:\n", "train:\n", 1) + "mixed_precision: fp16_mixed\n"
    assert read(said).data["training"]["precision"]["compute"] == "fp16"
    silent = text.replace("  context_parallel_size: 2\n", "")
    told = [each for each in read(silent).remarks if "the file says nothing of context parallelism" in each]
    assert len(told) == 1


def test_a_class_that_is_no_model_of_the_catalog_is_said_first():
    text = changed("Llama3Config70B", "Llama9Config70B", "llama3_70b_nemo2.yaml")
    found = read(text, model="llama2-70b")
    assert fates(found)["model.config._target_"] is TranslationStatus.UNSUPPORTED


def test_offloading_that_is_off_says_nothing_of_weights():
    lines = "  cpu_offloading: false\n  cpu_offloading_num_layers: ${sum:${.num_layers},-1}\n"
    lines += "  cpu_offloading_activations: true\n  cpu_offloading_weights: true\n"
    off = read(changed("  wonder: 3\n", lines))
    assert {fate for name, fate in fates(off).items() if "offloading" in name} == {
        TranslationStatus.EFFECTLESS
    }
    on = read(changed("  wonder: 3\n", lines.replace("cpu_offloading: false", "cpu_offloading: true")))
    assert fates(on)["model.cpu_offloading_weights"] is TranslationStatus.UNSUPPORTED


def test_a_setting_that_is_not_set_is_not_unknown():
    found = read(changed("wonder: 3", "wonder: null"))
    assert fates(found)["model.wonder"] is TranslationStatus.EFFECTLESS
