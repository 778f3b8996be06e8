"""The files of other tools that tests read, and what has to be added to each."""

from __future__ import annotations

from pathlib import Path

from simcluster.foreign import Given

FOLDER = Path(__file__).parent / "files"

SAMPLES = {
    "gpt3_175b_sc21.sh": ("megatron", Given("dgx-a100")),
    "llama3_8b_torchrun.sh": ("megatron", Given("dgx-h100")),
    "zero2.json": (
        "deepspeed",
        Given("dgx-a100", 4, "llama2-7b", (("training.seq_len", "4096"),)),
    ),
    "llama3_8b_mindformers.yaml": ("mindformers", Given("atlas-800t-a2")),
    "gpt_nemo1.yaml": ("nemo", Given("dgx-h100")),
    "llama3_70b_nemo2.yaml": ("nemo", Given("dgx-h100")),
    "llama3_8b_bridge.yaml": ("nemo", Given("dgx-h100", 2)),
}


def text_of(name):
    return (FOLDER / name).read_text()
