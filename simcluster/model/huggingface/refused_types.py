"""Model types with layers that no dimension says: what each has, for the error that refuses it."""

from __future__ import annotations

from collections.abc import Mapping

_LINEAR = "linear attention in most layers"
_STATE = "state-space layers (Mamba)"
_PARALLEL = "attention and MLP side by side on one norm (parallel residual)"
_PICTURES = "an encoder of pictures or sound beside the decoder"
_TEXT = "for the decoder alone give its text_config, with its model_type, as a config.json"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), f"{_LINEAR} (Gated DeltaNet)"),
    "kimi_linear": f"{_LINEAR} (Kimi Delta Attention)",
    **dict.fromkeys(
        ("minimax", "minimax_text_01", "minimax_m1", "bailing_moe_linear"), f"{_LINEAR} (lightning)"
    ),
    **dict.fromkeys(
        ("mamba", "mamba2", "falcon_mamba", "falcon_h1", "jamba", "bamba", "zamba", "zamba2", "nemotron_h"),
        _STATE,
    ),
    "granitemoehybrid": _STATE,
    **dict.fromkeys(("rwkv", "rwkv5", "rwkv6", "rwkv7", "recurrent_gemma", "xlstm"), "recurrent layers"),
    **dict.fromkeys(("lfm2", "lfm2_moe"), "short convolutions in place of attention in most layers"),
    **dict.fromkeys(("gpt_neox", "gptj", "codegen", "falcon", "phi", "cohere", "cohere2"), _PARALLEL),
    "longcat_flash": "experts that compute nothing, and two attentions in a layer",
    "gpt_neo": "local attention of its own kind in every other layer",
    "gemma3n_text": "embeddings for every layer, and layers that share keys and values",
}
"""Model types by what they have."""

WITH_PICTURES = frozenset(
    (
        "aya_vision",
        "deepseek_vl_v2",
        "florence2",
        "fuyu",
        "gemma3",
        "gemma3n",
        "glm4v",
        "glm4v_moe",
        "idefics2",
        "idefics3",
        "internvl",
        "internvl_chat",
        "kimi_vl",
        "kimi_k25",
        "llama4",
        "llava",
        "llava_next",
        "llava_onevision",
        "minicpmo",
        "minicpmv",
        "mistral3",
        "mllama",
        "paligemma",
        "phi3_v",
        "phi4_multimodal",
        "pixtral",
        "qwen2_5_omni",
        "qwen2_5_vl",
        "qwen2_audio",
        "qwen2_vl",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_omni_moe",
        "qwen3_vl",
        "qwen3_vl_moe",
        "smolvlm",
        "voxtral",
    )
)
"""Model types with an encoder of something else than text, whose config has a part for each."""


def refusal(kind: str) -> tuple[str, str] | None:
    """Why a model type is refused, and what to do; None for one of which nothing is known."""
    if kind in WITH_PICTURES:
        return f"it has {_PICTURES}", _TEXT
    return (f"it has {REFUSED[kind]}, which no dimension says", "") if kind in REFUSED else None
