"""Which dimensions of a model go together, and the errors for those that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.document import Refused

_ONLY_WITH = {
    "rotary_fraction": ("positions", "rotary"),
    "position_offset": ("positions", "learned"),
    "norm_bias": ("norm", "layer"),
    "latent": ("positions", "rotary"),
}

_NOT_WITH = {
    "experts": ("query_layer",),
    "mtp_layers": ("query_layer",),
    "parallel": ("post_norms",),
    "latent": (
        "bias",
        "qkv_bias",
        "out_bias",
        "qk_norm",
        "query_layer",
        "rotary_fraction",
        "kv_heads",
        "head_dim",
    ),
}
"""What the operators of a part have no form for."""


def refuse_clashes(known: Mapping[str, Any]) -> None:
    """Refused if a dimension is given that another choice leaves without effect."""
    if "max_positions" not in known:
        if known["positions"] == "learned":
            raise Refused("'max_positions' is missing: the rows of the learned position table")
        if known.get("query_layer"):
            raise Refused("'max_positions' is missing: the rows of the query layer's position table")
    layers_of_window = [name for name in ("window_every", "full_attention_every") if name in known]
    if layers_of_window and not known.get("window"):
        raise Refused(f"'{layers_of_window[0]}' needs a window", path=layers_of_window[0])
    if len(layers_of_window) > 1:
        why = "'full_attention_every' and 'window_every' both say which layers have the window"
        raise Refused(why, path="full_attention_every", hint="leave one of them out")
    if "mtp_loss_weight" in known and not known.get("mtp_layers"):
        raise Refused("'mtp_loss_weight' needs mtp_layers", path="mtp_loss_weight")
    for part, excluded in _NOT_WITH.items():
        clashing = [name for name in excluded if known.get(part) and known.get(name)]
        if clashing:
            raise Refused(f"'{clashing[0]}' does not go with {part}", path=clashing[0])
    if "latent" in known and known["latent"].sparse and known.get("window"):
        raise Refused(
            "'window' does not go with sparse attention, which selects tokens itself", path="window"
        )
    experts, layers = known.get("experts"), known["layers"]
    if experts and experts.dense_layers >= layers:
        dense = experts.dense_layers
        raise Refused(f"{dense} of {layers} layers are dense: none has experts", path="experts.dense_layers")
    if experts and not any(map(experts.in_layer, range(layers))):
        raise Refused(f"none of {layers} layers has experts", path="experts.every")
    for name, (choice, wanted) in _ONLY_WITH.items():
        if name in known and known[choice] != wanted:
            raise Refused(f"'{name}' needs {choice}: {wanted}, not {known[choice]}", path=name)


def refuse_missing(names: Sequence[str], hint: str = "or name a model: {use: llama3-70b}") -> None:
    """Refused, with all of them listed, if any of these dimensions is missing; ``hint`` says what to do."""
    if names:
        listed = ", ".join(f"'{name}'" for name in names)
        verb = "is" if len(names) == 1 else "are"
        raise Refused(f"{listed} {verb} missing", hint=hint)


def usual_head_dim(known: Mapping[str, Any]) -> int:
    """Elements of a head: as given, or hidden size by heads; Refused if that is no whole number."""
    hidden, heads = known["hidden"], known["heads"]
    if "latent" in known:
        return int(known["latent"].head_dim)
    if "head_dim" in known:
        return int(known["head_dim"])
    if hidden % heads:
        raise Refused(f"hidden {hidden} / heads {heads} = {hidden / heads:g}: give head_dim", path="heads")
    return int(hidden // heads)
