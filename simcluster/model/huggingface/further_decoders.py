"""Decoders beyond Llama's and GPT's: Gemma, OLMo, GLM, StarCoder, Llama 4 and others, by their config keys.

Where their code does something else at next to no cost, ``remark`` says what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.document import Refused
from simcluster.model.huggingface import experts_and_latent_attention as mixtures
from simcluster.model.huggingface.config_keys import (
    CLIPPED,
    GPT2,
    LLAMA,
    MIXED,
    MULTIPLIED,
    MULTIPLIERS,
    NO_BIAS,
    PART_ROTATED,
    ROTARY,
    SILU,
    sliding_window,
)
from simcluster.model.huggingface.model_type import Config, Keys, ModelType

_GELU = ("gelu_pytorch_tanh", "gelu", None)
_GEMMA: Mapping[str, tuple[Any, ...]] = {
    "attention_bias": (False, None),
    "hidden_act": _GELU,
    "hidden_activation": _GELU,
    "use_bidirectional_attention": (False, None),
}
_OWN_GEMMA: Mapping[str, Any] = {"activation": "geglu", "tied": True, "head_dim": 256}
_BEHIND = "norms follow attention and MLP in the original, and precede them here"
_ALL_HEADS = "queries and keys are normalised over all heads together in the original, head by head here"
_NO_ROTATION = "layers without rotary positions are simulated with them"


def _gemma2(config: Config) -> Mapping[str, Any]:
    """A window in every other layer, and a cap on logits unless it is taken out."""
    capped = config.get("final_logit_softcapping", 30.0)
    if capped not in (None, 30.0):
        raise Refused(f"final_logit_softcapping {capped!r} is not supported; only 30.0 and null")
    window = config.get("sliding_window", 4096)
    windows = {} if window is None else {"window": window, "window_every": 2}
    return {"capped_logits": capped is not None, **windows}


def _gemma3(config: Config) -> Mapping[str, Any]:
    """A window in all layers but every sixth."""
    return _windows(config, config.get("sliding_window", 4096), 6)


def _every_fourth(config: Config) -> Mapping[str, Any]:
    """A window in all layers but every fourth."""
    return _windows(config, config.get("sliding_window"), 4)


def _windows(config: Config, window: Any, usual: int) -> Mapping[str, Any]:
    if window is None:
        return {}
    every = config.get("sliding_window_pattern", config.get("_sliding_window_pattern"))
    if isinstance(every, str):  # EXAONE writes "LLLG": local and global layers
        every = len(every) if every == "L" * (len(every) - 1) + "G" else 0
    every = usual if every is None else every
    if type(every) is not int or every < 1:
        raise Refused("sliding_window_pattern is not supported; only every so many layers see all tokens")
    return {"window": window, "full_attention_every": every}


def _llama4(config: Config) -> Mapping[str, Any]:
    """A shared expert and one of many; attention within chunks is one within a window."""
    step, chunk = config.get("interleave_moe_layer_step", 1), config.get("attention_chunk_size")
    steps = {} if step in (1, None) else {"every": mixtures.size(config, "interleave_moe_layer_step")}
    experts = mixtures.llama4(config) | steps
    windows = {} if chunk is None else {"window": chunk, "full_attention_every": 4}
    return {"experts": experts, **windows}


def _starcoder2(config: Config) -> Mapping[str, Any]:
    """Biases in all projections, or none."""
    return {"bias": config.get("use_bias", True), **sliding_window(config)}


def _stablelm(config: Config) -> Mapping[str, Any]:
    """Attention and MLP behind one norm in the larger ones."""
    return {"parallel": "one_norm"} if config.get("use_parallel_residual") else {}


def _chatglm(config: Config) -> Mapping[str, Any]:
    """Grouped queries (``multi_query_group_num``); half of every head is rotated."""
    grouped = config.get("multi_query_attention")
    sizes = {"kv_heads": config.get("multi_query_group_num", 1)} if grouped else {}
    return {**sizes, "qkv_bias": bool(config.get("add_qkv_bias")), "rotary_fraction": 0.5}


def _bigcode(config: Config) -> Mapping[str, Any]:
    """One head of keys and values."""
    return {"kv_heads": 1} if config.get("multi_query", True) else {}


_CHATGLM: Mapping[str, Keys] = {
    "layers": "num_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "head_dim": "kv_channels",
    "ffn": "ffn_hidden_size",
    "vocab": "padded_vocab_size",
    "dropout": "hidden_dropout",
    "attention_dropout": "attention_dropout",
    "tied": "tie_word_embeddings",
}
_ERNIE: Mapping[str, tuple[Any, ...]] = {"use_bias": (False, None), "use_rmsnorm": (True, None)}
_STABLE = {
    **LLAMA,
    **PART_ROTATED,
    "qkv_bias": "use_qkv_bias",
    "qk_norm": "qk_layernorm",
    "dropout": "hidden_dropout",
}
_GLM = {**LLAMA, **PART_ROTATED, "qkv_bias": "attention_bias"}

_FURTHER_TOKENS = (
    "layernorm_full_attention_beta",
    "mlp_intermediate_size",
    "mtp_transformer_layers",
    "num_mtp_modules",
    "qk_norm_type",
    "shared_moe_mode",
    "use_mtp",
)
"""MiniMax M2's keys of layers that predict further tokens, see its remark, and of parts that it has not."""

