"""A nanotron YAML: parallel sizes, tokens of a step, a model of Llama's or Qwen's layers by its dimensions.

Defaults are those of its ``config.py`` (from memory).
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.reading import Flag, read_settings
from simcluster.foreign.translation import (
    DEEPSEEK,
    STATE_SPACE,
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_boolean,
    read_number,
    read_word,
    reads_clip,
    refuses_setting,
    selects,
    state_mixture,
    state_profile,
    states_value,
    switch,
)

_IGNORED = ignored_settings("nanotron")
_MODEL = "model.model_config."
_ZERO, _ACCUMULATED, _MODE, _TIED = "zero stage", "gradients in fp32", "tensor mode", "tied"
_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "double": "fp32"}


class Nanotron(Importer):
    """nanotron's YAML."""

    kind = "nanotron"
    title = "a nanotron YAML"
    marks = ("parallelism.tp_mode", "parallelism.dp", "tokens.micro_batch_size", "parallelism.pp_engine")
    certain = ("tokens.micro_batch_size", "tokens.batch_accumulation_per_replica")

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the file says; its three parallel sizes are all of the ranks."""
        facts = Facts(settings=dict(given.settings))
        state_profile(
            facts, "megatron-core", "the nearest to nanotron: flash attention, fused norms, Megatron's plan"
        )
        written = read_settings(text, name)
        self.expect(written, name)
        facts.understand(written, _meaning)
        _model(facts)
        _numbers(facts)
        _parallel(facts)
        state_mixture(facts, chosen=1, groups_best=True)
        facts.default("training.optimizer.kind", "adamw", "nanotron's default")
        return facts


def _recomputed(facts: Facts, flag: Flag) -> None:
    if read_boolean(facts, flag):
        facts.say("parallel.recompute", {"layers": "all"}, flag)
    else:
        facts.effectless(flag, "off")


def _stage(facts: Facts, flag: Flag) -> None:
    """ZeRO's stage, of which there are 0 and 1."""
    if flag.value in (0, 1):
        facts.say(_ZERO, flag.value, flag)
    else:
        facts.wrong(flag, "expected 0 or 1")


_OF_MODEL: Mapping[str, Meaning] = {
    "num_hidden_layers": states_value("model.layers"),
    "hidden_size": states_value("model.hidden"),
    "num_attention_heads": states_value("model.heads"),
    "num_key_value_heads": states_value("model.kv_heads"),
    "head_dim": states_value("model.head_dim"),
    "intermediate_size": states_value("model.ffn"),
    "vocab_size": states_value("model.vocab"),
    "max_position_embeddings": has_no_effect,
    "rope_theta": states_value("model.rope_theta", read_number),
    "tie_word_embeddings": switch(_TIED, True, False),
    "hidden_act": selects(
        "model.activation", {"silu": "swiglu", "swish": "swiglu", "gelu": "geglu"}, "swiglu is simulated"
    ),
    "attention_bias": switch("model.qkv_bias"),
    "use_qk_norm": switch("model.qk_norm"),
    "sliding_window_size": states_value("model.window"),
    "no_rope_layer": not_expressible("every layer has rotary positions", unless=(None, 0)),
    "_attn_implementation": lambda facts, flag: _kernel(facts, flag),
    "is_mamba_config": refuses_setting(STATE_SPACE),
    "moe_config.num_experts": states_value("experts"),
    "moe_config.top_k": states_value("experts_chosen"),
    "moe_config.moe_intermediate_size": states_value("experts_ffn"),
    "moe_config.enable_shared_expert": not_expressible("there is no shared expert"),
    "moe_num_experts": states_value("experts"),
    "num_experts_per_tok": states_value("experts_chosen"),
}
"""Keys of ``model.model_config``, which are those of a model's ``config.json``."""

