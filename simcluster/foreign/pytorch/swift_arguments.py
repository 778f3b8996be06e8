"""Arguments of ms-swift (``swift sft``), besides those of Hugging Face's Trainer.

Defaults are from memory of its public documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.pytorch.fully_sharded import SHARDING
from simcluster.foreign.pytorch.hub_models import all_linear_targets, read_hub_name
from simcluster.foreign.pytorch.sharding_strategies import RECOMPUTED
from simcluster.foreign.pytorch.trainer_arguments import COMPUTE, reads_attention_kernel
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    ADAPTERS,
    QUANTISED_WEIGHTS,
    Facts,
    Meaning,
    has_no_effect,
    not_expressible,
    read_word,
    refuses_setting,
    selects,
    states_value,
)

_COMMAND = re.compile(r"^[^#\n]*\bswift\s+(?:sft|pt)\b|\bswift/cli/(?:sft|pt)\.py", re.M)
_KIND, _FORMAT, _RANKS = "swift tuning", "swift format", "sequence ranks"
MODEL_NAME = "model name"
"""The fact that names the model of the hub."""


def swift_command(text: str) -> bool:
    """Whether a script starts ``swift sft`` or ``swift pt``."""
    return _COMMAND.search(text) is not None


def _kind(facts: Facts, flag: Flag) -> None:
    said = read_word(facts, flag)
    if said in ("full", "lora"):
        facts.say(_KIND, said, flag)
    elif said is not None:
        facts.refuse(flag, ADAPTERS)


_MEANINGS: Mapping[str, Meaning] = {
    "model": lambda facts, flag: read_hub_name(facts, flag, MODEL_NAME),
    **dict.fromkeys(("train_type", "tuner_type", "sft_type"), _kind),
    "torch_dtype": selects(_FORMAT, {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}),
    "target_modules": ADAPTER_MEANINGS["targets"],
    "modules_to_save": ADAPTER_MEANINGS["others"],
    "quant_bits": refuses_setting(QUANTISED_WEIGHTS, unless=(None, "0", "16")),
    "quant_method": has_no_effect,
    "attn_impl": reads_attention_kernel("flash_attention_3", ("eager",), ("flash_attn", "sdpa", "none")),
    "sequence_parallel_size": states_value(_RANKS),
    "freeze_vit": has_no_effect,
    "freeze_aligner": has_no_effect,
    "freeze_parameters_ratio": not_expressible("all weights are trained", unless=(None, "0", "0.")),
    "use_galore": not_expressible("adamw is simulated"),
    **dict.fromkeys(
        (
            "custom_dataset",
            "split_dataset_ratio",
            "system",
            "model_author",
            "model_name",
            "model_type",
            "use_hf",
            "lazy_tokenize",
            "streaming",
            "max_pixels",
            "truncation_strategy",
            "loss_scale",
            "strict",
            "model_kwargs",
            "train_dataloader_shuffle",
            "val_dataset",
            "dataset_shuffle",
            "use_chat_template",
            "add_version",
            "agent_template",
            "acc_strategy",
            "report_to",
            "packing_cache",
        ),
        has_no_effect,
    ),
}


def swift_meaning(name: str) -> Meaning | None:
    """What an argument of ms-swift means where it is not the Trainer's; None if it is."""
    return _MEANINGS.get(name)


def state_swift_format(facts: Facts) -> None:
    """The number format, which is that of the model unless ``--torch_dtype`` says another."""
    facts.default(_FORMAT, "bf16", "torch_dtype: that of the model, bfloat16")
    said, flag = facts.get(_FORMAT), facts.drop(_FORMAT)
    facts.default(COMPUTE, said, "torch_dtype, by which swift sets --bf16 or --fp16")
    if flag.where:
        facts.absorb(flag)


def state_swift(facts: Facts, given: UserAdditions) -> None:
    """ms-swift's defaults: LoRA on every linear layer, layers recomputed. Call it when sharding is stated."""
    facts.default(RECOMPUTED, True, "gradient_checkpointing: true (ms-swift's default)")
    if "devices_per_host" not in facts.known:
        facts.remark("no NPROC_PER_NODE is said: one process there; here all devices of the hosts train")
    if _RANKS in facts.known:
        facts.say("context", facts.get(_RANKS), facts.drop(_RANKS))
        facts.say("context_kind", "heads", facts.flag("context"))
    facts.default(_KIND, "lora", "train_type: lora (ms-swift's default)")
    kind, flag = facts.get(_KIND), facts.drop(_KIND)
    if kind == "lora":
        facts.say("adapters", "lora", flag)
        targets = list(all_linear_targets(facts, given))
        if facts.get("lora_targets", ["all-linear"]) == ["all-linear"]:
            facts.replace("lora_targets", targets, facts.flag("lora_targets"))
        facts.default("lora_alpha", 32, "lora_alpha: 32 (ms-swift's default)")
        return
    if flag.where:
        facts.effectless(flag, "all weights are trained, as is simulated")
    if facts.get(SHARDING) == {"zero": 0} and facts.get(COMPUTE) == "bf16":
        text = "weights of torch_dtype are trained as they are: no fp32 copy without DeepSpeed (from memory)"
        facts.default("training.precision.gradients", "bf16", text)
        facts.default("training.precision.master", "none", text)
        facts.default("training.optimizer.states", "bf16", text)
        facts.remark(text)
