"""An LLM Foundry YAML (MosaicML Composer): an MPT by its sizes or a model of the hub, sharded by FSDP.

Defaults: reference ``frameworks.md`` section 10, others from memory of its public documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.pytorch import (
    SHARDING,
    all_linear_targets,
    devices_given,
    fsdp_meaning,
    read_hub_name,
    state_all_recomputed,
    state_hub_model,
    state_strategy,
    state_trainer_profile,
)
from simcluster.foreign.reading import Flag, read_settings
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    Facts,
    Meaning,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_number,
    read_word,
    reads_adapter_kind,
    reads_betas,
    selects,
    state_adapters,
    states_value,
    switch,
)

_IGNORED = ignored_settings("llm_foundry")
_MODEL, _KIND, _RATIO, _POSITIONS = "model name", "model kind", "expansion ratio", "learned positions"
_MIXED, _NO_BIAS, _ALIBI, _ROTARY = "mixed precision", "no bias", "alibi", "rotary"
_ATTENTION = "attention type"
_UNNAMED = Flag("fsdp_config", None, "fsdp_config without a strategy: FULL_SHARD (Composer's default)")


class LlmFoundry(Importer):
    """LLM Foundry's YAML."""

    kind = "llm-foundry"
    title = "an LLM Foundry YAML"
    marks = (
        "device_train_microbatch_size",
        "global_train_batch_size",
        "max_seq_len",
        "model.d_model",
        "fsdp_config.",
    )

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """Reads the file, with ``${variables.x}`` replaced by their values."""
        written = read_settings(text, name)
        facts = self.understood(written, name, given, _meaning)
        if _MODEL in facts.known:
            state_hub_model(facts, _MODEL, given)
        else:
            _mpt(facts)
        asked = any(flag.name.startswith(_SECTIONS) for flag in written)
        if asked:
            state_strategy(facts, given, unnamed=_UNNAMED)
        facts.default(SHARDING, {"zero": 0}, "no fsdp_config: every rank holds everything")
        state_trainer_profile(facts, "fsdp" if asked else "ddp", "as Composer trains")
        _numbers(facts)
        _micro_batch(facts, given)
        state_adapters(facts, "PEFT", 8, 8, all_linear_targets(facts, given))
        state_all_recomputed(facts)
        facts.default("training.optimizer.kind", "adamw", "decoupled_adamw (assumed)")
        return facts


_SECTIONS = ("fsdp_config.", "parallelism_config.fsdp.")


def _mpt(facts: Facts) -> None:
    """States MPT: GPT's layers with ALiBi, rotary or learned positions, and biases unless ``no_bias``."""
    kind = facts.get(_KIND, "mpt_causal_lm")
    if kind != "mpt_causal_lm":
        message = "only mpt_causal_lm and models of the Hugging Face hub are known"
        facts.wrong(facts.flag(_KIND), message, "give --model with one of the catalog, or a config.json")
        return
    flag = facts.drop(_KIND) if _KIND in facts.known else Flag("model.name", kind, "mpt_causal_lm")
    facts.say("model.family", "gpt", flag)
    hidden, ratio = facts.get("model.hidden"), facts.get(_RATIO, 4)
    if hidden and ratio != 4:
        facts.say("model.ffn", int(ratio * hidden), facts.flag(_RATIO))
    if facts.get(_ALIBI):
        facts.say("model.positions", "alibi", facts.flag(_ALIBI))
    elif facts.get(_ROTARY):
        facts.say("model.positions", "rotary", facts.flag(_ROTARY))
    elif facts.get(_POSITIONS) is False:
        facts.say("model.positions", "none", facts.flag(_POSITIONS))
    else:
        facts.default("model.max_positions", facts.get("training.seq_len"), "learned positions: max_seq_len")
    if facts.get(_NO_BIAS):
        facts.say("model.bias", False, facts.flag(_NO_BIAS))
        if facts.get("model.norm", "layer") == "layer":
            facts.say("model.norm_bias", False, facts.flag(_NO_BIAS))
    if facts.get(_ATTENTION) == "multiquery_attention":
        facts.default("model.kv_heads", 1, str(facts.flag(_ATTENTION)))


def _numbers(facts: Facts) -> None:
    """FSDP's mixed precision: PURE reduces gradients in the compute format, DEFAULT in fp32."""
    facts.default("training.precision.compute", "bf16", "precision: amp_bf16 (assumed)")
    compute, flag = facts.get("training.precision.compute"), facts.flag(_MIXED)
    if compute == "fp32":
        return
    if _MIXED not in facts.known:
        flag = Flag("mixed_precision", None, "mixed_precision: DEFAULT (Composer's default)")
    facts.say("training.precision.gradients", compute if facts.get(_MIXED) == "pure" else "fp32", flag)


