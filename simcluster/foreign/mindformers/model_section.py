"""The model of a MindFormers YAML: its type decides the family, its keys the dimensions.

Key names and defaults: reference ``mindspore.md`` sections 2 and 7; those of GLM from memory of its shipped
configurations.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    ADAPTERS,
    DEEPSEEK,
    MEGATRON,
    RECURRENT,
    STATE_SPACE,
    Facts,
    Meaning,
    UnsupportedFeature,
    decided_by_profile,
    has_no_effect,
    not_expressible,
    read_number,
    read_word,
    reads_adapter_kind,
    reads_embedding_dropout,
    reads_mtp_layers,
    reads_rotary_fraction,
    refuses_setting,
    selects,
    state_adapters,
    state_positions,
    states_value,
    switch,
)

SECTION = "model.model_config."

_GPT = {"norm": "layer", "activation": "gelu", "positions": "learned", "bias": True, "tied": True}
_LLAMA = {"norm": "rms", "activation": "swiglu", "positions": "rotary", "bias": False, "tied": False}
_GLM = {**_LLAMA, "rotary_fraction": 0.5}
_TYPES: Mapping[str, Mapping[str, object]] = {
    "llama": _LLAMA,
    "qwen3": {**_LLAMA, "qk_norm": True},
    "qwen2": {**_LLAMA, "qkv_bias": True},
    "mistral": _LLAMA,
    "mixtral": _LLAMA,
    "deepseekv2": _LLAMA,
    "deepseekv3": _LLAMA,
    "qwen3moe": {**_LLAMA, "qk_norm": True},
    "internlm": _LLAMA,
    "chatglm2": _GLM,
    "chatglm3": _GLM,
    "chatglm4": _GLM,
    "glm2": _GLM,
    "glm3": _GLM,
    "glm4": _GLM,
    "codegeex2": _GLM,
    "gpt2": _GPT,
    "pangualpha": {**_GPT, "query_layer": True},
    "bloom": {**_GPT, "positions": "alibi", "embedding_norm": True},
    "glm": {**_GPT, "positions": "rotary", "tied": False},
    "qwen": {**_LLAMA, "qkv_bias": True},
    "internlm2": _LLAMA,
    "baichuan": _LLAMA,
    "baichuan2": _LLAMA,
    "yi": _LLAMA,
    "skywork": _LLAMA,
}
"""Types by their names without 'Config' and underscores; those of PanGu-alpha, BLOOM and the first GLM from
memory of its modules."""

_BAICHUAN_13B = 5120
"""Hidden size from which Baichuan's models have ALiBi in place of rotary positions."""

_OTHERS = ("bert", "t5", "vit", "swin", "mae", "clip", "blip", "sam", "whisper", "wukong", "simmim")
"""Beginnings of the names of what is no decoder."""

_BEYOND: Mapping[str, UnsupportedFeature] = {"mamba": STATE_SPACE, "rwkv": RECURRENT}

_FLOATS = {
    f"{prefix}{name}": short
    for name, short in (("float32", "fp32"), ("float16", "fp16"), ("bfloat16", "bf16"))
    for prefix in ("", "mindspore.", "mstype.")
}

