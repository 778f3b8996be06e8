"""Mixtures of experts and latent attention, in Megatron's words and in those of DeepSeek's ``config.json``.

Facts that are not named by a key path, besides those of ``scenario_assembly``:

    experts                            experts of a layer; what is said of them begins with ``experts_``
    expert, expert_tensor              ranks that share the experts, and that split each of them
    latent                             whether attention is latent; its sizes begin with ``latent_``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation.facts import Facts, Meaning
from simcluster.foreign.translation.flag_readers import (
    has_no_effect,
    not_expressible,
    read_integer,
    read_number,
    selects,
    states_value,
    switch,
)
from simcluster.foreign.translation.layer_pattern import read_layer_pattern
from simcluster.foreign.translation.unsupported_features import SPARSE_ATTENTION

_SCORES = {"softmax": "softmax", "sigmoid": "sigmoid"}
_BALANCED = "every expert gets equally many tokens"

_SHARED: Mapping[str, Meaning] = {
    "num_experts": states_value("experts"),
    "n_shared_experts": states_value("experts_shared_count"),
    "first_k_dense_replace": states_value("experts_dense_layers"),
    "moe_intermediate_size": states_value("experts_ffn"),
    "norm_topk_prob": switch("experts_normalised", True, False),
    "routed_scaling_factor": states_value("experts_scale", read_number),
    "n_group": states_value("experts_groups"),
    "topk_group": states_value("experts_kept_groups"),
    "multi_latent_attention": switch("latent"),
    "q_lora_rank": lambda facts, flag: _rank(facts, flag),
    "kv_lora_rank": states_value("latent_kv_rank"),
    "qk_nope_head_dim": states_value("latent_nope_dim"),
    "qk_rope_head_dim": states_value("latent_rope_dim"),
    "v_head_dim": states_value("latent_value_dim"),
    "index_n_heads": states_value("latent_sparse_heads"),
    "index_head_dim": states_value("latent_sparse_head_dim"),
    "index_topk": states_value("latent_sparse_tokens"),
}
"""Words of DeepSeek's ``config.json`` that forks of Megatron have taken over."""

MEGATRON: Mapping[str, Meaning] = {
    **_SHARED,
    "num_moe_experts": states_value("experts"),
    "expert_model_parallel_size": states_value("expert"),
    "expert_tensor_parallel_size": states_value("expert_tensor"),
    "moe_router_topk": states_value("experts_chosen"),
    "moe_ffn_hidden_size": states_value("experts_ffn"),
    "moe_shared_expert_intermediate_size": states_value("experts_shared"),
    "moe_layer_freq": lambda facts, flag: _frequency(facts, flag),
    "moe_router_score_function": selects("experts_score", _SCORES, "softmax is simulated"),
    "moe_router_pre_softmax": switch("experts_softmax_first"),
    "moe_router_topk_scaling_factor": states_value("experts_scale", read_number),
    "moe_router_num_groups": states_value("experts_groups"),
    "moe_router_group_topk": states_value("experts_kept_groups"),
    "multi_head_latent_attention": switch("latent"),
    "moe_layer_recompute": not_expressible("layers of experts keep what the other arguments say"),
    "moe_pad_expert_input_to_capacity": switch("experts_padded"),
    "moe_token_drop_policy": has_no_effect,
    "moe_router_enable_expert_bias": switch("experts_steered"),
    "moe_expert_capacity_factor": states_value("experts_capacity", read_number),
    "moe_router_load_balancing_type": lambda facts, flag: facts.effectless(flag, _BALANCED),
    "moe_router_force_load_balancing": lambda facts, flag: facts.effectless(flag, _BALANCED),
    "moe_token_dispatcher_type": lambda facts, flag: _dispatcher(facts, flag),
    "moe_use_upcycling": has_no_effect,
    "moe_extended_tp": not_expressible("experts are split as everything else is over tensor ranks"),
    "qk_head_dim": states_value("latent_nope_dim"),
    "qk_pos_emb_head_dim": states_value("latent_rope_dim"),
    "dsa_indexer_n_heads": states_value("latent_sparse_heads"),
    "dsa_indexer_head_dim": states_value("latent_sparse_head_dim"),
    "dsa_indexer_topk": states_value("latent_sparse_tokens"),
    "dsa_indexer_use_sparse_loss": lambda facts, flag: _sparse_loss(facts, flag),
    "dsa_indexer_loss_coeff": lambda facts, flag: _trains(facts, flag),
    "indexer_loss_coeff": lambda facts, flag: _trains(facts, flag),
    "enable_dsa_indexer": switch("latent_sparse", True, False),
    "use_dsa": switch("latent_sparse", True, False),
    "use_dsa_absorb": lambda facts, flag: _absorbs(facts, flag),
}
"""Megatron's arguments, without dashes."""

