"""Model types with layers that no dimension says: what each has, for the error that refuses it."""

from __future__ import annotations

from collections.abc import Mapping

_LINEAR = "linear attention in most layers"
_STATE = "state-space layers (Mamba)"
_PICTURES = "an encoder of pictures or sound beside the decoder"
_BOTH = "an encoder of pictures and one of text, trained against each other"
_READERS = "an encoder whose output the decoder reads, with biases and learned positions, which T5 has not"
_SOUND = "convolutions over sound before its encoder"
_SHARED = "layers that share their weights"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"),
        f"{_LINEAR} (Gated DeltaNet)",
    ),
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
    "longcat_flash": "experts that compute nothing, and two attentions in a layer",
    "arctic": "a dense MLP beside the experts of every layer",
    "phi3small": "block-sparse attention in every other layer",
    "nemotron-nas": "another size in every layer (block_configs)",
    "gemma3n_text": "embeddings for every layer, and layers that share keys and values",
    "gemma3n": "embeddings for every layer, and layers that share keys and values",
    "mllama": "layers that attend to pictures (cross_attention_layers)",
    **dict.fromkeys(("bart", "mbart", "pegasus", "marian", "m2m_100", "blenderbot", "led"), _READERS),
    "umt5": "relative positions in every layer",
    **dict.fromkeys(("whisper", "wav2vec2", "hubert", "wavlm", "seamless_m4t"), _SOUND),
    **dict.fromkeys(
        ("deberta", "deberta-v2"), "attention to relative positions beside tokens (disentangled)"
    ),
    "albert": _SHARED,
    "modernbert": "rotary positions and windows in an encoder that reads in both directions",
    "xlnet": "two streams of attention",
    "longformer": "windows with some tokens that see all",
    "big_bird": "block-sparse attention",
    "beit": "relative positions within pictures",
    **dict.fromkeys(
        ("swin", "swinv2"), "attention within shifting windows of a picture, and stages of sizes"
    ),
    **dict.fromkeys(("convnext", "convnextv2", "efficientnet", "mobilenet_v2"), "convolutions in groups"),
    **dict.fromkeys(("clip", "siglip", "siglip2", "blip", "blip-2", "align", "chinese_clip"), _BOTH),
    **dict.fromkeys(("kimi_k25", "florence2", "instructblip"), _PICTURES),
}
"""Model types by what they have."""


def refusal(kind: str) -> tuple[str, str] | None:
    """Why a model type is refused, and what to do; None for one of which nothing is known."""
    return (f"it has {REFUSED[kind]}, which no dimension says", "") if kind in REFUSED else None
