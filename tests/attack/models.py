"""Random small models: every family, its choices, mixtures, latent attention, a window, dropout."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Section = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """What the plan around a model asks of it: at least so many layers, heads that ``tensor`` ranks divide;
    ``careless``: choices that do not go together, too.
    """

    layers: int
    tensor: int = 1
    experts: int = 1
    careless: bool = False


def some(rng: random.Random, chance: float, **values: Any) -> Section:
    """The values with this chance, else nothing."""
    return values if rng.random() < chance else {}


def _sizes(rng: random.Random, wanted: Wanted) -> Section:
    heads = wanted.tensor * rng.choice([1, 2, 4])
    return {"hidden": heads * rng.choice([2, 4, 8]), "heads": heads, "vocab": rng.choice([32, 50, 61, 64])}


def _fewer_heads(rng: random.Random, heads: int) -> Section:
    """Key-value heads that query heads share, one for all of them too."""
    return {"kv_heads": rng.choice([each for each in (1, 2, 4, heads) if heads % each == 0])}


def decoder(rng: random.Random, wanted: Wanted) -> Section:
    """A decoder as Llama, GPT or PanGu-alpha are, with some of its choices made otherwise."""
    sizes = _sizes(rng, wanted)
    model = {
        "family": rng.choice(["llama", "gpt"]),
        "layers": wanted.layers + rng.choice([0, 0, 0, 1]),
        **sizes,
    }
    model |= some(rng, 0.8, ffn=rng.choice([24, 32, 40])) if model["family"] == "gpt" else {"ffn": 24}
    model |= some(rng, 0.5, **_fewer_heads(rng, sizes["heads"]))
    model |= some(rng, 0.3, tied=rng.random() < 0.5)
    model |= some(rng, 0.3, norm=rng.choice(["rms", "layer"]))
    model |= some(
        rng, 0.3, activation=rng.choice(["gelu", "relu", "squared_relu", "swiglu", "geglu"]), ffn=24
    )
    model |= some(rng, 0.3, positions=rng.choice(["rotary", "learned", "alibi", "none"]))
    model |= some(rng, 0.2, bias=rng.random() < 0.5)
    model |= some(rng, 0.2, qkv_bias=True)
    model |= some(rng, 0.2, qk_norm=True)
    model |= some(rng, 0.2, embedding_norm=True)
    model |= some(rng, 0.2, window=rng.choice([1, 3, 8]))
    model |= some(rng, 0.2, query_layer=True, positions="learned")
    model |= some(rng, 0.3, dropout=0.1, attention_dropout=rng.choice([0.0, 0.1]))
    model |= some(rng, 0.2, rotary_fraction=0.5, positions="rotary", head_dim=8)
    learned = model.get("positions", "learned" if model["family"] == "gpt" else "") == "learned"
    return model | ({"max_positions": 64} if learned else {})


def _without(model: Section, wanted: Wanted, *names: str, **instead: Any) -> Section:
    """The model without what does not go with its structure."""
    return model if wanted.careless else {key: model[key] for key in model if key not in names} | instead


def mixture(rng: random.Random, wanted: Wanted) -> Section:
    """A decoder with experts."""
    model = _without(decoder(rng, wanted), wanted, "bias", "query_layer", family="llama")
    model |= {"activation": "swiglu", "ffn": 24}
    count = max(wanted.experts, 2) * rng.choice([1, 2, 4])
    experts = {"count": count, "top_k": rng.choice([1, 1, 2]), "ffn": rng.choice([8, 12])}
    experts |= some(rng, 0.3, shared=rng.choice([1, 2]))
    experts |= some(rng, 0.3, dense_layers=1)
    experts |= some(rng, 0.3, score="sigmoid", normalised=rng.random() < 0.5, scale=2.5)
    experts |= some(rng, 0.2, groups=2, kept_groups=rng.choice([1, 2]))
    experts |= some(rng, 0.2, steered=True)
    if rng.random() < 0.4:
        experts |= {"capacity_factor": rng.choice([1.0, 1.25, 1.5, 2.0])} | some(rng, 0.5, padded=False)
    return model | {"experts": experts}


def latent(rng: random.Random, wanted: Wanted) -> Section:
    """A decoder with latent attention, with experts or without."""
    model = (mixture if rng.random() < 0.5 else decoder)(rng, wanted)
    others = (
        "kv_heads",
        "qk_norm",
        "head_dim",
        "rotary_fraction",
        "query_layer",
        "window",
        "qkv_bias",
        "bias",
    )
    model = _without(model, wanted, *others, family="llama")
    ranks = {"kv_rank": 8, "nope_dim": 4, "rope_dim": rng.choice([2, 4]), "value_dim": rng.choice([4, 6])}
    return model | {"positions": "rotary", "latent": {**ranks, "q_rank": rng.choice([0, 8])}}


def bert(rng: random.Random, wanted: Wanted) -> Section:
    """An encoder."""
    model = {"family": "bert", "layers": wanted.layers + rng.choice([0, 1]), "max_positions": 32}
    return (
        model | _sizes(rng, wanted) | some(rng, 0.4, dropout=0.1) | some(rng, 0.3, masked=0.25, token_types=3)
    )


def t5(rng: random.Random, wanted: Wanted) -> Section:
    """An encoder and a decoder; of stages one may hold layers of both."""
    encoder = rng.randint(1, max(1, wanted.layers))
    model = {"family": "t5", "encoder_layers": encoder, "decoder_layers": max(1, wanted.layers - encoder)}
    model |= {**_sizes(rng, wanted), "ffn": 24, "buckets": 8, "max_distance": 6}
    return model | some(rng, 0.4, dropout=0.1) | some(rng, 0.3, activation="geglu", tied=False)


def vit(rng: random.Random, wanted: Wanted) -> Section:
    """A vision transformer."""
    sizes = _sizes(rng, wanted) | {"image": rng.choice([8, 12]), "patch": 4, "classes": 6}
    sizes.pop("vocab")
    return (
        {"family": "vit", "layers": wanted.layers + rng.choice([0, 1])} | sizes | some(rng, 0.4, dropout=0.1)
    )


def resnet(rng: random.Random, wanted: Wanted) -> Section:
    """A residual network."""
    blocks = [rng.choice([1, 2]) for _ in range(rng.choice([1, 2]))]
    blocks[0] += max(0, wanted.layers - sum(blocks))
    model = {"family": "resnet", "blocks": blocks, "image": 16, "classes": 6, "width": rng.choice([4, 8])}
    model |= {"block": rng.choice(["basic", "bottleneck"])} | some(rng, 0.3, version="v1")
    return model | some(rng, 0.3, statistics="synchronised")


def wide_deep(rng: random.Random, wanted: Wanted) -> Section:
    """A recommender."""
    sizes = {"fields": rng.choice([3, 4]), "embedding": 8, "vocab": rng.choice([32, 64])}
    return {"family": "wide_deep", "mlp": rng.choice([[16], [16, 8]])} | sizes | some(rng, 0.3, tables="fp32")


FAMILIES: dict[str, Callable[[random.Random, Wanted], Section]] = {
    "decoder": decoder,
    "mixture": mixture,
    "latent": latent,
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "resnet": resnet,
    "wide_deep": wide_deep,
}
USUAL = ("decoder", "mixture", "latent", "bert", "t5")
"""Families that are drawn more often: more can be said of them."""


def sequence(family: str, model: Section, *, pads: bool) -> list[int]:
    """The lengths that sequences of a model may have; ``pads``: where nothing has to divide, too."""
    if family == "vit":
        return [(model["image"] // model["patch"]) ** 2 + 1]
    if family in ("resnet", "wide_deep"):
        return [1]
    return [8, 8, 16, 5] if pads else [8, 8, 16]