MODEL: Mapping[str, Meaning] = {
    "type": states_value("type", read_word),
    "model_type": states_value("type", read_word),
    "batch_size": states_value("prompts"),
    "num_blocks": states_value("blocks"),
    "seq_length": states_value("training.seq_len"),
    "hidden_size": states_value("model.hidden"),
    "num_layers": states_value("model.layers"),
    "num_hidden_layers": states_value("model.layers"),
    "num_heads": states_value("model.heads"),
    "num_attention_heads": states_value("model.heads"),
    "n_kv_heads": states_value("model.kv_heads"),
    "num_key_value_heads": states_value("model.kv_heads"),
    "num_query_groups": states_value("model.kv_heads"),
    "multi_query_attention": switch("grouped", True, False),
    "multi_query_group_num": states_value("query_groups"),
    "head_dim": states_value("model.head_dim"),
    "kv_channels": states_value("model.head_dim"),
    "intermediate_size": states_value("model.ffn"),
    "ffn_hidden_size": states_value("model.ffn"),
    "inner_hidden_size": states_value("model.ffn"),
    "embedding_size": states_value("embedding_size"),
    "gated_linear_unit": not_expressible("the MLP has a gate", unless=(True, None)),
    "decoder_sparse_step": not_expressible("every layer has experts", unless=(1, None)),
    "mlp_only_layers": not_expressible("every layer has experts", unless=([], None)),
    "use_moe": not_expressible("no layer has experts"),
    "moe_grouped_gemm": decided_by_profile,
    "moe_permute_fusion": decided_by_profile,
    "use_fused_mla": decided_by_profile,
    "multiple_of": states_value("ffn_multiple"),
    "ffn_dim_multiplier": states_value("ffn_factor", read_number),
    "expand_ratio": states_value("expand", read_number),
    "vocab_size": states_value("model.vocab"),
    "padded_vocab_size": states_value("padded_vocab"),
    "theta": states_value("model.rope_theta", read_number),
    "rope_theta": states_value("model.rope_theta", read_number),
    "rotary_base": states_value("model.rope_theta", read_number),
    "rotary_pct": reads_rotary_fraction,
    "rotary_percent": reads_rotary_fraction,
    "partial_rotary_factor": reads_rotary_fraction,
    "max_position_embedding": states_value("positions_limit"),
    "max_position_embeddings": states_value("positions_limit"),
    "tie_word_embeddings": switch("model.tied", True, False),
    "untie_embeddings_and_output_weights": switch("model.tied", False, True),
    "qkv_has_bias": switch("model.qkv_bias", True, False),
    "attention_bias": switch("model.qkv_bias", True, False),
    "add_qkv_bias": switch("model.qkv_bias", True, False),
    "add_bias_linear": switch("model.bias", True, False),
    "attn_proj_has_bias": not_expressible("the projection behind attention has no bias"),
    "apply_residual_connection_post_layernorm": not_expressible("residuals start before the norms"),
    "post_layer_norm": not_expressible("there is a norm behind the last layer", unless=(True, None)),
    "qk_layernorm": switch("model.qk_norm"),
    "normalization": selects("model.norm", {"rmsnorm": "rms", "layernorm": "layer"}, "RMS norm is simulated"),
    "rmsnorm": switch("model.norm", "rms", "layer"),
    "hidden_act": selects(
        "model.activation",
        {
            "silu": "swiglu",
            "swiglu": "swiglu",
            "gelu": "gelu",
            "relu": "relu",
            "fusedswiglu": "swiglu",
            "fast_gelu": "gelu",
        },
        "the activation of the model's family is simulated",
    ),
    "position_embedding_type": selects(
        "model.positions",
        {"rope": "rotary", "yarn": "rotary", "learned_absolute": "learned"},
        "rotary positions are simulated",
    ),
    "hidden_dropout_rate": states_value("model.dropout", read_number),
    "attention_dropout_rate": states_value("model.attention_dropout", read_number),
    "hidden_dropout": states_value("model.dropout", read_number),
    "attention_dropout": states_value("model.attention_dropout", read_number),
    "hidden_dropout_prob": states_value("model.dropout", read_number),
    "attention_probs_dropout_prob": states_value("model.attention_dropout", read_number),
    "dropout_rate": lambda facts, flag: _dropout(facts, flag),
    "emb_dropout_prob": reads_embedding_dropout,
    "embedding_dropout_prob": reads_embedding_dropout,
    "compute_dtype": selects("training.precision.compute", _FLOATS),
    "param_init_type": selects("parameters", _FLOATS),
    "params_dtype": selects("parameters", _FLOATS),
    "fp32_residual_connection": not_expressible("residuals have the number format of all activations"),
    "quantization_bit": not_expressible(
        "weights have the number format of the computation", unless=(None, 0)
    ),
    "pre_seq_len": refuses_setting(ADAPTERS, unless=(None, 0)),
    "use_flash_attention": switch("flash"),
    "pp_interleave_num": states_value("chunks"),
    "offset": lambda facts, flag: _offset(facts, flag),
    "fine_grain_interleave": states_value("fine_grain"),
    "mtp_depth": reads_mtp_layers,
    "mtp_num_layers": reads_mtp_layers,
    "num_nextn_predict_layers": reads_mtp_layers,
    "sliding_window": states_value("model.window"),
    "use_sliding_window": switch("windowed", True, False),
    "max_window_layers": states_value("window_from"),
    "pet_config": reads_adapter_kind,
    "pet_config.pet_type": reads_adapter_kind,
    "pet_config.lora_rank": ADAPTER_MEANINGS["rank"],
    "pet_config.lora_alpha": ADAPTER_MEANINGS["alpha"],
    "pet_config.lora_dropout": ADAPTER_MEANINGS["dropout"],
    "pet_config.target_modules": ADAPTER_MEANINGS["targets"],
    "pet_config.lora_a_init": has_no_effect,
    "pet_config.lora_b_init": has_no_effect,
    "pet_config.exclude_layers": ADAPTER_MEANINGS["others"],
    "pet_config.freeze_include": ADAPTER_MEANINGS["others"],
    "pet_config.freeze_exclude": ADAPTER_MEANINGS["others"],
    **{name: meaning for name, meaning in MEGATRON.items() if name.startswith("moe_")},
    **DEEPSEEK,
}
"""Keys below ``state_model.model_config``."""


def _dropout(facts: Facts, flag: Flag) -> None:
    """One rate for hidden states and attention."""
    for name in ("model.dropout", "model.attention_dropout"):
        states_value(name, read_number)(facts, flag)


