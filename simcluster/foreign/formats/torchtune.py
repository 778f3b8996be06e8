"""A torchtune YAML: fine-tuning with FSDP, weights and states in one number format.

Defaults are from memory of its distributed recipes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.pytorch import (
    RECOMPUTED,
    devices_given,
    state_all_recomputed,
    state_cpu_offload,
    state_fully_sharded,
    state_hub_model,
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
    read_boolean,
    read_number,
    reads_betas,
    reads_clip,
    refuses_setting,
    selects,
    state_adapters,
    state_profile,
    states_value,
    switch,
)

_IGNORED = ignored_settings("torchtune")
_MODEL, _OFFLOAD, _RESHARD, _REPLICAS = "model name", "cpu offload", "reshard", "replicas"
_ATTENTION, _MLP, _HEAD = "adapters of attention", "adapters of mlp", "adapter of head"
_BUILDER = re.compile(
    r"(?:(lora|qlora|dora|qdora)_)?"
    r"(llama2|llama3_1|llama3_2|llama3_3|llama3|qwen2_5|qwen2|qwen3|mistral|gemma2|gemma|code_llama2|phi3|phi4)_"
    r"(\d+(?:_\d+)?b|mini)(?:_(?:base|instruct))?"
)
_FAMILIES: Mapping[str, str] = {
    "llama2": "llama-2-{}",
    "llama3": "llama-3-{}",
    "llama3_1": "llama-3.1-{}",
    "llama3_2": "llama-3.2-{}",
    "llama3_3": "llama-3.3-{}",
    "qwen2": "qwen2-{}",
    "qwen2_5": "qwen2.5-{}",
    "qwen3": "qwen3-{}",
    "mistral": "mistral-{}-v0.1",
    "gemma": "gemma-{}",
    "gemma2": "gemma-2-{}",
    "code_llama2": "codellama-{}",
    "phi3": "phi-3-{}-4k",
    "phi4": "phi-4",
}
"""Names of models on the hub by those of their builders."""

_PURE = "dtype"


class Torchtune(Importer):
    """torchtune's YAML."""

    kind = "torchtune"
    title = "a torchtune YAML"
    marks = (
        "model._component_",
        "enable_activation_checkpointing",
        "tokenizer._component_",
        "loss._component_",
    )

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the file says, of a recipe that runs on several devices."""
        facts = Facts(settings=dict(given.settings))
        state_profile(facts, "fsdp", "as torchtune's distributed recipes shard")
        written = read_settings(text, name)
        self.expect(written, name)
        facts.understand(written, _meaning)
        state_hub_model(facts, _MODEL, given)
        _tuning(facts)
        _numbers(facts)
        _sharding(facts, given)
        facts.default("accumulation", 1, "gradient_accumulation_steps: 1 (torchtune's default)")
        facts.default("training.optimizer.kind", "adamw", "assumed: the recipes' optimizer")
        state_all_recomputed(facts)
        return facts


def _builder(facts: Facts, flag: Flag) -> None:
    """The model by the function that builds it, which says whether there are adapters."""
    name = str(flag.value).rpartition(".")[2].lower()
    known = _BUILDER.fullmatch(name)
    if known is None:
        facts.say(_MODEL, name, flag)
        return
    if known[1] in ("qlora", "qdora"):
        facts.refuse(flag, QUANTISED_WEIGHTS)
    elif known[1] == "dora":
        facts.refuse(flag, ADAPTERS)
    elif known[1]:
        facts.say("adapters", "lora", flag)
    size = known[3].replace("_", ".")
    facts.say(_MODEL, _FAMILIES[known[2]].format(size), flag)


def _optimizer(facts: Facts, flag: Flag) -> None:
    """The class of the optimizer; torchao's and bitsandbytes' in eight bits have states in int8."""
    name = str(flag.value).rpartition(".")[2].lower()
    if name in ("adamw", "adam"):
        facts.say("training.optimizer.kind", name, flag)
    elif name in ("adamw8bit", "pagedadamw8bit", "cpuoffloadoptimizer"):
        facts.say("training.optimizer.kind", "adamw", flag)
        facts.say("training.optimizer.states", "int8", flag)
    elif name in ("pagedadamw", "sgd"):
        facts.say("training.optimizer.kind", "adamw" if name != "sgd" else "momentum", flag)
    else:
        facts.unsupported(flag, "adamw is simulated")


def _loss(facts: Facts, flag: Flag) -> None:
    """Losses on text; those in chunks never hold all logits."""
    name = str(flag.value).rpartition(".")[2].lower()
    if any(word in name for word in ("dpo", "rso", "ppo", "grpo", "simpo")):
        facts.refuse(flag, PREFERENCES)
    elif "chunked" in name or "linear" in name:
        facts.unsupported(flag, "the loss keeps all logits")
    else:
        facts.effectless(flag, "cross entropy, as is simulated")


def _packed(facts: Facts, flag: Flag) -> None:
    if read_boolean(facts, flag):
        facts.unsupported(flag, "attention goes over whole sequences, not sample by sample")
    else:
        facts.remark("every sequence is as long as training.seq_len; without packing as long as its samples")


_FORMATS = {"bf16": "bf16", "fp32": "fp32", "fp16": "fp16"}
_OWN: Mapping[str, Meaning] = {
    "model._component_": _builder,
    "model.lora_attn_modules": lambda facts, flag: facts.say(_ATTENTION, flag.value, flag),
    "model.apply_lora_to_mlp": switch(_MLP),
    "model.apply_lora_to_output": switch(_HEAD),
    "model.lora_rank": ADAPTER_MEANINGS["rank"],
    "model.lora_alpha": ADAPTER_MEANINGS["alpha"],
    "model.lora_dropout": ADAPTER_MEANINGS["dropout"],
    "model.use_dora": refuses_setting(ADAPTERS),
    "model.quantize_base": refuses_setting(QUANTISED_WEIGHTS),
    "tokenizer.max_seq_len": states_value("training.seq_len"),
    "dataset.packed": _packed,
    "batch_size": states_value("training.micro_batch"),
    "gradient_accumulation_steps": states_value("accumulation"),
    "optimizer._component_": _optimizer,
    "optimizer.lr": states_value("training.optimizer.learning_rate", read_number),
    "optimizer.weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "optimizer.eps": states_value("training.optimizer.eps", read_number),
    "optimizer.betas": reads_betas,
    "optimizer.fused": not_expressible("one kernel updates many parameters", unless=(True, None)),
    "optimizer_in_bwd": not_expressible("updates run behind the backward"),
    "loss._component_": _loss,
    "clip_grad_norm": reads_clip,
    "compile": not_expressible("kernels are not compiled"),
    "enable_activation_checkpointing": switch(RECOMPUTED, True, False),
    "ac_mode": not_expressible("what is recomputed is whole layers", unless=(None, "full")),
    "enable_activation_offloading": not_expressible("saved activations stay on the device"),
    "enable_fp8_training": switch("eight bits"),
    "fp8_recipe_name": has_no_effect,
    "fsdp_cpu_offload": switch(_OFFLOAD),
    "fsdp_reshard_after_forward": switch(_RESHARD, True, False),
    "data_parallel_replicate_dim": states_value(_REPLICAS),
    "data_parallel_shard_dim": has_no_effect,
    "tensor_parallel_dim": states_value("tensor"),
    "context_parallel_dim": states_value("context"),
    "dtype": selects(_PURE, _FORMATS),
}


def _meaning(name: str) -> Meaning | None:
    if meaning := _OWN.get(name):
        return meaning
    return has_no_effect if name.partition(".")[0] in _IGNORED["effectless"] else None


def _tuning(facts: Facts) -> None:
    """Adapters beside the weights of attention that are named, and of the MLP."""
    names = {"output_proj": "o_proj"}
    targets = [names.get(str(name), str(name)) for name in facts.get(_ATTENTION, [])]
    if facts.get(_MLP):
        targets += ["gate_proj", "up_proj", "down_proj"]
    if targets:
        facts.say("lora_targets", targets, facts.flag(_ATTENTION if _ATTENTION in facts.known else _MLP))
    if facts.get(_HEAD):
        facts.unsupported(facts.flag(_HEAD), "the head has no adapter")
    state_adapters(facts, "torchtune", 8, 16, ("q_proj", "v_proj"))


def _numbers(facts: Facts) -> None:
    """Weights, gradients and states in one format, without a master copy."""
    facts.default(_PURE, "fp32", "dtype: fp32 (torchtune's default)")
    own, flag = facts.get(_PURE), facts.flag(_PURE)
    facts.say("training.precision.compute", own, flag)
    if own != "fp32":
        facts.say("training.precision.gradients", own, flag)
        facts.say("training.precision.master", "none", flag)
        facts.default("training.optimizer.states", own, "states in the format of the weights")
    if facts.get("eight bits"):
        facts.say("training.precision.matmul", "fp8", facts.flag("eight bits"))


def _sharding(facts: Facts, given: UserAdditions) -> None:
    """FSDP over all ranks, or over those of each replica."""
    replicas = facts.get(_REPLICAS, 1)
    flag = facts.flag(_REPLICAS) if replicas > 1 else Flag("fsdp", None, "torchtune's distributed recipes")
    ranks = devices_given(given) // facts.get("tensor", 1)
    group = ranks // replicas if replicas > 1 else 0
    state_fully_sharded(facts, flag, regather=facts.get(_RESHARD, True), group=group)
    if facts.get(_OFFLOAD):
        state_cpu_offload(facts, facts.flag(_OFFLOAD), given)
