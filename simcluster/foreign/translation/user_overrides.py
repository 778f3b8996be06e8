"""Values of ``--set`` for what a file leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.document import Document

_WORDS: Mapping[str, str] = {
    "tensor": "parallel.mesh.tensor",
    "pipeline": "parallel.mesh.pipeline",
    "context": "parallel.mesh.context",
    "expert": "parallel.mesh.expert",
    "data": "parallel.mesh.data",
    "query_groups": "model.kv_heads",
    "positions_limit": "model.max_positions",
    "padded_vocab": "model.vocab",
    "hidden_dropout": "model.dropout",
    "attention_dropout": "model.attention_dropout",
    "chunks": "parallel.schedule.chunks",
    "experts": "model.experts.count",
    "experts_chosen": "model.experts.top_k",
    "experts_ffn": "model.experts.ffn",
    "latent_kv_rank": "model.latent.kv_rank",
    "latent_q_rank": "model.latent.q_rank",
    "latent_nope_dim": "model.latent.nope_dim",
    "latent_rope_dim": "model.latent.rope_dim",
    "latent_value_dim": "model.latent.value_dim",
    "latent_sparse_heads": "model.latent.sparse.heads",
    "latent_sparse_head_dim": "model.latent.sparse.head_dim",
    "latent_sparse_tokens": "model.latent.sparse.tokens",
    "parameters": "training.precision.gradients",
}
"""Facts with a word of their own, and the key path of the scenario that says the same."""

_SECTIONS: Mapping[str, str] = {
    "recompute": "parallel.recompute",
    "layers_per_chunk": "parallel.schedule",
    "first_layers": "parallel.schedule.stages",
    "last_layers": "parallel.schedule.stages",
    "offset": "parallel.schedule.stages",
    "accumulation": "training.global_batch",
    "offload": "parallel.offload",
    "experts": "model.experts",
    "latent": "model.latent",
    "vocabulary": "model.vocab",
    "extra_vocab": "model.vocab",
}
"""Beginnings of the names of facts that are worked into a section, and its key path."""


def fact_path(name: str) -> str:
    """The key path of a scenario that says what the fact called ``name`` says; empty if there is none."""
    if "." in name or name == "framework":
        return name
    return _WORDS.get(name) or next((path for begin, path in _SECTIONS.items() if name.startswith(begin)), "")


def user_value_for(name: str, settings: Mapping[str, str]) -> tuple[str, Any] | None:
    """What ``--set`` gives in the place of a fact: (the option, the value or None where it gives a section).

    None if it gives nothing of the kind.
    """
    path = fact_path(name)
    for known, text in settings.items() if path else ():
        if known == path and path not in _SECTIONS.values():
            data = Document.parse("{}", "--set").with_value(path, text).data
            for key in path.split("."):
                data = data[key]
            return f"--set {known}={text}", data
        if f"{path}.".startswith(f"{known}.") or known.startswith(f"{path}."):
            return f"--set {known}={text}", None
    return None
