"""Configs of multimodal models (LLaVA, Qwen-VL, Gemma 3): the decoder's, without the image or audio encoder.

Such configs keep the decoder's keys in a section of their own (``text_config``), or beside the encoder's.
Which decoder a model type has is from memory of transformers and of the models' repositories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.model.huggingface.model_type import Config

_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config")

DECODERS: Mapping[str, str] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text", "minicpmv"), "qwen2"),
    **dict.fromkeys(("qwen2_5_omni_text", "minicpmo", "qwen2_audio_text"), "qwen2"),
    "qwen3_vl_text": "qwen3",
    **dict.fromkeys(("qwen3_vl_moe_text", "qwen3_omni_moe_text"), "qwen3_moe"),
    **dict.fromkeys(("phi3_v", "phi4mm", "phi4_multimodal"), "phi3"),
    "glm4v_text": "glm4",
    "glm4v_moe_text": "glm4_moe",
    "paligemma": "gemma",
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "internvl_chat": "internlm2",
    "kimi_vl": "deepseek_v3",
    "mistral3": "mistral",
}
"""The decoder's model type, by the model type of a multimodal config or of its section."""

ENCODERS: Mapping[str, str] = {
    **dict.fromkeys(("aya_vision", "fuyu", "idefics2", "idefics3", "smolvlm", "pixtral"), "image"),
    **dict.fromkeys(("deepseek_vl_v2", "gemma3", "glm4v", "glm4v_moe", "internvl", "internvl_chat"), "image"),
    **dict.fromkeys(("kimi_vl", "llama4", "llava", "llava_next", "llava_onevision", "minicpmv"), "image"),
    **dict.fromkeys(("mistral3", "paligemma", "phi3_v", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"), "image"),
    **dict.fromkeys(("qwen3_vl_moe", "llava_next_video", "video_llava", "vipllava"), "image"),
    **dict.fromkeys(("minicpmo", "phi4_multimodal", "phi4mm"), "image and audio"),
    **dict.fromkeys(("qwen2_5_omni", "qwen3_omni_moe"), "image and audio"),
    **dict.fromkeys(("qwen2_audio", "voxtral"), "audio"),
}
"""What the encoder reads, by the model type of a multimodal config."""

_LLAMA: Mapping[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "intermediate_size": 14336, "num_key_value_heads": 8},
}
"""Keys that a section leaves out where they have the default of its class (from memory of transformers)."""


def decoder_of(config: Config) -> Config | None:
    """The config of the decoder alone; None for a config that is not of a multimodal model."""
    kind = str(config.get("model_type"))
    if kind not in ENCODERS and kind not in DECODERS:
        return None
    part = next((config[key] for key in _SECTIONS if isinstance(config.get(key), Mapping)), None)
    if part is None:
        return {**config, "model_type": DECODERS.get(kind, kind)}
    while isinstance(part.get("text_config"), Mapping):
        part = part["text_config"]
    inner = str(part.get("model_type") or DECODERS.get(kind, kind))
    inner = DECODERS.get(inner, inner)
    tied = config.get("tie_word_embeddings")
    outer = {} if tied is None or "tie_word_embeddings" in part else {"tie_word_embeddings": tied}
    return {**_DEFAULTS.get(inner, {}), **outer, **part, "model_type": inner}


def encoder_remark(config: Config) -> str:
    """The remark that the encoder is not simulated; empty for a config without one."""
    kind = ENCODERS.get(str(config.get("model_type")))
    return f"the decoder alone is simulated: its {kind} encoder is left out" if kind else ""
