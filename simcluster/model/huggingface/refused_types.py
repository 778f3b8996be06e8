"""Model types with layers that the model section has no dimension for: what each has, for its error."""

from __future__ import annotations

from collections.abc import Mapping

_LINEAR = "linear attention in most layers"
_STATE = "state-space layers (Mamba)"
_IMAGES = "an image or audio encoder beside the decoder"
_CONTRASTIVE = "an image encoder and a text encoder, trained by contrast (CLIP)"
_ENCODER_DECODER = "an encoder-decoder's layers with biases and learned positions, unlike T5's"
_AUDIO = "convolutions over audio before its encoder"
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
    "longcat_flash": "zero-computation experts, and two attention blocks in a layer",
    "arctic": "a dense MLP beside the experts of every layer",
    "phi3small": "block-sparse attention in every other layer",
    "nemotron-nas": "layers of different sizes (block_configs)",
    "gemma3n_text": "per-layer embeddings, and layers that share keys and values",
    "gemma3n": "per-layer embeddings, and layers that share keys and values",
    "mllama": "cross attention to images (cross_attention_layers)",
    **dict.fromkeys(("bart", "mbart", "pegasus", "marian", "m2m_100", "blenderbot", "led"), _ENCODER_DECODER),
    "umt5": "relative positions in every layer",
    **dict.fromkeys(("whisper", "wav2vec2", "hubert", "wavlm", "seamless_m4t"), _AUDIO),
    **dict.fromkeys(
        ("deberta", "deberta-v2"), "disentangled attention (to tokens and to relative positions)"
    ),
    "albert": _SHARED,
    "modernbert": "rotary positions and windows in an encoder that reads in both directions",
    "xlnet": "two-stream attention over permuted tokens",
    "longformer": "sliding windows beside tokens with global attention",
    "big_bird": "block-sparse attention",
    "beit": "relative positions within images",
    **dict.fromkeys(
        ("swin", "swinv2"), "attention within shifting windows of an image, and stages of several sizes"
    ),
    **dict.fromkeys(("convnext", "convnextv2", "efficientnet", "mobilenet_v2"), "grouped convolutions"),
    **dict.fromkeys(("clip", "siglip", "siglip2", "blip", "blip-2", "align", "chinese_clip"), _CONTRASTIVE),
    **dict.fromkeys(("kimi_k25", "florence2", "instructblip"), _IMAGES),
}
"""What layers a model type has, by model type."""


def refusal(kind: str) -> tuple[str, str] | None:
    """Why a model type is refused, and a hint; None for a model type that is not listed here."""
    return (
        (f"it has {REFUSED[kind]}, for which the model section has no dimension", "")
        if kind in REFUSED
        else None
    )
