"""LLaMA-Factory, axolotl and Accelerate: models of the hub, sharding, adapters, referenced JSON files."""

from __future__ import annotations

import json

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file
from tests.support.foreign_samples import text_of

FACTORY = text_of("llama3_8b_llama_factory.yaml")
AXOLOTL = text_of("llama3_8b_axolotl.yaml")
TUNE = text_of("llama3_8b_torchtune.yaml")
FSDP = text_of("fsdp_accelerate.yaml")
SIZES = (("training.micro_batch", "2"), ("training.seq_len", "2048"))
STAGE_2 = {
    "zero_optimization": {"stage": 2},
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_clipping": "auto",
}


def read(kind, text, *, files=(), hosts=1, model=None, settings=()):
    lookup = dict(files).get
    given = UserAdditions("dgx-h100", hosts, model, settings, {}, lookup)
    return translate_file(importer(kind), text, "f.yaml", given)


def accelerate(**settings):
    return read("accelerate", json.dumps(settings), model="llama3-8b", settings=SIZES)


def changed(text, **values):
    """A YAML with other values for keys, None for those that go."""
    for key, value in values.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
        text = "\n".join([*lines, *([] if value is None else [f"{key}: {value}"])]) + "\n"
    return text


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", {"use": "llama3-70b"}),
        ("./models/Qwen2.5-7B-Instruct/", {"use": "qwen2.5-7b"}),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", {"use": "qwen3-30b-a3b"}),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", {"use": "qwen2.5-1.5b", "tied": False}),
        ("deepseek-ai/DeepSeek-V3-0324", {"use": "deepseek-v3", "mtp_layers": 0}),
    ],
)
def test_models_of_the_hub(name, model):
    text = changed(FACTORY, model_name_or_path=name, deepspeed=None)
    assert read("llama-factory", text).data["model"] == model


def test_a_model_that_is_not_known_is_asked_for():
    text = changed(FACTORY, model_name_or_path="acme/acme-9b")
    with pytest.raises(ScenarioError, match=r"the sizes of this model are not known here[\s\S]*config.json"):
        read("llama-factory", text)
    assert read("llama-factory", text, model="llama3-8b").data["model"] == {"use": "llama3-8b"}


def test_the_named_json_is_read_as_if_it_stood_there():
    path = "examples/deepspeed/ds_z3_config.json"
    found = read("llama-factory", FACTORY, files={path: json.dumps(STAGE_2)}).data
    assert found["parallel"]["optimizer_sharding"] == {"zero": 2}
    assert found["training"]["micro_batch"] == 1
    assert found["framework"] == {"use": "deepspeed-zero", "attention": "flash_2"}
    shipped = read("llama-factory", FACTORY)
    assert shipped.data["parallel"]["optimizer_sharding"] == {"zero": 3}
    assert any("not found here; taken for the file of this name" in remark for remark in shipped.remarks)
    with pytest.raises(ScenarioError, match="the file that it names is not found"):
        read("llama-factory", changed(FACTORY, deepspeed="mine.json"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"finetuning_type": "lora", "lora_rank": 16}, {"rank": 16, "alpha": 32}),
        (
            {"finetuning_type": "lora", "lora_rank": 8, "lora_target": "q_proj,v_proj"},
            {"targets": ["q_proj", "v_proj"]},
        ),
        ({"finetuning_type": "lora", "lora_target": "all", "lora_alpha": 8}, {"rank": 8, "alpha": 8}),
    ],
)
def test_adapters(changes, expected):
    lora = read("llama-factory", changed(FACTORY, deepspeed=None, **changes)).data["training"]["lora"]
    assert expected.items() <= lora.items()
    assert lora["targets"] != ["all-linear"]


def test_frozen_layers_and_recomputation():
    text = changed(FACTORY, deepspeed=None, finetuning_type="freeze", freeze_trainable_layers=31)
    found = read("llama-factory", text).data
    assert found["training"]["frozen"] == ["embedding.*", "layers.{0}.*", "head.*"]
    assert found["parallel"]["recompute"] == {"layers": "all"}
    kept = read("llama-factory", changed(FACTORY, disable_gradient_checkpointing="true"))
    assert "recompute" not in kept.data["parallel"]


@pytest.mark.parametrize(
    ("kind", "text", "changes", "said"),
    [
        ("llama-factory", FACTORY, {"stage": "dpo"}, "training with preferences or rewards"),
        ("llama-factory", FACTORY, {"quantization_bit": 4}, "frozen weights in 4 or 8 bits"),
        ("llama-factory", FACTORY, {"do_train": "false"}, "an evaluation"),
        ("llama-factory", FACTORY, {"bf16": "perhaps"}, "expected true or false"),
        ("axolotl", AXOLOTL, {"adapter": "qlora"}, "frozen weights in 4 or 8 bits"),
        ("axolotl", AXOLOTL, {"rl": "dpo"}, "training with preferences or rewards"),
        ("torchtune", TUNE.replace("llama3_1_8b", "qlora_llama3_1_8b"), {}, "frozen weights in 4 or 8 bits"),
        ("torchtune", TUNE.replace("LinearCrossEntropyLoss", "DPOLoss"), {}, "preferences or rewards"),
        ("torchtune", TUNE.replace("llama3_1_8b", "acme_9b"), {}, "sizes of this model are not known"),
        ("accelerate", FSDP, {"distributed_type": "XLA"}, "expected MULTI_GPU"),
        ("accelerate", "model_type: llama\nhidden_size: 8\n", {}, "this is not an Accelerate configuration"),
    ],
)
def test_what_is_refused(kind, text, changes, said):
    with pytest.raises(ScenarioError, match=said):
        read(
            kind, changed(text, **changes), model=None if kind == "torchtune" else "llama3-8b", settings=SIZES
        )


