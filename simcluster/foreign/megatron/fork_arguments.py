"""Arguments that only forks of Megatron have: Megatron-DeepSpeed, MindSpeed-LLM, zero-bubble, Yuan, slime."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from simcluster.foreign.deepspeed import ZERO, read_ulysses_degree, read_zero_stage
from simcluster.foreign.megatron.deepspeed_mixture import DEEPSPEED_MIXTURE
from simcluster.foreign.megatron.entry_script import state_posttraining_stage
from simcluster.foreign.megatron.pipeline_layout import read_noop_layers
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    ADAPTER_MEANINGS,
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_word,
    reads_adapter_targets,
    selects,
    states_value,
    switch,
)

_ROLLOUTS = "the training alone is simulated: nothing is generated"


def _blocks(facts: Facts, flag: Flag) -> None:
    """Layers of every stage: ``2,3,3,2``."""
    text = ",".join(flag.value) if isinstance(flag.value, list) else str(flag.value)
    if re.fullmatch(r"\d{1,4}(,\d{1,4})*", text):
        facts.say("stage_layers", [int(layers) for layers in text.split(",")], flag)
    else:
        facts.wrong(flag, "expected the layers of every stage, such as 2,3,3,2")


def _v_schedule(facts: Facts, flag: Flag) -> None:
    """How much memory a V-shaped schedule may take: of 1F1B all, half or a third."""
    said = read_word(facts, flag)
    if said == "min":
        facts.unsupported(flag, "a schedule with half of 1F1B's activations is simulated")
    if said is not None:
        facts.say_if(said in ("half", "min"), "schedule", "v_half", flag, "as much as 1F1B")


def _adapters(facts: Facts, flag: Flag) -> None:
    """There are adapters where it is said of which weights."""
    reads_adapter_targets(facts, flag)
    if facts.get("lora_targets"):
        facts.say("adapters", "lora", facts.flag("lora_targets"))


FORK_MEANINGS: Mapping[str, Meaning] = {
    # Megatron-DeepSpeed
    "zero_stage": read_zero_stage,
    "deepspeed_config": not_expressible(
        "what that file says is not read: its ZeRO stage and precision", unless=()
    ),
    "deepspeed_activation_checkpointing": has_no_effect,
    **DEEPSPEED_MIXTURE,
    **dict.fromkeys(sorted(ignored_settings("megatron")["forks"]), has_no_effect),
    "num_key_value_heads": states_value("model.kv_heads"),
    "ds_sequence_parallel_size": read_ulysses_degree,
    "no_pipeline_parallel": has_no_effect,
    "pp_partition_method": states_value("partition", read_word),
    "glu_activation": selects(
        "model.activation", {"geglu": "geglu", "swiglu": "swiglu"}, "an MLP without a gate is simulated"
    ),
    # --yaml-cfg, with the names of Megatron-Core's configuration
    "activation_func": selects(
        "model.activation",
        {"swiglu": "swiglu", "gelu": "gelu", "squaredrelu": "squared_relu"},
        "GELU is simulated",
        "gelu",
    ),
    "apply_residual_connection_post_layernorm": not_expressible("residuals start before the norms"),
    "async_tensor_model_parallel_allreduce": decided_by_profile,
    # Pai-Megatron-Patch
    "patch_tokenizer_type": states_value("patched_tokenizer", read_word),
    "extra_vocab_size": states_value("extra_vocab"),
    # MindSpeed-LLM
    "enable_recompute_layers_per_pp_rank": switch("recompute_per_rank"),
    "recompute_in_advance": not_expressible("layers are recomputed when their backward comes"),
    "recompute_in_bubble": not_expressible("layers are recomputed when their backward comes"),
    "swap_attention_layers": not_expressible("activations stay on the device"),
    "tp_2d": not_expressible("tensor parallelism has one axis"),
    "tp_x": not_expressible("tensor parallelism has one axis"),
    "tp_y": not_expressible("tensor parallelism has one axis"),
    "moe_experts_pipeline_degree": not_expressible(
        "experts compute all their tokens at once", unless=(0, "0", None)
    ),
    "fix_router": lambda facts, flag: facts.effectless(flag, "every expert gets equally many tokens"),
    "cp_window_size": not_expressible("the ring has one level", unless=(1, "1", None)),
    "jit_compile": decided_by_profile,
    "use_fused_mlp": decided_by_profile,
    "lora_r": ADAPTER_MEANINGS["rank"],
    "lora_alpha": ADAPTER_MEANINGS["alpha"],
    "lora_target_modules": _adapters,
    "lora_modules_to_save": ADAPTER_MEANINGS["others"],
    "lora_fusion": decided_by_profile,
    "lora_load": has_no_effect,
    "lora_register_forward_hook": has_no_effect,
    "lora_ckpt_filter": has_no_effect,
    "reuse_fp32_param": not_expressible(
        "bf16 weights are kept beside their fp32 master copy: 2 bytes per parameter more"
    ),
    "noop_layers": read_noop_layers,
    "context_parallel_algo": selects(
        "context_kind",
        {"megatron_cp_algo": "ring", "ulysses_cp_algo": "heads", "kvallgather_cp_algo": "gather"},
        "attention in a ring over the whole axis is simulated",
    ),
    "attention_mask_type": selects("context_mask", {"causal": "causal", "general": "general"}),
    "cp_attention_mask_type": selects("context_mask", {"causal": "causal", "general": "general"}),
    "ulysses_degree_in_cp": not_expressible("attention in a ring over the whole axis is simulated"),
    "schedules_method": selects("schedule", {"dualpipev": "dualpipe_v"}, "1F1B is simulated"),
    "num_layer_list": _blocks,
    "geglu": switch("model.activation", "geglu"),
    "gelu_tanh": switch("model.activation", "geglu"),
    "recompute_activation_function": not_expressible("activation functions keep what they are given"),
    "recompute_activation_function_num_layers": not_expressible(
        "activation functions keep what they are given", unless=(None, 0, "0")
    ),
    "recompute_norm": not_expressible("norms keep what they are given"),
    "adaptive_recompute_device_swap": not_expressible("what is recomputed is what the other arguments say"),
    "moe_tp_extend_ep": switch("expert_tensor", 1),
    "moe_alltoall_overlap_comm": decided_by_profile,
    "moe_fb_overlap": decided_by_profile,
    "moe_zero_memory": not_expressible("experts keep what they are given", unless=(None, "disable")),
    "stage": state_posttraining_stage,
    # zero-bubble
    "enable_zero_bubble": switch("schedule", "zb_h1"),
    "zero_bubble_v_schedule": switch("schedule", "zb_v"),
    "zero_bubble_v_schedule_mem_setup": _v_schedule,
    "zero_bubble_max_pending_backward": states_value("pending_backwards"),
    "allow_padding_num_layers": has_no_effect,
    "enable_optimizer_post_validation": not_expressible(
        "all stages wait for the gradient norm before the update"
    ),
    "zero_bubble_pipeline_timers_start_iter": has_no_effect,
    "zero_bubble_pipeline_timers_end_iter": has_no_effect,
    "no_barrier_with_level_1_timing": has_no_effect,
    "enable_vocab_parallel": not_expressible("the vocabulary is on the first and the last stage"),
    # Yuan
    "pipeline_model_parallel_blocks": _blocks,
    "pipeline_model_parallel_method": not_expressible(
        "stages of equal size are simulated", unless=("block", None)
    ),
    # slime
    "rollout_batch_size": not_expressible(_ROLLOUTS, unless=()),
    "rollout_num_gpus": not_expressible(_ROLLOUTS, unless=()),
    "actor_num_nodes": states_value("hosts"),
    "actor_num_gpus_per_node": states_value("devices_per_host"),
    "colocate": not_expressible(_ROLLOUTS),
    "use_dynamic_batch_size": not_expressible("every micro-batch has the size that --micro-batch-size says"),
}


def state_reinforcement(facts: Facts, names: Collection[str]) -> None:
    """What slime sets by itself: bf16 unless it is told fp16, and the distributed optimizer (from memory)."""
    if {"rollout_batch_size", "actor_num_nodes"} & {*names}:
        facts.default("training.precision.compute", "bf16", "slime trains in bf16 without --fp16")
        facts.default("parallel.optimizer_sharding", ZERO[1], "slime's distributed optimizer")
        facts.remark("slime: bf16 and the distributed optimizer, which it sets by itself (from memory)")


def state_pending_backwards(facts: Facts) -> None:
    """States zero bubble with as much memory as 1F1B (ZB1P) or twice as much (ZB2P).

    ``--zero-bubble-max-pending-backward`` is the number of micro-batches whose backward is still to come:
    p stages make it ZB1P, 2p make it ZB2P (from memory of the README of sail-sg/zero-bubble).
    """
    if "pending_backwards" not in facts.known:
        return
    pending, stages = facts.get("pending_backwards"), facts.get("pipeline", 1)
    flag, folded = facts.drop("pending_backwards"), facts.get("schedule") != "zb_h1"
    facts.absorb(flag)
    if not folded and stages > 1 and pending >= 2 * stages:
        facts.replace("schedule", "zb_h2", flag)
    elif not folded and pending > stages:
        facts.unsupported(flag, f"as many micro-batches are in flight as there are stages, {stages}")


def state_partition(facts: Facts) -> None:
    """DeepSpeed's partition method: equal layers, or equal with embedding and head as one layer each."""
    if "partition" not in facts.known:
        return
    said, flag = facts.get("partition").strip("'\""), facts.flag("partition")
    layers, stages = facts.get("model.layers", 0), facts.get("pipeline", 1)
    if stages > 1 and "embedding" in said and layers + 2 == stages:
        facts.wrong(
            flag,
            f"{layers} layers + 2 / {stages} stages = 1: the end stages have no layer, but embeddings alone",
        )
    else:
        same = stages <= 1 or said.startswith("type:transformer")
        otherwise = "stages hold as many layers as go into them, the end stages one less if it fits"
        facts.compare(flag, same, otherwise, "stages hold as many layers in the scenario")
