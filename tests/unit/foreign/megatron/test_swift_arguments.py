"""ms-swift's launches of Megatron."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import UserAdditions, importer, translate_file

SFT = """
NPROC_PER_NODE=8 \\
NNODES=2 \\
megatron sft \\
    --load Qwen3-30B-A3B-Base-mcore \\
    --pipeline_model_parallel_size 2 \\
    --expert_model_parallel_size 4 \\
    --micro_batch_size 1 \\
    --global_batch_size 32 \\
    --recompute_granularity full \\
    --recompute_method uniform \\
    --recompute_num_layers 1 \\
    --max_length 8192 \\
    --save x
"""


def read(text):
    return translate_file(importer("megatron"), text, "run.sh", UserAdditions("dgx-h100")).data


def test_a_model_of_the_hub_with_arguments_of_megatron():
    data = read(SFT)
    assert data["cluster"]["hosts"] == 2
    assert data["model"] == {"use": "qwen3-30b-a3b"}
    assert data["parallel"]["mesh"] == {"pipeline": 2, "data": 2, "expert": 4}
    assert data["parallel"]["recompute"] == {"layers": "all"}
    assert data["parallel"]["optimizer_sharding"] == {"zero": 1}
    training = {key: data["training"][key] for key in ("global_batch", "micro_batch", "seq_len")}
    assert training == {"global_batch": 32, "micro_batch": 1, "seq_len": 8192}
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "fp32"}


def test_adapters_beside_the_model_that_is_named():
    text = SFT.replace(
        "--load Qwen3-30B-A3B-Base-mcore", "--model Qwen/Qwen2.5-7B --train_type lora --lora_rank 16"
    )
    data = read(text.replace("--expert_model_parallel_size 4", "--tensor_model_parallel_size 2"))
    assert data["model"] == {"use": "qwen2.5-7b"}
    assert data["training"]["lora"]["rank"] == 16
    assert data["training"]["lora"]["alpha"] == 32
    assert len(data["training"]["lora"]["targets"]) == 7


def test_rewards_are_refused():
    with pytest.raises(ScenarioError, match="preferences or rewards"):
        read(SFT.replace("megatron sft", "megatron rlhf"))
