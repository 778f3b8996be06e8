"""Models of the catalog as Hugging Face configs."""

from __future__ import annotations

import json

from simcluster.document import validate_data
from simcluster.model.spec.model_spec import ModelSpec
from tests.support.catalog_models import built


def config_of(name):
    """The catalog entry as the ``config.json`` of its repository would say it."""
    model = built(name)
    return next(write for kind, write in CONFIGS.items() if name.startswith(kind))(model)


def llama_config(model, kind="llama"):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": kind,
        "attention_bias": False,
        "hidden_act": "silu",
        "hidden_size": model.hidden,
        "intermediate_size": model.ffn,
        "max_position_embeddings": 8192,
        "mlp_bias": False,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": model.rope_theta,
        "tie_word_embeddings": model.tied,
        "torch_dtype": "bfloat16",
        "vocab_size": model.vocab,
    }


def mistral_config(model):
    return llama_config(model, "mistral") | {"sliding_window": model.window}


def qwen2_config(model):
    config = llama_config(model, "qwen2") | {"use_sliding_window": False, "sliding_window": 32768}
    return {key: value for key, value in config.items() if key != "attention_bias"}


def qwen3_config(model):
    return llama_config(model, "qwen3") | {"use_sliding_window": False, "sliding_window": None}


def gpt2_config(model):
    return {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": model.attention_dropout,
        "embd_pdrop": model.embedding_dropout,
        "model_type": "gpt2",
        "n_embd": model.hidden,
        "n_head": model.heads,
        "n_inner": None,
        "n_layer": model.layers,
        "n_positions": model.max_positions,
        "resid_pdrop": model.dropout,
        "vocab_size": model.vocab,
    }


def opt_config(model):
    return {
        "model_type": "opt",
        "activation_function": "relu",
        "attention_dropout": model.attention_dropout,
        "do_layer_norm_before": True,
        "dropout": model.dropout,
        "ffn_dim": model.ffn,
        "hidden_size": model.hidden,
        "layerdrop": 0.0,
        "max_position_embeddings": model.max_positions,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "vocab_size": model.vocab,
        "word_embed_proj_dim": model.hidden,
    }


def bloom_config(model):
    return {
        "model_type": "bloom",
        "apply_residual_connection_post_layernorm": False,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "n_embed": model.hidden,
        "n_layer": model.layers,
        "num_attention_heads": model.heads,
        "vocab_size": model.vocab,
    }


def mpt_config(model):
    return {
        "model_type": "mpt",
        "attn_config": {"alibi": False, "attn_type": "multihead_attention", "attn_pdrop": 0, "qk_ln": False},
        "d_model": model.hidden,
        "emb_pdrop": 0,
        "expansion_ratio": 4,
        "learned_pos_emb": True,
        "max_seq_len": model.max_positions,
        "n_heads": model.heads,
        "n_layers": model.layers,
        "no_bias": False,
        "norm_type": "low_precision_layernorm",
        "resid_pdrop": 0,
        "vocab_size": model.vocab,
    }


def mixtral_config(model):
    sizes = {"num_local_experts": model.experts.count, "num_experts_per_tok": model.experts.top_k}
    sizes |= {"intermediate_size": model.experts.ffn, "router_jitter_noise": 0.0, "sliding_window": None}
    return llama_config(model, "mixtral") | sizes


def gpt_oss_config(model):
    kinds = ["sliding_attention", "full_attention"] * (model.layers // 2)
    sizes = {"num_local_experts": model.experts.count, "experts_per_token": model.experts.top_k}
    sizes |= {"intermediate_size": model.experts.ffn, "attention_bias": True, "swiglu_limit": 7.0}
    return llama_config(model, "gpt_oss") | sizes | {"sliding_window": model.window, "layer_types": kinds}


def qwen3_moe_config(model):
    experts = model.experts
    sizes = {"num_experts": experts.count, "num_experts_per_tok": experts.top_k, "mlp_only_layers": []}
    sizes |= {"moe_intermediate_size": experts.ffn, "norm_topk_prob": True, "decoder_sparse_step": 1}
    return qwen3_config(model) | sizes | {"model_type": "qwen3_moe", "intermediate_size": 6144}


def deepseek_config(model):
    experts, latent = model.experts, model.latent
    kind = "deepseek_v3" if experts.steered else "deepseek_v2"
    method = "noaux_tc" if experts.steered else "group_limited_greedy" if experts.groups > 1 else "greedy"
    return llama_config(model, kind) | {
        "num_key_value_heads": model.heads,
        "head_dim": None,
        "q_lora_rank": latent.q_rank or None,
        "kv_lora_rank": latent.kv_rank,
        "qk_nope_head_dim": latent.nope_dim,
        "qk_rope_head_dim": latent.rope_dim,
        "v_head_dim": latent.value_dim,
        "n_routed_experts": experts.count,
        "n_shared_experts": experts.shared,
        "num_experts_per_tok": experts.top_k,
        "moe_intermediate_size": experts.ffn,
        "first_k_dense_replace": experts.dense_layers,
        "moe_layer_freq": 1,
        "n_group": experts.groups,
        "topk_group": experts.kept_groups,
        "topk_method": method,
        "routed_scaling_factor": experts.scale,
        "norm_topk_prob": experts.normalised,
        "scoring_func": experts.score,
        "num_nextn_predict_layers": model.mtp_layers,
        "aux_loss_alpha": 0.001,
    }


def sparse_config(model):
    sparse = model.latent.sparse
    sizes = {"index_n_heads": sparse.heads, "index_head_dim": sparse.head_dim, "index_topk": sparse.tokens}
    return deepseek_config(model) | sizes | {"model_type": "deepseek_v32"}


def glm_config(model):
    return sparse_config(model) | {"model_type": "glm_moe_dsa"}


def kimi_config(model):
    return deepseek_config(model) | {"model_type": "kimi_k2"}


CONFIGS = {
    "gpt-oss": gpt_oss_config,
    "mixtral": mixtral_config,
    "qwen3-30b-a3b": qwen3_moe_config,
    "qwen3-235b-a22b": qwen3_moe_config,
    "deepseek-v3.2": sparse_config,
    "glm-5": glm_config,
    "deepseek": deepseek_config,
    "kimi": kimi_config,
    "llama": llama_config,
    "mistral": mistral_config,
    "qwen2.5": qwen2_config,
    "qwen3": qwen3_config,
    "gpt2": gpt2_config,
    "gpt3": gpt2_config,
    "opt": opt_config,
    "bloom": bloom_config,
    "mpt": mpt_config,
}


def load(tmp_path, config, **beside):
    text = config if isinstance(config, str) else json.dumps(config)
    (tmp_path / "config.json").write_text(text)
    return validate_data({"hf": "config.json", **beside}, ModelSpec).build(tmp_path)
