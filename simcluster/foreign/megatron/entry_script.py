"""The program that a launch of Megatron starts: it decides the model's family, and training or inference.

Names are those of the programs in the roots of Megatron-LM and its forks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from simcluster.foreign.megatron.unsupported_arguments import RETRIEVAL
from simcluster.foreign.megatron.vocabulary import PROGRAM
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import STATE_SPACE, Facts, UnsupportedFeature

_FAMILIES: Mapping[str, str] = {
    r"bert": "bert",
    r"t5": "t5",
    r"vit|vision_classify": "vit",
}
"""Parts of a program's name that tell a family with a structure of its own."""

_REFUSED: Mapping[str, UnsupportedFeature] = {
    r"mamba|hybrid": STATE_SPACE,
    r"retro|ict|realm": RETRIEVAL,
    r"vlm|llava|multimodal|dino|inpaint": UnsupportedFeature(
        "models of pictures and texts, or of pictures alone but for classification", "one decoder"
    ),
    r"convert|checkpoint_util|preprocess": UnsupportedFeature(
        "programs that do not compute a model", "a training"
    ),
}
_INFERENCE = r"inference|generat|predict|server|chat|evaluat"
_DECODERS = (
    r"gpt|llama|qwen|deepseek|mixtral|mistral|yuan|baichuan|bloom|glm|gemma|aquila|intern|phi|grok|kimi|minimax"
    r"|hunyuan|moe"
)
_PLAIN = ("train", "pretrain", "finetune", "main", "sft")
"""Names that say nothing of the model."""

_STAGED = frozenset(("dpo", "grpo", "orm", "ppo", "prm", "ray_grpo", "ray_ppo", "rm", "simpo"))
"""MindSpeed's ``--stage``: what has pairs of sequences, or other models beside the one that is trained."""


def state_program(facts: Facts, flag: Flag | None) -> None:
    """States the family and task of a program by its name, or refuses it; ``flag`` is that name."""
    if flag is None:
        return
    facts.flags.append(flag)
    stem = str(flag.value).rpartition("/")[2].removesuffix(".py").lower()
    facts.default(PROGRAM, stem, stem)
    parts = re.split(r"[^a-z0-9]+", stem)
    for pattern, beyond in _REFUSED.items():
        if _named(pattern, parts):
            facts.refuse(flag, beyond)
            return
    family = next((known for pattern, known in _FAMILIES.items() if _named(pattern, parts)), None)
    if family is None and "vision_classify" in stem:
        family = "vit"
    if family is not None:
        facts.say("model.family", family, flag)
    if re.search(_INFERENCE, stem):
        facts.say("task", "inference", flag)
    elif family is None and (re.search(_DECODERS, stem) or stem in _PLAIN):
        facts.effectless(flag, "a decoder is trained")
    elif family is None:
        facts.unknown(flag, "this program is read as the training of a decoder")


def state_posttraining_stage(facts: Facts, flag: Flag) -> None:
    """MindSpeed's ``posttrain_gpt.py --stage``: fine tuning is training; DPO, PPO ... need more models."""
    said = flag.value[0] if isinstance(flag.value, list) else str(flag.value)
    otherwise = "the training of one model on single sequences is simulated"
    facts.compare(flag, said not in _STAGED, otherwise, "trained as before")


def _named(pattern: str, parts: list[str]) -> bool:
    """Whether a part of a program's name, up to digits behind it, is one of these."""
    return any(re.fullmatch(rf"(?:{pattern})\d*", part) for part in parts)
