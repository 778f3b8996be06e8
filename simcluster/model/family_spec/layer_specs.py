"""The parts of the ``model:`` section that are sections of their own: experts and latent attention.

What must be given may come from a config file, so it is asked for only when all is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal

from simcluster.document import NonNegativeInt, PositiveFloat, PositiveInt, Refused, Section
from simcluster.model.layers import Experts, LatentAttention, LightningIndexer


class ExpertsSpec(Section):
    """Mixture of experts (MoE) instead of the MLP."""

    count: PositiveInt | None = None
    """Number of routed experts per layer."""

    top_k: PositiveInt | None = None
    """Number of experts that the router selects for each token."""

    ffn: PositiveInt | None = None
    """Inner size of each expert."""

    shared: NonNegativeInt = 0
    """Number of shared experts of the same size, which all tokens use in addition."""

    dense_layers: NonNegativeInt = 0
    """Number of layers, from the first on, that have a dense MLP of inner size model.ffn instead."""

    every: PositiveInt = 1
    """Only every N-th of all layers has experts (Llama 4 Maverick: 2); the others, like ``dense_layers``,
    have a dense MLP."""

    score: Literal["softmax", "sigmoid"] = "softmax"
    """How the router's logits become scores: softmax over all experts, or sigmoid of each."""

    normalised: bool = True
    """Whether the weights of the selected experts are divided by their sum (with softmax equivalent to a
    softmax over the selected ones)."""

    scale: PositiveFloat = 1.0
    """Factor on these weights after that."""

    groups: PositiveInt = 1
    """Number of groups of experts; the router first selects some of them (DeepSeek's device- or node-limited
    routing)."""

    kept_groups: PositiveInt = 1
    """Number of groups from which a token's experts are selected."""

    group_best: PositiveInt = 1
    """The score of a group is the sum of the scores of this many of its best experts."""

    steered: bool = False
    """Whether a bias per expert is added to the scores for selecting experts (DeepSeek-V3's
    auxiliary-loss-free load balancing). It stays constant here: frameworks adjust it by the load, not by a
    gradient."""

    capacity_factor: PositiveFloat | None = None
    """Capacity of each expert, as a multiple of its mean share of the tokens of every sequence; beyond it,
    the choices of later tokens are dropped. If absent, none are dropped: training.routing says how many
    tokens each expert gets, and where values are computed, the router decides."""

    padded: bool = True
    """With a capacity factor: whether experts are padded to their capacity, so that empty slots are sent and
    computed too (GShard, Megatron's moe-pad-expert-input-to-capacity), or only filled ones are."""


class SparseSpec(Section):
    """Sparse attention (DSA, DeepSeek-V3.2): an indexer with small heads of its own selects the tokens that
    each query attends to. It is trained by a loss of its own on how the heads share their attention among
    these tokens (sparse stage); the printed loss does not contain it. To keep it as it is, freeze it:
    training.frozen: ["*.attention.indexer.*"].
    """

    heads: PositiveInt | None = None
    """Number of heads of the indexer."""

    head_dim: PositiveInt | None = None
    """Size of each of its heads; the first model.latent.rope_dim elements have rotary positions."""

    tokens: PositiveInt | None = None
    """Number of tokens that each query attends to, itself included; all before it where there are fewer."""


class LatentSpec(Section):
    """Multi-head latent attention (DeepSeek-V2); the model's kv_heads and head_dim are then not used."""

    kv_rank: PositiveInt | None = None
    """Size of the latent vector from which keys and values are computed."""

    nope_dim: PositiveInt | None = None
    """Size of the part of each query and key head without rotary position."""

    rope_dim: PositiveInt | None = None
    """Size of the part of each head with rotary position; all key heads share it."""

    value_dim: PositiveInt | None = None
    """Size of each value head."""

    q_rank: NonNegativeInt = 0
    """Size of the latent vector from which queries are computed; 0: they are computed from the hidden state.
    """

    sparse: SparseSpec | None = None
    """Sparse attention; if absent, queries attend to all tokens before them."""


def experts_of(given: Mapping[str, Any] | None, written: ExpertsSpec | None) -> Experts | None:
    """The mixture of experts that a config file gives, with what the section writes instead; None without
    both.

    Raises Refused, with paths of the model section, if it is impossible.
    """
    sizes = _merged("experts", Experts, given, written)
    if sizes is None:
        return None
    made = Experts(**sizes)
    _check(made)
    return made


def latent_of(given: Mapping[str, Any] | None, written: LatentSpec | None) -> LatentAttention | None:
    """The latent attention that a config file gives, with what the section writes instead; None without both.

    Raises Refused, with paths of the model section, if it is impossible.
    """
    sizes = _merged("latent", LatentAttention, given, written)
    if sizes is None:
        return None
    chosen = _merged(
        "latent.sparse", LightningIndexer, (given or {}).get("sparse"), written.sparse if written else None
    )
    made = LatentAttention(**{**sizes, "sparse": None if chosen is None else LightningIndexer(**chosen)})
    if made.rope_dim % 2:
        raise Refused(f"{made.rope_dim} elements do not turn in pairs", path="latent.rope_dim")
    if made.sparse is None:
        return made
    if not made.q_rank:
        raise Refused(
            "the indexer's queries come from the latent vector of queries",
            path="latent.sparse",
            hint="give latent.q_rank",
        )
    if made.sparse.head_dim < made.rope_dim:
        why = f"of {made.sparse.head_dim} elements {made.rope_dim} cannot turn"
        raise Refused(why, path="latent.sparse.head_dim", hint="at least latent.rope_dim")
    return made


def _merged(
    name: str,
    made: type[Experts | LatentAttention | LightningIndexer],
    given: Mapping[str, Any] | None,
    written: Section | None,
) -> dict[str, Any] | None:
    """What both say; Refused if something is missing."""
    if given is None and written is None:
        return None
    said = {} if written is None else {key: getattr(written, key) for key in written.model_fields_set}
    merged = {**(given or {}), **{key: value for key, value in said.items() if value is not None}}
    lacking = [field.name for field in fields(made) if field.default is MISSING and field.name not in merged]
    if lacking:
        listed = ", ".join(f"'{key}'" for key in lacking)
        raise Refused(f"{listed} {'is' if len(lacking) == 1 else 'are'} missing", path=name)
    return merged


def _check(made: Experts) -> None:
    """Refused if the router cannot choose so."""
    if made.capacity_factor is None and not made.padded:
        why = "without a capacity factor no place stays empty"
        raise Refused(why, path="experts.padded", hint="give experts.capacity_factor, or leave it out")
    if made.count % made.groups:
        message = f"{made.count} experts do not divide into {made.groups} groups"
        raise Refused(message, path="experts.groups")
    if made.kept_groups > made.groups:
        message = f"of {made.groups} groups {made.kept_groups} cannot be kept"
        raise Refused(message, path="experts.kept_groups")
    members = made.count // made.groups
    if made.group_best > members:
        raise Refused(f"a group has {members} experts, not {made.group_best}", path="experts.group_best")
    if made.groups == 1 and made.group_best > 1:
        raise Refused("one group is not compared with others", path="experts.group_best")
    if made.top_k > made.kept_groups * members:
        counted = f"{made.kept_groups} groups x {members} = {made.kept_groups * members} experts"
        raise Refused(f"top_k {made.top_k} of {counted}", path="experts.top_k")
