"""BERT, T5 and vision transformers in Megatron's arguments, where the program says that it is one of them."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.assembly import adapt_to_family
from simcluster.foreign.translation import Facts, Meaning, has_no_effect, not_expressible, states_value

FAMILY_MEANINGS: Mapping[str, Meaning] = {
    "encoder_num_layers": states_value("encoder_layers"),
    "decoder_num_layers": states_value("decoder_layers"),
    "encoder_seq_length": states_value("encoder_seq_len"),
    "decoder_seq_length": states_value("decoder_seq_len"),
    "relative_attention_num_buckets": states_value("buckets"),
    "relative_attention_max_distance": states_value("max_distance"),
    "vocab_extra_ids": states_value("extra_rows"),
    "mask_prob": has_no_effect,
    "short_seq_prob": has_no_effect,
    "bert_no_binary_head": not_expressible("the pooler and the head for pairs of sentences are there, too"),
    "img_h": states_value("image"),
    "img_w": states_value("image_width"),
    "patch_dim": states_value("patch"),
    "num_channels": states_value("channels"),
    "num_classes": states_value("classes"),
    "encoder_tensor_model_parallel_size": not_expressible(
        "encoder and decoder are split alike", unless=(0, "0", None)
    ),
    "encoder_pipeline_model_parallel_size": not_expressible(
        "stages share the layers of encoder and decoder, in this order", unless=(0, "0", None)
    ),
    "drop_path_rate": not_expressible("no layer is left out", unless=(0.0, "0", "0.0")),
    "mask_factor": has_no_effect,
}
"""Arguments of these families by name, without dashes."""


def state_family_structure(facts: Facts) -> None:
    """States the sizes that the family of the program needs, and drops what it has no key for."""
    family = facts.get("model.family")
    if family == "bert":
        facts.default("model.masked", 1.0, "Megatron's head gives logits for every position")
    if family == "vit":
        _pictures(facts)
    else:
        facts.use("encoder_seq_len", "training.seq_len")
    if family == "t5":
        _encoder_decoder(facts)
    adapt_to_family(facts)
    facts.drop_effectless(_OF_FAMILIES, "this model has none")


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


def _encoder_decoder(facts: Facts) -> None:
    """Both sides have the layers of ``--num-layers`` unless they are told apart."""
    for side in ("encoder_layers", "decoder_layers"):
        if side not in facts.known and "model.layers" in facts.known:
            facts.say(f"model.{side}", facts.get("model.layers"), facts.flag("model.layers"))
        facts.use(side, f"model.{side}")
    if "model.decoder_layers" not in facts.known and "model.encoder_layers" in facts.known:
        text = "Megatron's default: as many as the encoder"
        facts.default("model.decoder_layers", facts.get("model.encoder_layers"), text)
    facts.known.pop("model.layers", None)
    for name in ("buckets", "max_distance", "decoder_seq_len"):
        facts.use(name, f"model.{name}")
    if facts.get("model.vocab") and "padded_vocab" not in facts.known and "extra_rows" in facts.known:
        rows, more = facts.get("model.vocab"), facts.get("extra_rows")
        facts.remark(f"vocabulary: {rows:,} + {facts.flag('extra_rows')} = {rows + more:,}")
        facts.replace("model.vocab", rows + more, facts.flag("model.vocab"))
        facts.absorb(facts.drop("extra_rows"))


def _pictures(facts: Facts) -> None:
    """A vision transformer's sequence follows from its pictures."""
    if facts.get("image_width", facts.get("image")) != facts.get("image"):
        facts.unsupported(facts.flag("image_width"), "pictures are squares of --img-h")
    for name in ("image", "patch", "channels", "classes"):
        facts.use(name, f"model.{name}")
    image, patch = facts.get("model.image"), facts.get("model.patch")
    if image and patch:
        tokens = (image // patch) ** 2 + 1
        if facts.get("training.seq_len") not in (None, tokens):
            facts.effectless(facts.drop("training.seq_len"), f"pictures have {tokens} tokens")
        facts.default("training.seq_len", tokens, f"({image} / {patch})^2 patches + 1")
    facts.known.pop("vocabulary_multiple", None)