def test_axolotl_with_fsdp():
    found = read("axolotl", AXOLOTL)
    assert found.data["training"]["optimizer"]["states"] == "int8"
    assert found.data["parallel"]["optimizer_sharding"] == {"fsdp": {"reshard_after_forward": True}}
    assert found.data["parallel"]["offload"] == {"parameters": "host", "gradients": "host"}
    lost = [entry.flag.name for entry in found.untranslated if entry.status is TranslationStatus.UNSUPPORTED]
    assert lost == ["sample_packing"]


@pytest.mark.parametrize(
    ("strategy", "sharding"),
    [
        ("FULL_SHARD", {"fsdp": {"reshard_after_forward": True}}),
        (2, {"fsdp": {"reshard_after_forward": False}}),
        ("NO_SHARD", {"zero": 0}),
        ("HYBRID_SHARD_ZERO2", {"fsdp": {"reshard_after_forward": False}, "shard_size": 8}),
    ],
)
def test_strategies_of_fsdp(strategy, sharding):
    section = {"fsdp_sharding_strategy": strategy}
    found = accelerate(distributed_type="FSDP", mixed_precision="bf16", num_processes=8, fsdp_config=section)
    assert found.data["parallel"]["optimizer_sharding"] == sharding
    assert found.data["training"]["global_batch"] == 16


def test_deepspeed_of_accelerate():
    section = {"zero_stage": 3, "offload_optimizer_device": "cpu", "gradient_accumulation_steps": 4}
    found = accelerate(distributed_type="DEEPSPEED", mixed_precision="fp16", deepspeed_config=section).data
    assert found["parallel"]["optimizer_sharding"] == {"zero": 3}
    assert found["parallel"]["host"] == ["*.update"]
    assert found["training"]["precision"] == {"compute": "fp16", "gradients": "fp16"}
    assert found["training"]["global_batch"] == 64


def test_plain_data_parallelism_of_accelerate():
    found = accelerate(distributed_type=False, mixed_precision=False, num_processes=8).data
    assert found["framework"]["use"] == "ddp"
    assert found["training"]["precision"] == {"compute": "fp32"}


def test_torchtune_trains_in_one_format():
    data = read("torchtune", TUNE).data
    assert data["model"] == {"use": "llama3-8b"}
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16", "master": "none"}
    assert data["training"]["optimizer"]["states"] == "bf16"
    assert data["parallel"]["optimizer_sharding"] == {"fsdp": {"reshard_after_forward": True}}
    lora = "lora_qwen2_5_7b_base\n  lora_attn_modules: ['q_proj', 'output_proj']\n  apply_lora_to_mlp: True"
    data = read("torchtune", TUNE.replace("llama3_1_8b", lora)).data
    assert data["model"] == {"use": "qwen2.5-7b"}
    assert data["training"]["lora"] == {
        "rank": 8,
        "alpha": 16,
        "targets": ["q_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    }


def test_replicas_of_shards_are_hybrid_sharding():
    settings = {
        "distributed_type": "FSDP",
        "num_processes": 16,
        "mixed_precision": "bf16",
        "parallelism_config": {
            "parallelism_config_dp_replicate_size": 2,
            "parallelism_config_dp_shard_size": 8,
        },
    }
    given = UserAdditions("dgx-h100", 2, "llama3-8b", SIZES)
    imported = translate_file(importer("accelerate"), json.dumps(settings), "f.yaml", given)
    assert imported.data["parallel"]["optimizer_sharding"]["shard_size"] == 8
    settings["parallelism_config"]["parallelism_config_dp_shard_size"] = 4
    with pytest.raises(ScenarioError, match="2 replicas of 4 shards are not 16 ranks"):
        translate_file(importer("accelerate"), json.dumps(settings), "f.yaml", given)


def test_axolotl_recomputes_as_unsloth_does():
    imported = read("axolotl", changed(AXOLOTL, gradient_checkpointing="unsloth"))
    assert imported.data["parallel"]["recompute"] == {"layers": "all"}


LAUNCHES = {
    "own arguments": (
        "FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train --stage sft "
        "--model_name_or_path meta-llama/Meta-Llama-3-8B --finetuning_type full --cutoff_len 2048 "
        "--per_device_train_batch_size 2 --gradient_accumulation_steps 8 --bf16 True "
        "--deepspeed ds_z3_config.json\n"
    ),
    "a file and a change": (
        "export NNODES=2\nexport NPROC_PER_NODE=8\n"
        "llamafactory-cli train x.yaml per_device_train_batch_size=2\n"
    ),
}
IN_FILE = """
model_name_or_path: meta-llama/Meta-Llama-3-8B
finetuning_type: full
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
deepspeed: ds_z3_config.json
"""


@pytest.mark.parametrize("text", LAUNCHES.values(), ids=LAUNCHES)
def test_a_script_that_starts_llama_factory(text):
    given = UserAdditions("dgx-h100", referenced={"x.yaml": IN_FILE}.get)
    data = translate_file(importer("llama-factory"), text, "run.sh", given).data
    assert data["cluster"]["hosts"] == 2
    assert data["model"] == {"use": "llama3-8b"}
    assert data["training"]["global_batch"] == 2 * 8 * 16
    assert data["parallel"]["optimizer_sharding"] == {"zero": 3}


def test_a_file_that_a_script_names_must_be_there():
    with pytest.raises(ScenarioError, match=r"x.yaml: the file that it names is not found"):
        translate_file(
            importer("llama-factory"), LAUNCHES["a file and a change"], "run.sh", UserAdditions("dgx-h100")
        )