FURTHER: Mapping[str, ModelType] = {
    "gemma": ModelType("llama", LLAMA, _OWN_GEMMA, _GEMMA),
    "gemma2": ModelType(
        "llama",
        LLAMA,
        {
            **_OWN_GEMMA,
            "post_norms": True,
            "layers": 26,
            "hidden": 2304,
            "heads": 8,
            "kv_heads": 4,
            "ffn": 9216,
            "vocab": 256000,
        },
        _GEMMA,
        _gemma2,
        remark="the cap on attention scores, a tanh inside its kernel, is left out",
        read_besides=("attn_logit_softcapping", "final_logit_softcapping"),
    ),
    "gemma3_text": ModelType(
        "llama",
        LLAMA,
        {
            **_OWN_GEMMA,
            "post_norms": True,
            "qk_norm": True,
            "rope_theta": 1e6,
            "layers": 26,
            "hidden": 2304,
            "heads": 8,
            "kv_heads": 4,
            "ffn": 9216,
            "vocab": 262208,
        },
        _GEMMA,
        _gemma3,
    ),
    "olmo2": ModelType(
        "llama",
        LLAMA,
        {"qk_norm": True, "tied": False},
        ROTARY,
        own_biases=True,
        left_out={"clip_qkv": CLIPPED},
        remark=f"{_BEHIND}; {_ALL_HEADS}",
    ),
    "olmo3": ModelType(
        "llama",
        LLAMA,
        {"qk_norm": True, "tied": False},
        {**ROTARY, **NO_BIAS},
        _every_fourth,
        remark=f"{_BEHIND}; {_ALL_HEADS}",
    ),
    "olmoe": ModelType(
        "llama",
        MIXED,
        {"qk_norm": True, "tied": False},
        ROTARY,
        mixtures.olmoe,
        own_biases=True,
        left_out={"clip_qkv": CLIPPED},
        remark=_ALL_HEADS,
    ),
    "smollm3": ModelType(
        "llama",
        LLAMA,
        {"tied": True},
        {**ROTARY, **NO_BIAS, "use_sliding_window": (False, None)},
        remark=_NO_ROTATION,
        read_besides=("max_window_layers", "no_rope_layers"),
    ),
    "exaone4": ModelType(
        "llama",
        LLAMA,
        {"qk_norm": True, "tied": False},
        {**ROTARY, **NO_BIAS},
        _every_fourth,
        remark=f"{_BEHIND}; {_NO_ROTATION}",
    ),
    "llama4_text": ModelType(
        "llama",
        {**MIXED, "ffn": "intermediate_size_mlp"},
        {"tied": False, "head_dim": 128},
        {**ROTARY, **NO_BIAS},
        _llama4,
        remark=_NO_ROTATION,
        left_out={
            "use_qk_norm": ((False, None), "queries and keys are not normalised here"),
            "attention_chunk_size": (
                (None,),
                "chunks of attention are a sliding window here: the same for sequences within one chunk, "
                "up to twice their attention beyond",
            ),
        },
        read_besides=("attention_chunk_size", "no_rope_layers"),
    ),
    "qwen2_moe": ModelType(
        "llama",
        MIXED,
        {"qkv_bias": True},
        {
            **ROTARY,
            "mlp_only_layers": ([], None),
        },
        mixtures.qwen2_moe,
        remark="the gate of the shared experts, a number for each token, is left out",
    ),
    "minimax_m2": ModelType(
        "llama",
        MIXED,
        {"qk_norm": True, "tied": False},
        {**SILU, **NO_BIAS, "use_qk_norm": (True, None), "scoring_func": ("sigmoid", None)},
        mixtures.minimax_m2,
        read_besides=_FURTHER_TOKENS,
        remark=f"{_ALL_HEADS}; layers that predict further tokens are left out (model.mtp_layers adds them)",
    ),
    "dots1": ModelType("llama", LLAMA, {"qk_norm": True}, {**ROTARY, **NO_BIAS}, mixtures.dots1),
    "ernie4_5": ModelType("llama", LLAMA, {"tied": True}, {**ROTARY, **_ERNIE}),
    "ernie4_5_moe": ModelType(
        "llama",
        LLAMA,
        {"tied": True},
        {**ROTARY, **_ERNIE},
        mixtures.ernie4_5_moe,
        read_besides=("moe_capacity", "moe_gate", "moe_use_aux_free"),
    ),
    "granitemoe": ModelType(
        "llama",
        MIXED,
        {"tied": True},
        {**ROTARY, **NO_BIAS},
        mixtures.granitemoe,
        remark=MULTIPLIERS,
        read_besides=MULTIPLIED,
    ),
    "glm": ModelType("llama", _GLM, {"qkv_bias": True, "rotary_fraction": 0.5}, SILU),
    "glm4": ModelType("llama", _GLM, {"qkv_bias": True, "rotary_fraction": 0.5, "post_norms": True}, SILU),
    "chatglm": ModelType(
        "llama",
        _CHATGLM,
        {"tied": False},
        {
            "add_bias_linear": (False, None),
            "apply_residual_connection_post_layernorm": (False, None),
            "rmsnorm": (True, None),
            "post_layer_norm": (True, None),
            "original_rope": (True, None),
        },
        _chatglm,
    ),
    "hunyuan_v1_dense": ModelType(
        "llama",
        {**LLAMA, "head_dim": ("head_dim", "attention_head_dim"), "qk_norm": ("use_qk_norm", "qk_norm")},
        {"qk_norm": True},
        {**ROTARY, **NO_BIAS, "use_cla": (False, None), "norm_type": ("rms", None)},
        read_besides=("attention_head_dim", "qk_norm"),
    ),
    "arcee": ModelType(
        "llama",
        LLAMA,
        {"activation": "squared_relu", "tied": False},
        {**NO_BIAS, "hidden_act": ("relu2", None)},
    ),
    "nemotron": ModelType(
        "llama",
        {**LLAMA, **PART_ROTATED},
        {"activation": "squared_relu", "norm": "layer", "rotary_fraction": 0.5, "tied": False},
        {**NO_BIAS, "hidden_act": ("relu2", None)},
    ),
    "stablelm": ModelType(
        "llama",
        _STABLE,
        {"norm": "layer", "rotary_fraction": 0.25, "tied": False},
        SILU,
        _stablelm,
        read_besides=("use_parallel_residual",),
    ),
    "starcoder2": ModelType(
        "llama",
        {**LLAMA, "dropout": "residual_dropout", "embedding_dropout": "embedding_dropout"},
        {"norm": "layer", "activation": "gelu", "tied": True},
        {
            "hidden_act": _GELU,
            "norm_type": ("layer_norm", None),
            "mlp_type": ("default", None),
            "partial_rotary_factor": (1.0, 1, None),
        },
        _starcoder2,
    ),
    "gpt_bigcode": ModelType(
        "gpt",
        GPT2,
        {"dropout": 0.1, "embedding_dropout": 0.1, "attention_dropout": 0.1},
        {
            "activation_function": ("gelu_pytorch_tanh", "gelu_new", "gelu", None),
            "scale_attn_weights": (True, None),
            "add_cross_attention": (False, None),
        },
        _bigcode,
    ),
    "internlm2": ModelType("llama", LLAMA, {"tied": False}, {**ROTARY, "bias": (False, None)}),
    "internlm3": ModelType(
        "llama", LLAMA, {"tied": False}, {**ROTARY, "bias": (False, None), "qkv_bias": (False, None)}
    ),
    "ministral": ModelType("llama", LLAMA, {"tied": False}, {**ROTARY, **NO_BIAS}, sliding_window),
    "ministral3": ModelType("llama", LLAMA, {"tied": False}, {**ROTARY, **NO_BIAS}, sliding_window),
}