DEEPSEEK: Mapping[str, Meaning] = {
    **_SHARED,
    "n_routed_experts": states_value("experts"),
    "num_local_experts": states_value("experts"),
    "num_experts_per_tok": states_value("experts_chosen"),
    "scoring_func": selects("experts_score", _SCORES, "softmax is simulated"),
    "topk_method": lambda facts, flag: _method(facts, flag),
}
"""Keys of a model's ``config.json``, as MindFormers has them too."""


def state_mixture(facts: Facts, *, chosen: int, groups_best: bool, padded: bool = True) -> None:
    """States the sections of experts and of latent attention where the file has them.

    ``chosen``: experts of a token if it does not say how many. ``groups_best``: whether a group of experts
    counts as the sum of its best, as many as are taken of each (Megatron). ``padded``: whether experts with a
    capacity compute empty places too, if the file does not say.
    """
    _latent(facts)
    count = facts.get("experts")
    if not count or count <= 1:
        for name in [name for name in facts.known if name.startswith("expert")]:
            flag = facts.drop(name)
            if flag.value is not None and not facts.is_listed(flag):
                facts.effectless(flag, "there are no experts")
        return
    flag, top_k = facts.flag("experts"), facts.get("experts_chosen", chosen)
    ffn = facts.get("experts_ffn") or facts.get("model.ffn")
    score = facts.get("experts_score", "softmax")
    dense, every = _layers_with_experts(facts)
    section: dict[str, Any] = {
        "count": count,
        "top_k": top_k,
        "ffn": ffn,
        "shared": _shared(facts, ffn),
        "dense_layers": dense,
        "every": every if every > 1 else None,
        "score": score,
        "normalised": facts.get(
            "experts_normalised", score == "sigmoid" or not facts.get("experts_softmax_first")
        ),
        "scale": facts.get("experts_scale"),
        "steered": facts.get("experts_steered"),
        "capacity_factor": facts.get("experts_capacity"),
    }
    groups, kept = facts.get("experts_groups"), facts.get("experts_kept_groups")
    if groups and kept and groups > 1:
        best = max(1, top_k // kept) if groups_best else 2 if section["steered"] else 1
        section |= {"groups": groups, "kept_groups": kept, "group_best": best}
    if section["capacity_factor"]:
        section["padded"] = None if facts.get("experts_padded", padded) else False
    else:
        facts.drop_effectless(("experts_padded",), "without a capacity")
        facts.remark(f"{flag}: no token is dropped, and {_BALANCED}")
    facts.say("model.experts", {name: value for name, value in section.items() if value is not None}, flag)


def _latent(facts: Facts) -> None:
    """Latent attention where it is asked for, or where its sizes are given and nothing is said of it."""
    sizes = {name: facts.get(f"latent_{name}") for name in ("kv_rank", "nope_dim", "rope_dim", "value_dim")}
    if facts.get("latent", all(sizes.values())) and all(sizes.values()):
        flag = facts.flag("latent" if "latent" in facts.known else "latent_kv_rank")
        sparse = _sparse(facts)
        facts.say("model.latent", sizes | {"q_rank": facts.get("latent_q_rank", 0)} | sparse, flag)
        facts.drop_effectless(
            ("model.kv_heads", "query_groups", "model.head_dim"), "latent attention has heads of its own"
        )
        if facts.get("model.bias"):
            facts.unsupported(flag, "latent attention is simulated without biases")
            facts.replace("model.bias", False, flag)
        facts.drop_effectless(("model.qk_norm",), "latent attention has norms on its latents")
    elif facts.get("latent"):
        missing = [name for name, size in sizes.items() if not size]
        facts.unsupported(facts.flag("latent"), f"ordinary attention is simulated: no {', '.join(missing)}")
    if "model.latent" not in facts.known and (
        facts.get("latent_sparse") or facts.get("latent_sparse_tokens")
    ):
        name = "latent_sparse" if facts.get("latent_sparse") else "latent_sparse_tokens"
        facts.refuse(facts.flag(name), SPARSE_ATTENTION)


def _sparse(facts: Facts) -> dict[str, Any]:
    """The section of sparse attention where a file asks for it, or gives its sizes and does not switch it
    off.
    """
    sizes = {name: facts.get(f"latent_sparse_{name}") for name in ("heads", "head_dim", "tokens")}
    if not facts.get("latent_sparse", all(sizes.values())):
        return {}
    if missing := [name for name, size in sizes.items() if not size]:
        listed = ", ".join(f"model.latent.sparse.{name}" for name in missing)
        facts.wrong(facts.flag("latent_sparse"), f"the file does not give {listed}")
    return {"sparse": sizes}


def _sparse_loss(facts: Facts, flag: Flag) -> None:
    """Whether the indexer learns from the chosen tokens alone."""
    same = str(flag.value).lower() in ("true", "1")
    facts.compare(flag, same, "the indexer learns from the chosen tokens, not from all", "as is simulated")


def _trains(facts: Facts, flag: Flag) -> None:
    """By what the loss of the indexer is multiplied: any number takes as long, but zero."""
    if (value := read_number(facts, flag)) is not None:
        learns = "the indexer learns: freeze *.attention.indexer.*"
        facts.compare(flag, value > 0, learns, "any takes as long")


def _absorbs(facts: Facts, flag: Flag) -> None:
    """Whether sparse attention reads latent vectors in place of keys and values."""
    same = str(flag.value).lower() in ("true", "1")
    facts.compare(flag, same, "sparse attention is absorbed (framework.sparse_attention)", "as is simulated")


def _shared(facts: Facts, ffn: int | None) -> int:
    """Experts that all tokens use: so many, or as wide as so many together."""
    if "experts_shared_count" in facts.known:
        return int(facts.get("experts_shared_count"))
    width: int = facts.get("experts_shared", 0)
    if not width or not ffn:
        return 0
    if width % ffn:
        facts.unsupported(
            facts.flag("experts_shared"),
            f"shared experts are as wide as the others: {width} / {ffn} = {width / ffn:g}",
        )
    return max(1, round(width / ffn))


def _layers_with_experts(facts: Facts) -> tuple[int, int]:
    """Layers before the first with experts, and every how many of the others one has some."""
    pattern, first = facts.get("experts_layers"), int(facts.get("experts_dense_layers", 0))
    if pattern is None:
        return first, 1
    layers, flag = facts.get("model.layers", 0), facts.flag("experts_layers")
    if isinstance(pattern, int):
        mixed = [place for place in range(first, layers) if place % pattern == 0]
    else:
        mixed = [place for place, mark in enumerate(pattern) if mark]
        if len(pattern) != layers:
            facts.wrong(flag, f"{len(pattern)} layers are listed, but the model has {layers}")
            return 0, 1
    if not mixed:
        return layers, 1
    dense = mixed[0]
    every = mixed[1] - dense if len(mixed) > 1 else layers - dense
    if mixed != [*range(dense, layers, every)]:
        facts.unsupported(flag, f"all layers behind the first {dense} have experts")
        return dense, 1
    if (dense + 1) % every == 0:
        return (dense if dense >= every else 0), every
    simulated = sum((place + 1) % every == 0 for place in range(dense, layers))
    other = f"of every {every} layers the last has experts"
    if simulated == len(mixed):
        facts.remark(f"{flag}: {other} here, an earlier one in the file; their number is the same")
    else:
        facts.unsupported(flag, f"{other}, {simulated} in all; in the file {len(mixed)} have some")
    return dense, every


def _frequency(facts: Facts, flag: Flag) -> None:
    """Every so many layers one has experts (-1, MindSpeed's: all), or a list of zeros and ones."""
    layers = 1 if str(flag.value) in ("-1", "['-1']") else read_layer_pattern(flag)
    if layers is None or (isinstance(layers, int) and layers < 1):
        facts.wrong(flag, "expected a number of layers, or a list such as ([0]*3+[1]*58)")
    else:
        facts.say("experts_layers", layers, flag)


def _rank(facts: Facts, flag: Flag) -> None:
    """The rank of queries; null is none."""
    if flag.value in (None, "None", "null"):
        facts.effectless(flag, "queries come from the hidden state")
        return
    if (value := read_integer(facts, flag)) is not None:
        facts.say("latent_q_rank", value, flag)


def _dispatcher(facts: Facts, flag: Flag) -> None:
    same = flag.value in ("alltoall", ["alltoall"])
    facts.compare(flag, same, "tokens go there and back by all-to-all", "as is simulated")


def _method(facts: Facts, flag: Flag) -> None:
    """How experts are chosen; only ``noaux_tc`` adds a bias to every expert's score."""
    if flag.value == "noaux_tc":
        facts.say("experts_steered", True, flag)
    else:
        same = flag.value in ("greedy", "group_limited_greedy")
        facts.compare(flag, same, "experts are chosen by the scores alone", "by the scores alone")