_OWN: Mapping[str, Meaning] = {
    "model.dtype": selects("training.precision.compute", _FORMATS),
    "model.make_vocab_size_divisible_by": states_value("vocabulary_multiple"),
    "model.ddp_bucket_cap_mb": decided_by_profile,
    "tokens.micro_batch_size": states_value("training.micro_batch"),
    "tokens.batch_accumulation_per_replica": states_value("accumulation"),
    "tokens.sequence_length": states_value("training.seq_len"),
    "parallelism.dp": states_value("data"),
    "parallelism.pp": states_value("pipeline"),
    "parallelism.tp": states_value("tensor"),
    "parallelism.context_parallel_size": states_value("context"),
    "parallelism.cp": states_value("context"),
    "parallelism.expert_parallel_size": states_value("expert"),
    "parallelism.pp_engine": selects("schedule", {"1f1b": "1f1b", "afab": "gpipe"}),
    "parallelism.tp_mode": selects(_MODE, {"reduce_scatter": "split", "all_reduce": "whole"}),
    "parallelism.tp_linear_async_communication": decided_by_profile,
    "parallelism.tp_recompute_allgather": decided_by_profile,
    "parallelism.recompute_layer": _recomputed,
    "parallelism.moe_layer_recompute": not_expressible("layers of experts keep what others keep"),
    "optimizer.zero_stage": _stage,
    "optimizer.accumulate_grad_in_fp32": switch(_ACCUMULATED, True, False),
    "optimizer.clip_grad": reads_clip,
    "optimizer.weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "optimizer.learning_rate_scheduler.learning_rate": states_value(
        "training.optimizer.learning_rate", read_number
    ),
    "optimizer.optimizer_factory.name": selects(
        "training.optimizer.kind", {"adamw": "adamw", "sgd": "momentum"}, "adamw is simulated"
    ),
    "optimizer.optimizer_factory.adam_beta1": states_value("training.optimizer.beta1", read_number),
    "optimizer.optimizer_factory.adam_beta2": states_value("training.optimizer.beta2", read_number),
    "optimizer.optimizer_factory.adam_eps": states_value("training.optimizer.eps", read_number),
    "optimizer.optimizer_factory.torch_adam_is_fused": not_expressible(
        "one kernel updates many parameters", unless=(True, None)
    ),
    "tokenizer.tokenizer_name_or_path": has_no_effect,
    "lighteval": has_no_effect,
    "general.run": has_no_effect,
}


def _meaning(name: str) -> Meaning | None:
    if name.startswith(_MODEL):
        key = name.removeprefix(_MODEL)
        known = _OF_MODEL.get(key) or DEEPSEEK.get(key)
        return known or (has_no_effect if key in _IGNORED["model"] else None)
    if meaning := _OWN.get(name):
        return meaning
    ignored = name.partition(".")[0] in _IGNORED["effectless"] or name in _IGNORED["settings"]
    return has_no_effect if ignored else None


def _kernel(facts: Facts, flag: Flag) -> None:
    """The implementation of attention: one kernel but for "eager"."""
    said = read_word(facts, flag)
    facts.compare(flag, said != "eager", "attention is one kernel", "as is simulated")


def _model(facts: Facts) -> None:
    """Layers as Llama's: RMS norm, rotary positions, SwiGLU, no biases."""
    for key, value in (
        ("norm", "rms"),
        ("activation", "swiglu"),
        ("positions", "rotary"),
        ("bias", False),
    ):
        facts.default(f"model.{key}", value, "nanotron's layers are Llama's")
    if _TIED in facts.known:
        facts.say("model.tied", facts.get(_TIED), facts.drop(_TIED))
    facts.default("model.tied", False, "tie_word_embeddings: false (nanotron's default)")
    facts.default("vocabulary_multiple", 1, "make_vocab_size_divisible_by: 1 (nanotron's default)")


def _numbers(facts: Facts) -> None:
    """bf16 weights; with gradients added up in fp32 the optimizer has fp32 weights as well."""
    compute = facts.get("training.precision.compute", "bf16")
    facts.default("training.precision.compute", "bf16", "dtype: bfloat16 (nanotron's default)")
    whole, flag = facts.get(_ACCUMULATED, True), facts.flag(_ACCUMULATED)
    if _ACCUMULATED in facts.known:
        facts.drop(_ACCUMULATED)
    if compute == "fp32":
        return
    facts.say("training.precision.gradients", "fp32" if whole else compute, flag)
    if not whole:
        facts.say("training.precision.master", "none", flag)


def _parallel(facts: Facts) -> None:
    """ZeRO, and whether tensor parallelism splits sequences between its parts."""
    stage, flag = facts.get(_ZERO, 0), facts.flag(_ZERO)
    if _ZERO in facts.known:
        facts.drop(_ZERO)
    facts.say("parallel.optimizer_sharding", {"zero": stage}, flag)
    facts.default(_MODE, "whole", "tp_mode: ALL_REDUCE (nanotron's default)")
    mode, flag = facts.get(_MODE), facts.drop(_MODE)
    facts.say("sequence_parallel", mode == "split", flag)
    if facts.get("expert", 1) > 1:
        # Its parallel sizes multiply with that of experts; here those ranks split the batch as well.
        data = facts.get("data", 1) * facts.get("expert")
        facts.replace("data", data, facts.flag("expert"))
    facts.default("p2p", "blocking", "nanotron's stages send and receive between their kernels")
