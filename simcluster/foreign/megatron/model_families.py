"""BERT, T5 and vision transformers in Megatron's arguments, where the program says that it is one of them."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.assembly import settle
from simcluster.foreign.translation import Fact, Facts, Meaning, effectless, lost, states

FAMILY_MEANINGS: Mapping[str, Meaning] = {
    "encoder_num_layers": states("encoder_layers"),
    "decoder_num_layers": states("decoder_layers"),
    "encoder_seq_length": states("encoder_seq_len"),
    "decoder_seq_length": states("decoder_seq_len"),
    "relative_attention_num_buckets": states("buckets"),
    "relative_attention_max_distance": states("max_distance"),
    "vocab_extra_ids": states("extra_rows"),
    "mask_prob": effectless,
    "short_seq_prob": effectless,
    "bert_no_binary_head": lost("the pooler and the head for pairs of sentences are there, too"),
    "img_h": states("image"),
    "img_w": states("image_width"),
    "patch_dim": states("patch"),
    "num_channels": states("channels"),
    "num_classes": states("classes"),
    "encoder_tensor_model_parallel_size": lost("encoder and decoder are split alike", unless=(0, "0", None)),
    "encoder_pipeline_model_parallel_size": lost(
        "stages share the layers of encoder and decoder, in this order", unless=(0, "0", None)
    ),
    "drop_path_rate": lost("no layer is left out", unless=(0.0, "0", "0.0")),
    "mask_factor": effectless,
}
"""By name, without dashes."""


def structure(facts: Facts) -> None:
    """States what the family of the program needs, and takes away what it has no key for."""
    family = facts.get("model.family")
    if family == "bert":
        facts.default("model.masked", 1.0, "Megatron's head gives logits for every position")
        _tokens(facts)
    elif family == "t5":
        _encoder_decoder(facts)
    elif family == "vit":
        _pictures(facts)
    else:
        _tokens(facts)
    settle(facts)
    for name in _OF_FAMILIES:
        if name in facts.known:
            facts.effectless(facts.drop(name), "this model has none")


_OF_FAMILIES = (
    "encoder_layers",
    "decoder_layers",
    "decoder_seq_len",
    "buckets",
    "max_distance",
    "extra_rows",
    "image",
    "image_width",
    "patch",
    "channels",
    "classes",
)


def _tokens(facts: Facts) -> None:
    """``--encoder-seq-length`` is another name of the sequence length."""
    if "encoder_seq_len" in facts.known:
        facts.say("training.seq_len", facts.get("encoder_seq_len"), facts.drop("encoder_seq_len"))


def _encoder_decoder(facts: Facts) -> None:
    """Both sides have the layers of ``--num-layers`` unless they are told apart."""
    _tokens(facts)
    for side in ("encoder_layers", "decoder_layers"):
        if side in facts.known:
            facts.say(f"model.{side}", facts.get(side), facts.drop(side))
        elif "model.layers" in facts.known:
            facts.say(f"model.{side}", facts.get("model.layers"), facts.flag("model.layers"))
    if "model.decoder_layers" not in facts.known and "model.encoder_layers" in facts.known:
        text = "Megatron's default: as many as the encoder"
        facts.default("model.decoder_layers", facts.get("model.encoder_layers"), text)
    facts.known.pop("model.layers", None)
    for name in ("buckets", "max_distance", "decoder_seq_len"):
        if name in facts.known:
            facts.say(f"model.{name}", facts.get(name), facts.drop(name))
    if facts.get("model.vocab") and "padded_vocab" not in facts.known and "extra_rows" in facts.known:
        rows, more = facts.get("model.vocab"), facts.get("extra_rows")
        facts.remark(f"vocabulary: {rows:,} + {facts.flag('extra_rows')} = {rows + more:,}")
        facts.known["model.vocab"] = Fact(rows + more, facts.flag("model.vocab"))
        facts.absorb(facts.drop("extra_rows"))


def _pictures(facts: Facts) -> None:
    """A vision transformer's sequence follows from its pictures."""
    if facts.get("image_width", facts.get("image")) != facts.get("image"):
        facts.unsupported(facts.flag("image_width"), "pictures are squares of --img-h")
    for name in ("image", "patch", "channels", "classes"):
        if name in facts.known:
            facts.say(f"model.{name}", facts.get(name), facts.drop(name))
    image, patch = facts.get("model.image"), facts.get("model.patch")
    if image and patch:
        tokens = (image // patch) ** 2 + 1
        if facts.get("training.seq_len") not in (None, tokens):
            facts.effectless(facts.drop("training.seq_len"), f"pictures have {tokens} tokens")
        facts.default("training.seq_len", tokens, f"({image} / {patch})^2 patches + 1")
    facts.known.pop("vocabulary_multiple", None)
