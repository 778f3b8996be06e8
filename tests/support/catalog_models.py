"""Models of the catalog, built, and their parameters by the closed form."""

from __future__ import annotations

from simcluster.document import validate_data
from simcluster.model.spec.model_spec import ModelSpec

ENTRIES = sorted(ModelSpec.entries())


def built(name, **changes):
    return validate_data({"use": name, **changes}, ModelSpec).build(None)


def counted(model) -> int:
    """The closed form: attention, MLP and norms of every layer, tables and the last norm."""
    h, kv, query = model.hidden, model.kv_heads * model.head_dim, model.heads * model.head_dim
    gated = model.activation in ("swiglu", "geglu", "clamped_swiglu")
    attention = 2 * h * query + 2 * h * kv
    mlp = (3 if gated else 2) * h * model.ffn
    mlp += (2 if gated else 1) * model.ffn + h if model.bias else 0
    per_norm = 2 if model.norm == "layer" and model.norm_bias else 1
    norms = model.layers * (2 * h + (2 * model.head_dim if model.qk_norm else 0))
    norms += h + (h if model.embedding_norm else 0)
    biases = query + 2 * kv if model.bias or model.qkv_bias else 0
    biases += h if model.bias else 0
    tables = model.vocab * h * (1 if model.tied else 2)
    tables += (model.max_positions + model.position_offset) * h if model.positions == "learned" else 0
    tables += model.max_positions * h if model.query_layer else 0
    dense = model.layers
    if model.latent:
        latent = model.latent
        short = latent.q_rank or h
        attention = short * model.heads * latent.head_dim + (h * short + short if latent.q_rank else 0)
        attention += h * (latent.kv_rank + latent.rope_dim) + latent.kv_rank
        attention += latent.kv_rank * model.heads * (latent.nope_dim + latent.value_dim)
        attention += model.heads * latent.value_dim * h
        if sparse := latent.sparse:
            attention += sparse.head_dim * (latent.q_rank * sparse.heads + h + 2) + h * sparse.heads
    mixtures = 0
    if model.experts:
        experts = model.experts
        dense = experts.dense_layers
        expert = 3 * h * experts.ffn + (2 * experts.ffn + h if model.bias else 0)
        mixture = (experts.count + experts.shared) * expert + h * experts.count
        mixture += experts.count if model.bias else 0
        each = mixture + (experts.count if experts.steered else 0)
        mixtures = (model.layers - dense) * each
        # A layer that predicts a further token: projection and three norms besides.
        mixtures += model.mtp_layers * (each + attention + 2 * h * h + 5 * h)
    return model.layers * (attention + biases) + dense * mlp + mixtures + per_norm * norms + tables
