"""Scripts and files with arguments of Hugging Face's Trainer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file
from simcluster.foreign.pytorch.hub_models import hub_model
from simcluster.foreign.pytorch.hub_sizes import hub_sizes
from simcluster.model.spec.model_spec import ModelSpec
from tests.support.foreign_samples import text_of

FASTCHAT = text_of("llama2_7b_trainer.sh")
STAGE_3 = json.dumps({"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}})
LAUNCHED = """
MODEL=meta-llama/Llama-3.1-8B
accelerate launch {launcher} sft.py \\
  --model_name_or_path $MODEL --per_device_train_batch_size 2 --gradient_accumulation_steps 8 \\
  --max_seq_length 4096 --bf16 --gradient_checkpointing --output_dir x
"""
ACCELERATE = "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config: {zero_stage: 2}\n"


def read(text, *, name="run.sh", hosts=1, model=None, settings=(), files=()):
    given = UserAdditions("dgx-h100", hosts, model, settings, {}, dict(files).get)
    return translate_file(importer("trainer"), text, name, given)


def lost(imported, status=TranslationStatus.UNSUPPORTED):
    return {each.flag.name: each.reason for each in imported.untranslated if each.status is status}


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ("--config_name ./gpt2/config.json", "./gpt2/config.json"),
        ("--config_name sizes --model_name_or_path gpt2-xl", "sizes/config.json"),
        ("--model_name_or_path ../my-llama", "../my-llama/config.json"),
    ],
)
def test_a_config_that_is_named_by_its_file_or_folder(arguments, asked):
    text = (
        f"torchrun --nproc_per_node 8 run_clm.py {arguments} --do_train --per_device_train_batch_size 2 "
        "--block_size 1024 --output_dir x\n"
    )
    given = UserAdditions("dgx-h100", 1, located={asked: "/models/config.json"}.get)
    imported = translate_file(importer("trainer"), text, "run.sh", given)
    assert imported.data["model"] == {"hf": "/models/config.json"}
    with pytest.raises(ScenarioError, match=r"the sizes of this model are not known here"):
        translate_file(importer("trainer"), text, "run.sh", UserAdditions("dgx-h100", 1))


def test_a_config_of_the_hub_counts_before_the_model():
    text = (
        "torchrun --nproc_per_node 8 run_clm.py --config_name gpt2 --model_name_or_path gpt2-xl "
        "--per_device_train_batch_size 2 --block_size 1024 --output_dir x\n"
    )
    assert read(text).data["model"] == {"use": "gpt2"}


def test_a_script_with_fsdp():
    imported = read(FASTCHAT)
    assert imported.data["model"] == {"use": "llama2-7b"}
    assert imported.data["training"]["micro_batch"] == 2
    assert imported.data["training"]["global_batch"] == 2 * 16 * 8
    assert imported.data["training"]["seq_len"] == 2048
    assert imported.data["parallel"]["recompute"] == {"layers": "all"}
    assert imported.data["parallel"]["optimizer_sharding"] == {"fsdp": {"reshard_after_forward": True}}
    assert not lost(imported) and not lost(imported, TranslationStatus.UNKNOWN)


def test_processes_of_a_script_are_devices():
    with pytest.raises(ScenarioError, match="4 devices / 8 per dgx-h100"):
        read(FASTCHAT, hosts=None)


def test_deepspeed_by_its_file():
    text = FASTCHAT.replace('--fsdp "full_shard auto_wrap"', "--deepspeed ds.json")
    data = read(text, files={"ds.json": STAGE_3}).data
    assert data["parallel"]["optimizer_sharding"] == {"zero": 3}
    assert data["framework"]["use"] == "deepspeed-zero"


def test_switches_of_a_deepspeed_file_beside_a_changed_profile():
    """``overlap_comm`` asks what the profile does, which the Trainer changes."""
    stage = json.dumps({"zero_optimization": {"stage": 2, "overlap_comm": True}})
    text = FASTCHAT.replace('--fsdp "full_shard auto_wrap"', "--deepspeed ds.json")
    imported = read(text, files={"ds.json": stage})
    assert imported.data["framework"]["use"] == "deepspeed-zero"
    assert "zero_optimization.overlap_comm" in {each.flag.name for each in imported.untranslated}


def test_what_accelerate_launch_reads():
    text = LAUNCHED.format(launcher="--config_file a.yaml --num_processes 16")
    data = read(text, hosts=None, files={"a.yaml": ACCELERATE}).data
    assert data["cluster"]["hosts"] == 2
    assert data["parallel"]["optimizer_sharding"] == {"zero": 2}
    assert data["training"]["global_batch"] == 2 * 8 * 16


def test_fsdp_by_options_of_accelerate_launch():
    launcher = "--use_fsdp --fsdp_sharding_strategy HYBRID_SHARD --mixed_precision bf16 --num_processes 16"
    data = read(LAUNCHED.format(launcher=launcher), hosts=2).data
    assert data["parallel"]["optimizer_sharding"]["shard_size"] == 8


def test_a_file_that_a_launcher_names_and_is_not_there():
    with pytest.raises(ScenarioError, match="the file that it names is not found"):
        read(LAUNCHED.format(launcher="--config_file a.yaml"))


def test_arguments_as_json_and_what_only_the_launcher_says():
    arguments = {
        "model_name_or_path": "google/gemma-2-9b-it",
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "bf16": True,
        "max_seq_length": 4096,
        "strange_option": 7,
    }
    imported = read(json.dumps(arguments), name="args.json", hosts=2)
    assert imported.data["model"]["post_norms"] is True
    assert imported.data["training"]["global_batch"] == 4 * 4 * 16
    assert any("unless the launcher's file shards them" in said for said in imported.remarks)
    assert "strange_option" in lost(imported, TranslationStatus.UNKNOWN)


@pytest.mark.parametrize(
    "text",
    [
        "accelerate launch trl/scripts/dpo.py --model_name_or_path Qwen/Qwen2-0.5B --output_dir x",
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1024",
        "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --pretrain x --micro_train_batch_size 8",
    ],
)
def test_training_with_rewards_is_refused(text):
    with pytest.raises(ScenarioError, match="training with preferences or rewards"):
        read(text)


def test_an_image_encoder_is_said_to_be_left_out():
    imported = read(
        FASTCHAT.replace("--lazy_preprocess True", "--vision_tower openai/clip-vit-large-patch14")
    )
    assert lost(imported) == {"vision_tower": "the decoder alone is simulated, without the image encoder"}
    text = FASTCHAT.replace("meta-llama/Llama-2-7b-hf", "Qwen/Qwen2.5-VL-7B-Instruct")
    assert "model_name_or_path" in lost(read(text))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("mistralai/Mistral-7B-Instruct-v0.3", {"vocab": 32768, "layers": 32}),
        ("google/gemma-2-9b-it", {"hidden": 3584, "window_every": 2}),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", {"layers": 22}),
        ("Qwen/Qwen2.5-VL-7B-Instruct", {"use": "qwen2.5-7b"}),
        ("lmsys/vicuna-13b-v1.5", {"use": "llama2-13b"}),
        ("EleutherAI/pythia-6.9b", {"parallel": "two_norms"}),
    ],
)
def test_names_of_repositories(name, sizes):
    found = hub_model(name)
    assert {key: found[key] for key in sizes} == sizes


SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:[._]\d+)?)([bm])(?![a-z0-9])")
ROUNDED = (
    "codellama-34b",
    "ernie-4.5-0.3b-pt",
    "gemma-2-2b",
    "gemma-2b",
    "gemma-7b",
    "gpt-neo-125m",
    "minicpm-2b-sft",
    "olmoe-1b-7b-0924",
    "phi-3.5-moe",
    "qwen1.5-0.5b",
)
"""Names that leave embeddings out, or round far."""


@pytest.mark.parametrize("name", sorted(hub_sizes()))
def test_models_have_as_many_parameters_as_their_names_say(name):
    model = validate_data(dict(hub_sizes()[name]), ModelSpec).build(Path())
    stated = SIZE.search(name)
    if stated and "-17b-" not in name and name not in ROUNDED:
        size = float(stated[1].replace("_", ".")) * (1e9 if stated[2] == "b" else 1e6)
        assert model.num_parameters == pytest.approx(size, rel=0.14)


SWIFT = """
NPROC_PER_NODE=$ranks \\
swift sft --model Qwen/Qwen2.5-7B-Instruct {kind} --torch_dtype bfloat16 \\
  --per_device_train_batch_size 1 --gradient_accumulation_steps 2 --max_length 2048 --output_dir x
