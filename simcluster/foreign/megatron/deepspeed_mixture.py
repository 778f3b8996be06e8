"""Mixtures of experts of Megatron-DeepSpeed: its arguments and their defaults.

Defaults are those of its argument parser (from memory): top-1 routing with a capacity factor of 1.0, experts
in every second layer.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    has_no_effect,
    not_expressible,
    read_number,
    states_value,
    switch,
)

_INTERVAL, _WHOLE = "experts_interval", "experts_undropped"


def _counts(facts: Facts, flag: Flag) -> None:
    """Number of experts: one for all layers with experts, or one for each of them."""
    counts = flag.value if isinstance(flag.value, list) else [flag.value]
    if not flag.missing and len(counts) > 1 and len(set(counts)) > 1:
        facts.unsupported(flag, f"every layer has {counts[0]} experts")
    first = Flag(flag.name, counts[:1], flag.text, flag.where, flag.missing, flag.condition)
    states_value("experts")(facts, first)


DEEPSPEED_MIXTURE: Mapping[str, Meaning] = {
    "num_experts": _counts,
    "moe_expert_parallel_size": states_value("expert"),
    "topk": states_value("experts_chosen"),
    "expert_interval": states_value(_INTERVAL),
    "moe_train_capacity_factor": states_value("experts_capacity", read_number),
    "disable_moe_token_dropping": switch(_WHOLE),
    "enable_expert_tensor_parallelism": switch("experts_split"),
    "mlp_type": not_expressible("there is no residual MLP beside the experts", unless=("standard", None)),
    "use_tutel": not_expressible("DeepSpeed's own kernels of experts are simulated"),
    "moe_eval_capacity_factor": has_no_effect,
    "moe_min_capacity": has_no_effect,
    "moe_loss_coeff": has_no_effect,
    "create_moe_param_group": has_no_effect,
}
"""Arguments by name, without dashes."""


def state_deepspeed_mixture(facts: Facts) -> None:
    """States the defaults of Megatron-DeepSpeed's experts; to be called before ``state_mixture``."""
    if facts.get("framework") != "megatron-deepspeed" or facts.get("experts", 1) <= 1:
        facts.drop_effectless((_INTERVAL, _WHOLE, "experts_split"), "without experts of DeepSpeed")
        return
    facts.default("experts_chosen", 1, "--topk 1 (Megatron-DeepSpeed's default)")
    if facts.get(_WHOLE):
        facts.drop_effectless(("experts_capacity",), "no token is dropped")
    else:
        facts.default(
            "experts_capacity", 1.0, "--moe-train-capacity-factor 1.0 (Megatron-DeepSpeed's default)"
        )
        facts.default("experts_padded", True, "DeepSpeed computes empty slots of experts, too")
    if not facts.get("experts_split"):
        facts.default("expert_tensor", 1, "Megatron-DeepSpeed's default: experts are whole")
    facts.default(_INTERVAL, 2, "--expert-interval 2 (Megatron-DeepSpeed's default)")
    every, flag = facts.get(_INTERVAL), facts.drop(_INTERVAL)
    layers = facts.get("model.layers", 0)
    if every > 1:
        facts.say("experts_layers", [int((layer + 1) % every == 0) for layer in range(layers)], flag)
    for name in (_WHOLE, "experts_split"):
        if name in facts.known:
            facts.absorb(facts.drop(name))
