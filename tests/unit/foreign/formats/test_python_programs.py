"""Programs in Python: Lightning and Fabric, arguments of the Trainer, torchtitan's registry."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import UserAdditions, importer, translate_file

TRAINING = """
from transformers import AutoModelForCausalLM, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("meta-llama/Meta-Llama-3-8B")
args = TrainingArguments(
    output_dir="out", per_device_train_batch_size=1, gradient_accumulation_steps=8,
    gradient_checkpointing=True, fp16=not torch.cuda.is_bf16_supported(),
    bf16=torch.cuda.is_bf16_supported(), fsdp="full_shard auto_wrap", optim="adamw_torch",
)
"""
LIGHTNING = """
import lightning as L
from lightning.pytorch.strategies import {kind}
loader = DataLoader(data, batch_size=4)
strategy = {kind}({arguments})
trainer = L.Trainer(devices=8, num_nodes=2, strategy=strategy, precision="{precision}",
                    accumulate_grad_batches=4, gradient_clip_val=1.0)
"""
REGISTRY = """
from torchtitan.config import ParallelismConfig, TrainingConfig

def llama3_8b():
    return Trainer.Config(
        model_spec=model_registry("8B"), training=TrainingConfig(local_batch_size=1, seq_len=8192),
        parallelism=ParallelismConfig(tensor_parallel_degree=2),
    )

def llama3_70b():
    return Trainer.Config(
        model_spec=model_registry("70B"), training=TrainingConfig(local_batch_size=8, seq_len=4096),
    )
"""
LENGTH = (("training.seq_len", "4096"),)


def read(kind, text, *, hosts=1, model=None, settings=LENGTH, variables=None, name="f.py"):
    given = UserAdditions("dgx-h100", hosts, model, settings, variables or {})
    return translate_file(importer(kind), text, name, given)


def test_arguments_of_the_trainer():
    """FSDP of the Trainer, which Accelerate sets up, reduces gradients in the format of activations."""
    data = read("trainer", TRAINING).data
    assert data["model"] == {"use": "llama3-8b"}
    assert data["training"]["global_batch"] == 64
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16"}
    assert data["parallel"] == {
        "mesh": {"data": 8},
        "optimizer_sharding": {"fsdp": {"reshard_after_forward": True}},
        "recompute": {"layers": "all"},
    }


def test_adapters_of_a_program():
    lora = 'config = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"])\n'
    data = read("trainer", TRAINING + lora).data
    assert data["training"]["lora"] == {"rank": 16, "alpha": 32, "targets": ["q_proj", "v_proj"]}


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (
            "from trl import DPOConfig\nargs = DPOConfig(per_device_train_batch_size=1)\n",
            "preferences or rewards",
        ),
        (TRAINING + "q = BitsAndBytesConfig(load_in_4bit=True)\n", "4 or 8 bits"),
    ],
)
def test_what_no_scenario_says_is_refused(text, refused):
    with pytest.raises(ScenarioError, match=refused):
        read("trainer", text)


@pytest.mark.parametrize(
    ("kind", "arguments", "precision", "sharding", "gradients"),
    [
        ("FSDPStrategy", "", "bf16-mixed", {"fsdp": {"reshard_after_forward": True}}, "bf16"),
        (
            "FSDPStrategy",
            'sharding_strategy="HYBRID_SHARD"',
            "bf16-mixed",
            {"fsdp": {"reshard_after_forward": True}, "shard_size": 8},
            "bf16",
        ),
        ("DeepSpeedStrategy", "stage=3", "16-mixed", {"zero": 3}, "fp16"),
        ("DeepSpeedStrategy", "", "bf16-mixed", {"zero": 2}, "bf16"),
        ("DDPStrategy", "", "bf16-mixed", {"zero": 0}, None),
    ],
)
def test_strategies_of_lightning(kind, arguments, precision, sharding, gradients):
    text = LIGHTNING.format(kind=kind, arguments=arguments, precision=precision)
    data = read("lightning", text, hosts=None, model="llama2-7b").data
    assert data["cluster"]["hosts"] == 2
    assert data["parallel"]["optimizer_sharding"] == sharding
    assert data["training"]["precision"].get("gradients") == gradients
    assert data["training"]["global_batch"] == 4 * 4 * 16


def test_fabric_with_a_strategy_by_its_name():
    text = (
        "from lightning.fabric import Fabric\n"
        'fabric = Fabric(devices=8, strategy="deepspeed_stage_3_offload", precision="bf16-true")\n'
        "loader = DataLoader(data, batch_size=2)\n"
    )
    parallel = read("lightning", text, model="llama2-7b").data["parallel"]
    assert parallel["optimizer_sharding"] == {"zero": 3}
    assert parallel["offload"] == {"parameters": "host", "gradients": "host"}
    assert parallel["host"] == ["*.update"]


def test_torchtitan_registry_by_the_name_of_a_function():
    data = read("torchtitan", REGISTRY, settings=(), variables={"config": "llama3_8b"}).data
    assert data["model"] == {"use": "llama3-8b"}
    assert data["parallel"]["mesh"] == {"data": 4, "tensor": 2}
    assert data["training"]["seq_len"] == 8192
    with pytest.raises(ScenarioError, match="llama3_8b, llama3_70b"):
        read("torchtitan", REGISTRY, settings=())
    alone = REGISTRY[: REGISTRY.index("def llama3_70b")]
    assert read("torchtitan", alone, settings=()).data["model"] == {"use": "llama3-8b"}


def test_a_toml_has_no_variables():
    with pytest.raises(ScenarioError, match="a torchtitan TOML has no variables"):
        read("torchtitan", "[training]\nseq_len = 1\n", name="f.toml", variables={"config": "x"})


@pytest.mark.parametrize(("passed", "hosts"), [("", 2), ("nodes=4", 4), ("4", 4)])
def test_parameters_of_a_function_in_a_recipe(passed, hosts):
    """Two functions have a parameter of the same name with other defaults; a call may pass something else."""
    text = f"""
from nemo.collections import llm
def configure(nodes: int = 2):
    recipe = llm.llama31_8b.pretrain_recipe(num_nodes=nodes, num_gpus_per_node=8)
    recipe.data.global_batch_size = 64
    recipe.data.micro_batch_size = 1
    return recipe
def executor(nodes: int = 1):
    return run.LocalExecutor(nodes=nodes)
recipe = configure({passed})
"""
    data = read("nemo", text, hosts=None).data
    assert data["cluster"]["hosts"] == hosts
    assert data["model"] == {"use": "llama3-8b"}


def test_a_recipe_that_is_imported_under_another_name():
    text = """
from megatron.bridge.recipes.llama import llama3_8b_pretrain_config as pretrain_config
cfg = pretrain_config()
cfg.model.tensor_model_parallel_size = 2
cfg.train.global_batch_size = 64
cfg.train.micro_batch_size = 1
"""
    data = read("nemo", text, hosts=2).data
    assert data["model"] == {"use": "llama3-8b"}
    assert data["parallel"]["mesh"] == {"data": 8, "tensor": 2}