def _micro_batch(facts: Facts, given: UserAdditions) -> None:
    """Limits the micro-batch to a rank's share of the global batch, as Composer does (from memory)."""
    micro, total, ranks = (
        facts.get("training.micro_batch"),
        facts.get("training.global_batch"),
        devices_given(given),
    )
    if not (micro and total and ranks) or total % ranks or micro * ranks <= total:
        return
    flag = facts.flag("training.micro_batch")
    facts.replace("training.micro_batch", total // ranks, flag)
    facts.remark(f"{flag}: {total} samples / {ranks} ranks = {total // ranks}, which is less")


def _precision(facts: Facts, flag: Flag) -> None:
    """The compute format; amp_fp8 has matrix products in fp8 and the rest in bf16."""
    if str(flag.value).lower() == "amp_fp8":
        facts.say("training.precision.matmul", "fp8", flag)
    formats = {"amp_bf16": "bf16", "amp_fp16": "fp16", "fp32": "fp32", "amp_fp8": "bf16"}
    selects("training.precision.compute", formats)(facts, flag)


def _size_or_auto(name: str) -> Meaning:
    """A size, or "auto": the largest that fits into memory, which Composer finds by trying."""

    def meaning(facts: Facts, flag: Flag) -> None:
        reason = "it is found by trying as the training starts"
        flag = replace(flag, missing=reason) if flag.value == "auto" else flag
        states_value(name)(facts, flag)

    return meaning


def _clipping(facts: Facts, flag: Flag) -> None:
    facts.compare(flag, flag.value == "norm", "the norm of gradients is clipped", "as is simulated")


def _kernel(facts: Facts, flag: Flag) -> None:
    """Fused attention, or "torch": PyTorch's, which stores all scores."""
    if flag.value == "torch":
        facts.say("attention kernel", "unfused", flag)
    else:
        facts.effectless(flag, "attention of one kernel")


_OWN: Mapping[str, Meaning] = {
    "model.name": states_value(_KIND, read_word),
    "model.pretrained_model_name_or_path": lambda facts, flag: read_hub_name(facts, flag, _MODEL),
    "model.d_model": states_value("model.hidden"),
    "model.n_heads": states_value("model.heads"),
    "model.n_layers": states_value("model.layers"),
    "model.vocab_size": states_value("model.vocab"),
    "model.expansion_ratio": states_value(_RATIO, read_number),
    "model.max_seq_len": states_value("model.max_positions"),
    "model.resid_pdrop": states_value("model.dropout", read_number),
    "model.emb_pdrop": states_value("model.embedding_dropout", read_number),
    "model.no_bias": switch(_NO_BIAS),
    "model.learned_pos_emb": switch(_POSITIONS, True, False),
    "model.tie_word_embeddings": switch("model.tied", True, False),
    "model.norm_type": selects(
        "model.norm",
        {
            "low_precision_layernorm": "layer",
            "layernorm": "layer",
            "rmsnorm": "rms",
            "low_precision_rmsnorm": "rms",
        },
    ),
    "model.attn_config.alibi": switch(_ALIBI),
    "model.attn_config.rope": switch(_ROTARY),
    "model.attn_config.rope_theta": states_value("model.rope_theta", read_number),
    "model.attn_config.attn_impl": _kernel,
    "model.attn_config.attn_pdrop": states_value("model.attention_dropout", read_number),
    "model.attn_config.attn_type": states_value(_ATTENTION, read_word),
    "model.attn_config.kv_n_heads": states_value("model.kv_heads"),
    "model.attn_config.qk_ln": switch("model.qk_norm"),
    "model.attn_config.clip_qkv": not_expressible("queries, keys and values are not clipped", unless=(None,)),
    "model.attn_config.sliding_window_size": not_expressible(
        "attention goes over whole sequences", unless=(-1, None)
    ),
    "model.ffn_config.ffn_type": not_expressible("an MLP of two matrices", unless=("mptmlp", None)),
    "model.peft_config.peft_type": reads_adapter_kind,
    "model.peft_config.r": ADAPTER_MEANINGS["rank"],
    "model.peft_config.lora_alpha": ADAPTER_MEANINGS["alpha"],
    "model.peft_config.lora_dropout": ADAPTER_MEANINGS["dropout"],
    "model.peft_config.target_modules": ADAPTER_MEANINGS["targets"],
    "max_seq_len": states_value("training.seq_len"),
    "global_train_batch_size": states_value("training.global_batch"),
    "device_train_microbatch_size": _size_or_auto("training.micro_batch"),
    "precision": _precision,
    "optimizer.name": selects(
        "training.optimizer.kind",
        {"decoupled_adamw": "adamw", "adamw": "adamw", "adam": "adam"},
        "adamw is simulated",
        "adamw",
    ),
    "optimizer.lr": states_value("training.optimizer.learning_rate", read_number),
    "optimizer.betas": reads_betas,
    "optimizer.eps": states_value("training.optimizer.eps", read_number),
    "optimizer.weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "algorithms.gradient_clipping.clipping_type": _clipping,
    "algorithms.gradient_clipping.clipping_threshold": states_value("training.optimizer.clip", read_number),
    "compile_config": not_expressible("kernels are not compiled", unless=(None, {})),
}
_OF_FSDP: Mapping[str, Meaning] = {
    "mixed_precision": selects(_MIXED, {"pure": "pure", "default": "default", "full": "default"}),
    "activation_cpu_offload": not_expressible("saved activations stay on the device"),
    "activation_checkpointing_reentrant": has_no_effect,
    "data_parallel_shard_degree": has_no_effect,
}


def _meaning(name: str) -> Meaning | None:
    if meaning := _OWN.get(name):
        return meaning
    for section in _SECTIONS:
        if name.startswith(section):
            key = name.removeprefix(section)
            return _OF_FSDP.get(key) or fsdp_meaning(key)
    harmless = name.partition(".")[0] in _IGNORED["effectless"] or name in _IGNORED["effectless"]
    return has_no_effect if harmless else None
