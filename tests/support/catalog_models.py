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


def forward_flops_by_hand(model, seq_len) -> int:
    """FLOPs of the products of one sequence's forward pass, attention over the whole square.

    Two for each weight of the matrices that a token meets (the output layer is one, the embedding is not),
    and two products of scores.
    """
    h = model.hidden
    matrices = 3 if model.activation in ("swiglu", "geglu", "clamped_swiglu") else 2
    if latent := model.latent:
        query = latent.nope_dim + latent.rope_dim
        attention = (latent.q_rank or h) * model.heads * query + h * latent.q_rank
        attention += h * (latent.kv_rank + latent.rope_dim)
        attention += latent.kv_rank * model.heads * (latent.nope_dim + latent.value_dim)
        attention += model.heads * latent.value_dim * h
        scores = model.heads * (query + latent.value_dim)
    else:
        attention = 2 * h * (model.heads + model.kv_heads) * model.head_dim
        scores = 2 * model.heads * model.head_dim
    mlp, mixtures, mixture = matrices * h * model.ffn, 0, 0
    if experts := model.experts:
        mixtures = model.layers - experts.dense_layers
        mixture = (experts.top_k + experts.shared) * matrices * h * experts.ffn + h * experts.count
    head = model.vocab * h
    met = model.layers * attention + (model.layers - mixtures) * mlp + mixtures * mixture + head
    met += model.mtp_layers * (attention + mixture + 2 * h * h + head)
    return 2 * seq_len * met + 2 * seq_len**2 * scores * (model.layers + model.mtp_layers)
