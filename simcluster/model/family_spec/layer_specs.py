"""The parts of the ``model:`` section that are sections of their own: experts and latent attention.

What must be given may come from a config file, so it is asked for only when all is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal

from simcluster.document import NonNegativeInt, PositiveFloat, PositiveInt, Refused, Section
from simcluster.model.layers import Experts, LatentAttention


class ExpertsSpec(Section):
    """A mixture of experts in place of the MLP."""

    count: PositiveInt | None = None
    """Experts of a layer, of which the router chooses."""

    top_k: PositiveInt | None = None
    """Experts that every token uses."""

    ffn: PositiveInt | None = None
    """Inner size of an expert."""

    shared: NonNegativeInt = 0
    """Experts of the same size that all tokens use besides."""

    dense_layers: NonNegativeInt = 0
    """So many layers, the first ones, have a plain MLP of inner size model.ffn."""

    score: Literal["softmax", "sigmoid"] = "softmax"
    """How the router's scores become weights: softmax over all experts, or sigmoid of each."""

    normalised: bool = True
    """Whether the weights of the chosen experts are divided by their sum (with softmax the same as a softmax
    over the chosen ones)."""

    scale: PositiveFloat = 1.0
    """By what they are multiplied then."""

    groups: PositiveInt = 1
    """Groups of experts, of which the router first chooses some (DeepSeek's device- or node-limited routing).
    """

    kept_groups: PositiveInt = 1
    """Groups that a token's experts are chosen from."""

    group_best: PositiveInt = 1
    """A group counts as the sum of so many of its best experts."""

    steered: bool = False
    """Whether a bias of every expert is added where the router compares them (DeepSeek-V3's balance without a
    loss). It stays as it is: frameworks move it by the load, which no gradient does."""

    capacity_factor: PositiveFloat | None = None
    """An expert has places for so many times its mean share of the tokens of every sequence; the choices of
    tokens that come later are dropped. Absent: none is, and how many come to whom is what training.routing
    says; in values what the router does."""

    padded: bool = True
    """With a capacity factor: places that stay empty are sent and computed all the same (GShard, Megatron's
    moe-pad-expert-input-to-capacity); false: only what sits in them."""


class LatentSpec(Section):
    """Multi-head latent attention (DeepSeek-V2); kv_heads and head_dim of the model are then not used."""

    kv_rank: PositiveInt | None = None
    """Elements of the vector that keys and values of a token are made from."""

    nope_dim: PositiveInt | None = None
    """Elements of a head of queries and keys without a position."""

    rope_dim: PositiveInt | None = None
    """Elements of a head that are rotated to its position; all heads of keys share them."""

    value_dim: PositiveInt | None = None
    """Elements of a head of values."""

    q_rank: NonNegativeInt = 0
    """Elements of the vector that queries are made from; 0: from the hidden state."""


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
    made = LatentAttention(**sizes)
    if made.rope_dim % 2:
        raise Refused(f"{made.rope_dim} elements do not turn in pairs", path="latent.rope_dim")
    return made


def _merged(
    name: str, made: type[Experts | LatentAttention], given: Mapping[str, Any] | None, written: Section | None
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
