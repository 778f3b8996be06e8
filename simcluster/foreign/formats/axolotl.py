"""An axolotl YAML: fine-tuning of a model of the hub, with the DeepSpeed JSON or the FSDP section it has.

Defaults are from memory of its public documents.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.formats.deepspeed import meaning_of as deepspeed_meaning
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.pytorch import (
    RECOMPUTED,
    REPLICAS,
    SHARDS,
    all_linear_targets,
    argument_meaning,
    read_hub_name,
    state_all_recomputed,
    state_hub_model,
    state_lengths,
    state_trainer,
    state_trainer_sharding,
)
from simcluster.foreign.reading import Flag, read_settings
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    ADAPTERS,
    PREFERENCES,
    QUANTISED_WEIGHTS,
    Facts,
    Meaning,
    has_no_effect,
    ignored_settings,
    not_expressible,
    refuses_setting,
    state_adapters,
    states_value,
    switch,
)

_IGNORED = ignored_settings("axolotl")
_MODEL, _PACKED, _PADDED, _LINEAR = "model name", "packing", "padding", "lora on linear"


class Axolotl(Importer):
    """axolotl's YAML."""

    kind = "axolotl"
    title = "an axolotl YAML"
    marks = ("base_model", "sequence_len", "micro_batch_size", "sample_packing")

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the file says, and what the DeepSpeed JSON does that it names."""
        written = read_settings(text, name)
        facts = self.understood(written, name, given, _meaning)
        state_hub_model(facts, _MODEL, given)
        asked = next((flag for flag in written if flag.name.startswith("fsdp_config.")), None)
        state_trainer_sharding(facts, given, deepspeed_meaning, unnamed=asked)
        _tuning(facts, given)
        state_lengths(facts, _PACKED, padded=bool(facts.get(_PADDED)))
        facts.default("accumulation", 1, "gradient_accumulation_steps: 1 (axolotl's default)")
        state_all_recomputed(facts)
        state_trainer(facts)
        return facts


def _adapter(facts: Facts, flag: Flag) -> None:
    """LoRA's adapters beside weights in 16 bits; QLoRA and others are refused."""
    said = str(flag.value or "").lower()
    if not said:
        facts.effectless(flag, "off")
    elif said == "lora":
        facts.say("adapters", "lora", flag)
    else:
        facts.refuse(flag, QUANTISED_WEIGHTS if said == "qlora" else ADAPTERS)


def _offloading(facts: Facts, flag: Flag) -> None:
    """Recomputation; "offload" and "unsloth" move what layers keep to the host besides."""
    said = str(flag.value).lower()
    if said.startswith("offload") or said == "unsloth":
        facts.say(RECOMPUTED, True, flag)
        facts.unsupported(flag, "inputs of layers stay on the device")
    else:
        switch(RECOMPUTED, True, False)(facts, flag)


_OWN: Mapping[str, Meaning] = {
    "base_model": lambda facts, flag: read_hub_name(facts, flag, _MODEL),
    "sequence_len": states_value("training.seq_len"),
    "micro_batch_size": states_value("training.micro_batch"),
    "batch_size": states_value("training.global_batch"),
    "sample_packing": switch(_PACKED, True, False),
    "pad_to_sequence_len": switch(_PADDED, True, False),
    "adapter": _adapter,
    "load_in_4bit": refuses_setting(QUANTISED_WEIGHTS),
    "load_in_8bit": refuses_setting(QUANTISED_WEIGHTS),
    "lora_r": ADAPTER_MEANINGS["rank"],
    "lora_alpha": ADAPTER_MEANINGS["alpha"],
    "lora_dropout": ADAPTER_MEANINGS["dropout"],
    "lora_target_modules": ADAPTER_MEANINGS["targets"],
    "lora_target_linear": switch(_LINEAR),
    "lora_modules_to_save": ADAPTER_MEANINGS["others"],
    "peft_use_dora": refuses_setting(ADAPTERS),
    "unfrozen_parameters": not_expressible("all weights are trained", unless=(None, [], "")),
    "gradient_checkpointing": _offloading,
    "activation_offloading": not_expressible("saved activations stay on the device"),
    "rl": refuses_setting(PREFERENCES, unless=(None, False, "")),
    "reward_model": refuses_setting(PREFERENCES),
    "process_reward_model": refuses_setting(PREFERENCES),
    "sequence_parallel_degree": states_value("context"),
    "context_parallel_size": states_value("context"),
    "tensor_parallel_size": states_value("tensor"),
    "expert_parallel_size": states_value("expert"),
    "dp_replicate_size": states_value(REPLICAS),
    "dp_shard_size": states_value(SHARDS),
    "fsdp_version": has_no_effect,
    "fsdp_final_state_dict_type": has_no_effect,
    "flash_attention": has_no_effect,
    "sdp_attention": has_no_effect,
    "xformers_attention": not_expressible("PyTorch's fused attention is simulated"),
    "eager_attention": switch("attention kernel", "unfused"),
    "flex_attention": not_expressible("attention of one kernel is simulated"),
    "s2_attention": not_expressible("attention goes over the whole sequence"),
    "lora_mlp_kernel": not_expressible("kernels are PyTorch's"),
    "lora_qkv_kernel": not_expressible("kernels are PyTorch's"),
    "lora_o_kernel": not_expressible("kernels are PyTorch's"),
    "liger_rope": not_expressible("kernels are PyTorch's"),
    "liger_rms_norm": not_expressible("kernels are PyTorch's"),
    "liger_glu_activation": not_expressible("kernels are PyTorch's"),
    "liger_swiglu": not_expressible("kernels are PyTorch's"),
    "liger_layer_norm": not_expressible("kernels are PyTorch's"),
    "liger_fused_linear_cross_entropy": not_expressible("the loss keeps all logits"),
    "liger_cross_entropy": not_expressible("kernels are PyTorch's"),
    "cut_cross_entropy": not_expressible("the loss keeps all logits"),
    "unsloth_cross_entropy_loss": not_expressible("kernels are PyTorch's"),
    "chunked_cross_entropy": not_expressible("the loss keeps all logits"),
    "plugins": not_expressible("without what plugins change", unless=(None, [])),
}


def _meaning(name: str) -> Meaning | None:
    if meaning := _OWN.get(name) or argument_meaning(name):
        return meaning
    return has_no_effect if name.partition(".")[0] in _IGNORED["effectless"] else None


def _tuning(facts: Facts, given: UserAdditions) -> None:
    """Adapters beside the weights that are named, or beside all."""
    if facts.get(_LINEAR):
        facts.say("lora_targets", list(all_linear_targets(facts, given)), facts.flag(_LINEAR))
    state_adapters(facts, "axolotl", 8, 16, ("q_proj", "v_proj"))