def _offset(facts: Facts, flag: Flag) -> None:
    """Layers that single stages have more than the mean."""
    value = flag.value
    rows = value if isinstance(value, list) and all(isinstance(row, list) for row in value) else [value]
    if value in (0, None) or not any(row and any(row) for row in rows if isinstance(row, list)):
        facts.effectless(flag, "stages are equal")
    elif all(isinstance(row, list) and all(isinstance(extra, int) for extra in row) for row in rows):
        facts.say("offset", value, flag)
    else:
        facts.unsupported(flag, "stages of equal size are simulated")


def state_model(facts: Facts, *, named: bool) -> None:
    """The family's choices, dimensions that follow from others, number formats.

    ``named``: a model of the catalog is given, beside which only what the file says counts.
    """
    # GLM counts key-value heads only where it is told that queries share them.
    grouped, otherwise = bool(facts.get("grouped")), "without multi_query_attention: True"
    facts.use("query_groups", "model.kv_heads", counts=grouped, otherwise=otherwise)
    _window(facts)
    if "padded_vocab" in facts.known:  # the rows of the embedding as they are in memory
        facts.drop_effectless(("model.vocab",), "padded_vocab_size counts")
        facts.use("padded_vocab", "model.vocab")
    _numbers(facts)
    state_adapters(facts, "MindFormers", 8, 16, ("q_proj", "k_proj", "v_proj", "o_proj"))
    if not named:
        _family(facts)


def _family(facts: Facts) -> None:
    """The family's choices, and the inner size of the MLP by Llama's rule."""
    kind = str(facts.get("type", "LlamaConfig"))
    short = kind.lower().replace("_", "").removesuffix("config")
    for start, beyond in _BEYOND.items():
        if short.startswith(start):
            facts.refuse(facts.flag("type"), beyond)
    if short.startswith(_OTHERS):
        message = f"only decoders are read of a MindFormers YAML, and {kind} is none"
        facts.wrong(facts.flag("type"), message, "name the model: --model bert-large")
        return
    family = _TYPES.get(short)
    if family is None:
        family = _LLAMA
        facts.unsupported(facts.flag("type"), "layers as in Llama are simulated")
    if short in ("baichuan", "baichuan2") and facts.get("model.hidden", 0) >= _BAICHUAN_13B:
        facts.default("model.positions", "alibi", f"{kind} of the size of Baichuan 13B")
        facts.remark(f"{kind}: ALiBi as in Baichuan 13B; the 7B has rotary positions (from memory)")
    for name, value in family.items():
        facts.default(f"model.{name}", value, f"model of type {kind}")
    if not facts.get("flash", True):
        facts.unsupported(
            facts.flag("flash"), "attention is simulated as a fused kernel, which keeps no scores"
        )
    hidden = facts.get("model.hidden")
    if "embedding_size" in facts.known:
        same = facts.get("embedding_size") == hidden
        facts.compare(
            facts.drop("embedding_size"), same, "the embedding is as wide as the layers", "as the layers"
        )
    if hidden and "model.ffn" not in facts.known:
        facts.default("model.ffn", _inner(facts, hidden), f"{kind}'s rule for the inner size")
    facts.drop_effectless(("ffn_multiple", "ffn_factor", "expand"), "used for the inner size of the MLP")
    state_positions(facts)
    for name in ("model.dropout", "model.attention_dropout"):
        if name in facts.known and not facts.get(name):
            facts.effectless(facts.drop(name), "off")


def _window(facts: Facts) -> None:
    """Qwen's configurations name a window that they do not use, or use in the last layers alone."""
    if facts.get("windowed") is False:
        facts.drop_effectless(("model.window",), "use_sliding_window is off")
    if "window_from" in facts.known:
        first, flag = facts.get("window_from"), facts.drop("window_from")
        without = not first or "model.window" not in facts.known
        same = "there is no window" if first else "every layer has the window"
        facts.compare(flag, without, "every layer has the window", same)


def _inner(facts: Facts, hidden: int) -> int:
    """4 x hidden, or 8/3 of it times a factor, rounded up to a multiple."""
    if facts.get("model.activation") != "swiglu":
        return int(facts.get("expand", 4) * hidden)
    inner: int = 4 * hidden
    if "ffn_factor" in facts.known:
        inner = int((facts.get("ffn_factor") + 0.01) * inner)
    inner = int(2 * inner / 3)
    multiple: int = max(1, facts.get("ffn_multiple", 256))
    return -(-inner // multiple) * multiple


def _numbers(facts: Facts) -> None:
    """Parameters in fp32 are their own master copy; in the compute format there is none."""
    facts.default("training.precision.compute", "fp16", "MindFormers' default")
    compute, parameters = facts.get("training.precision.compute"), facts.get("parameters", "fp32")
    if compute == "fp32":
        return
    if parameters == "fp32":
        facts.default("training.precision.gradients", "fp32", "as the parameters")
        facts.drop_effectless(("parameters",), "the fp32 parameters are the master copy")
    elif parameters == compute:
        facts.say("training.precision.master", "none", facts.flag("parameters"))
        facts.say("training.precision.gradients", compute, facts.flag("parameters"))
    else:
        facts.unsupported(
            facts.flag("parameters"), f"weights are simulated in {compute} with an fp32 master copy"
        )