"""


def test_swift_with_the_deepspeed_file_that_it_ships():
    data = read("ranks=8" + SWIFT.format(kind="--train_type full --deepspeed zero3"), hosts=None).data
    assert data["cluster"]["hosts"] == 1
    assert data["model"] == {"use": "qwen2.5-7b"}
    assert data["parallel"]["optimizer_sharding"] == {"zero": 3}
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16"}
    assert "lora" not in data["training"]


def test_swift_trains_adapters_by_default_and_bare_weights_without_deepspeed():
    lora = read("ranks=8" + SWIFT.format(kind="--lora_rank 8")).data["training"]["lora"]
    assert (lora["rank"], lora["alpha"], len(lora["targets"])) == (8, 32, 7)
    whole = read("ranks=8" + SWIFT.format(kind="--train_type full")).data["training"]
    assert whole["precision"] == {"compute": "bf16", "gradients": "bf16", "master": "none"}
    with pytest.raises(ScenarioError, match="preferences or rewards"):
        read("swift rlhf --rlhf_type dpo --per_device_train_batch_size 1\n")


def test_fsdp_reduces_in_the_format_of_activations():
    """As Accelerate, which the Trainer sets FSDP up with, does when it is configured itself."""
    text = (
        LAUNCHED.replace("accelerate launch {launcher}", "torchrun --nproc_per_node 8")
        + "  --fsdp full_shard"
    )
    data = read(text.replace("--output_dir x\n", "--output_dir x ")).data
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16"}


def test_zero_that_the_user_says_decides_on_gradients():
    """The DeepSpeed JSON is not there, so --set says what it shards."""
    text = FASTCHAT.replace("--fsdp", "--deepspeed missing.json --unused")
    assert "--deepspeed missing.json" in text
    data = read(text, settings=(("parallel.optimizer_sharding", "{zero: 3}"),)).data
    assert data["training"]["precision"]["gradients"] == "bf16"


def test_offload_of_replicas_leaves_gradients_on_the_device():
    """They are reduced once per step over the replicas, so that no micro-batch's could go to the host."""
    text = LAUNCHED.replace("accelerate launch {launcher}", "torchrun --nproc_per_node 8 --nnodes 2")
    text = text.replace("--output_dir x\n", '--output_dir x --fsdp "hybrid_shard auto_wrap offload"\n')
    imported = read(text, hosts=2)
    assert imported.data["parallel"]["offload"] == {"parameters": "host"}
    assert any("reduced once per step over replicas" in remark for remark in imported.remarks)


def test_the_index_of_a_checkpoint_has_no_settings():
    index = '{"metadata": {"total_size": 1}, "weight_map": {"lm_head.weight": "model-1.safetensors"}}'
    with pytest.raises(ScenarioError, match="this is the index of a checkpoint"):
        read(index, name="model.safetensors.index.json")
