"""The files of other tools that tests read, and what has to be added to each."""

from __future__ import annotations

from pathlib import Path

from simcluster.foreign import UserAdditions

FOLDER = Path(__file__).parents[1] / "unit" / "foreign" / "files"

SAMPLES = {
    "gpt3_175b_sc21.sh": ("megatron", UserAdditions("dgx-a100")),
    "llama3_8b_torchrun.sh": ("megatron", UserAdditions("dgx-h100")),
    "zero2.json": (
        "deepspeed",
        UserAdditions("dgx-a100", 4, "llama2-7b", (("training.seq_len", "4096"),)),
    ),
    "llama3_8b_mindformers.yaml": ("mindformers", UserAdditions("atlas-800t-a2")),
    "gpt_nemo1.yaml": ("nemo", UserAdditions("dgx-h100")),
    "llama3_70b_nemo2.yaml": ("nemo", UserAdditions("dgx-h100")),
    "llama3_8b_torchtitan.toml": ("torchtitan", UserAdditions("dgx-h100", 1)),
    "llama3_8b_llama_factory.yaml": ("llama-factory", UserAdditions("dgx-h100", 1)),
    "llama3_8b_torchtune.yaml": ("torchtune", UserAdditions("dgx-h100", 1)),
    "llama3_8b_axolotl.yaml": ("axolotl", UserAdditions("dgx-h100", 1)),
    "fsdp_accelerate.yaml": (
        "accelerate",
        UserAdditions(
            "dgx-h100", None, "llama3-8b", (("training.micro_batch", "1"), ("training.seq_len", "4096"))
        ),
    ),
    "llama3_8b_bridge.yaml": ("nemo", UserAdditions("dgx-h100", 2)),
    "gpt2_124m_nanogpt.txt": ("nanogpt", UserAdditions("dgx-a100", 1)),
    "mpt_7b_llm_foundry.yaml": ("llm-foundry", UserAdditions("dgx-h100", 4)),
    "llama2_7b_litgpt.yaml": ("litgpt", UserAdditions("dgx-a100", 1)),
    "gpt_neox_20b.yml": ("gpt-neox", UserAdditions("dgx-a100", 12)),
    "llama3_8b_nanotron.yaml": ("nanotron", UserAdditions("dgx-h100")),
    "llama2_7b_lightning.yaml": (
        "lightning",
        UserAdditions("dgx-a100", None, "llama2-7b", (("training.seq_len", "4096"),)),
    ),
    "llama3_8b_pytorchjob.yaml": ("megatron", UserAdditions("dgx-h100")),
    "llama2_7b_trainer.sh": ("trainer", UserAdditions("dgx-h100", 1)),
}


def text_of(name):
    return (FOLDER / name).read_text()
