"""Megatron's training arguments and what they mean; NeMo and Megatron-Bridge use the same words.

Names are those of Megatron-LM's command line without the dashes (``num_layers``); facts from its public
argument parser, reference ``frameworks.md`` sections 2 to 5.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.deepspeed import ZERO
from simcluster.foreign.megatron.host_offload import OFFLOAD_MEANINGS as OFFLOAD
from simcluster.foreign.megatron.muon_arguments import MUON, MUON_MEANINGS, WHOLE_PARAMETERS
from simcluster.foreign.megatron.pipeline_layout import read_layout
from simcluster.foreign.megatron.unsupported_arguments import unsupported_meaning
from simcluster.foreign.megatron.vocabulary import read_hub_tokenizer
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import MEGATRON as MIXTURE
from simcluster.foreign.translation import (
    Alternatives,
    Facts,
    Meaning,
    as_written,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_chunk,
    read_number,
    read_unrotated_layers,
    read_windowed_layers,
    read_word,
    reads_clip,
    reads_mtp_layers,
    reads_rotary_fraction,
    reads_window,
    selects,
    states_value,
    switch,
)

MARKS = frozenset(
    (
        "--num-layers",
        "--hidden-size",
        "--micro-batch-size",
        "--tensor-model-parallel-size",
        "--global-batch-size",
    )
)
"""Flags by which a launch of Megatron is known."""

_STATES = {"fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}

FP8 = Alternatives(("fp8", None), "bf16 is simulated: matrices take longer")
"""Matrix products with fp8 operands."""

MXFP8 = Alternatives(("mxfp8", "fp8", None), "another format is simulated: matrices take longer or shorter")
"""Matrix products with mxfp8 operands."""

NVFP4 = Alternatives(("nvfp4", None), "bf16 is simulated: matrices take longer")
"""Matrix products with nvfp4 operands."""

FSDP = Alternatives(
    ({"fsdp": {"reshard_after_forward": True}}, {"zero": 3}, {"zero": 2}, {"zero": 1}),
    "weights stay whole on every rank",
)
OPTIMIZERS: Mapping[str, str] = {
    "adam": "adamw",
    "adamw": "adamw",
    "fused_adam": "adamw",
    "distributed_fused_adam": "adamw",
    "distributed_adam": "adamw",
    "mcore_distributed_optim": "adamw",
    "megatron_distributed_optim": "adamw",
    "megatron_fused_adam": "adamw",
    "sgd": "momentum",
    "lamb": "lamb",
    **dict.fromkeys(MUON, "muon"),
}
"""Update rules by the names that optimizers have."""


def named_optimizer(facts: Facts, flag: Flag) -> None:
    """An optimizer by its name; the distributed ones, whatever they are called, shard their states."""
    name = read_word(facts, flag)
    if name is None:
        return
    if "distributed" in name.lower():
        facts.say("parallel.optimizer_sharding", ZERO[1], flag)
    if name.lower() == "dist_muon":
        facts.say("parallel.optimizer_sharding", WHOLE_PARAMETERS, flag)
    selects("training.optimizer.kind", OPTIMIZERS, "adamw is simulated")(facts, flag)


def _fp8(facts: Facts, flag: Flag) -> None:
    said = read_word(facts, flag)
    if said is not None and said.lower() not in ("null", "none", "false"):
        facts.say("training.precision.matmul", FP8, flag)


def _fp8_recipe(facts: Facts, flag: Flag) -> None:
    """One of tensorwise, delayed, blockwise and mxfp8; only the last is another format here."""
    if read_word(facts, flag) == "mxfp8":
        facts.say("fp8_recipe", MXFP8, flag)
    else:
        facts.effectless(flag)


def _fp4(facts: Facts, flag: Flag) -> None:
    said = read_word(facts, flag)
    if said is not None and said.lower() not in ("null", "none", "false"):
        facts.say("training.precision.matmul", NVFP4, flag)


def _recompute(facts: Facts, flag: Flag) -> None:
    said = read_word(facts, flag)
    if said in ("full", "selective"):
        facts.say("recompute", said, flag)
    elif said not in (None, "null", "none"):
        facts.wrong(flag, "expected full or selective")


def _rampup(facts: Facts, flag: Flag) -> None:
    if flag.value not in (None, [], "null"):
        facts.effectless(flag, "a step at the full global batch is simulated")


MODEL: Mapping[str, Meaning] = {
    "num_layers": states_value("model.layers"),
    "hidden_size": states_value("model.hidden"),
    "num_attention_heads": states_value("model.heads"),
    "num_query_groups": states_value("query_groups"),
    "group_query_attention": switch("grouped"),
    "ffn_hidden_size": states_value("model.ffn"),
    "kv_channels": states_value("model.head_dim"),
    "seq_length": states_value("training.seq_len"),
    "max_position_embeddings": states_value("positions_limit"),
    "position_embedding_type": selects(
        "model.positions",
        {
            "rope": "rotary",
            "rotary": "rotary",
            "yarn": "rotary",
            "mrope": "rotary",
            "learned_absolute": "learned",
            "alibi": "alibi",
            "none": "none",
            "relative": "relative",
        },
        "rotary positions are simulated",
        "rotary",
    ),
    "no_position_embedding": switch("no_positions"),
    "use_rotary_position_embeddings": switch("model.positions", "rotary"),
    "rotary_base": states_value("model.rope_theta", read_number),
    "rotary_percent": reads_rotary_fraction,
    "rotary_percentage": reads_rotary_fraction,
    "rotary_interleaved": has_no_effect,
    "no_rope_fusion": decided_by_profile,
    "normalization": selects(
        "model.norm", {"rmsnorm": "rms", "layernorm": "layer"}, "RMS norm is simulated", "rms"
    ),
    "norm_epsilon": has_no_effect,
    "layernorm_epsilon": has_no_effect,
    "apply_layernorm_1p": has_no_effect,
    "swiglu": switch("model.activation", "swiglu"),
    "quick_geglu": switch("model.activation", "geglu"),
    "squared_relu": switch("model.activation", "squared_relu"),
    "openai_gelu": switch("model.activation", "gelu"),
    "onnx_safe": has_no_effect,
    "add_bias_linear": switch("model.bias", True, False),
    "disable_bias_linear": switch("model.bias", False, True),
    "add_qkv_bias": switch("model.qkv_bias", True, False),
    "qk_layernorm": switch("model.qk_norm", True),
    "untie_embeddings_and_output_weights": switch("model.tied", False, True),
    "share_embeddings_and_output_weights": switch("model.tied", True, False),
    "hidden_dropout": states_value("hidden_dropout", read_number),
    "attention_dropout": states_value("attention_dropout", read_number),
    "make_vocab_size_divisible_by": states_value("vocabulary_multiple"),
    "padded_vocab_size": states_value("padded_vocab"),
    "vocab_size": states_value("model.vocab"),
    "pad_vocab_size_to": states_value("padded_vocab"),
    "embed_layernorm": switch("model.embedding_norm"),
    "tokenizer_type": states_value("tokenizer", read_word),
    "tokenizer_model": read_hub_tokenizer,
    "tokenizer_name_or_path": read_hub_tokenizer,
    "window_size": reads_window,
    "window_attn_skip_freq": read_windowed_layers,
    "attention_chunk_size": read_chunk,
    "no_rope_freq": read_unrotated_layers,
    "qk_l2_norm": not_expressible("queries and keys are not normalised"),
    "softmax_type": has_no_effect,
    "glu_linear_offset": has_no_effect,
    "activation_func_clamp_value": has_no_effect,
    "mtp_num_layers": reads_mtp_layers,
}
"""Arguments of the model, by name without dashes."""

TRAINING: Mapping[str, Meaning] = {
    "micro_batch_size": states_value("training.micro_batch"),
    "global_batch_size": states_value("training.global_batch"),
    "batch_size": states_value("training.micro_batch"),
    "rampup_batch_size": _rampup,
    "decrease_batch_size_if_needed": has_no_effect,
    "bf16": switch("training.precision.compute", "bf16"),
    "fp16": switch("training.precision.compute", "fp16"),
    "fp8": _fp8,
    "fp8_format": _fp8,
    "fp4_format": _fp4,
    "fp4_recipe": has_no_effect,
    "fp8_recipe": _fp8_recipe,
    "fp8_margin": has_no_effect,
    "fp8_interval": has_no_effect,
    "fp8_amax_history_len": has_no_effect,
    "fp8_amax_compute_algo": has_no_effect,
    "fp32_residual_connection": not_expressible("residuals have the number format of all activations"),
    "fp16_lm_cross_entropy": not_expressible("the loss has the framework profile's number format"),
    "fp8_param_gather": not_expressible("weights are gathered in their own format"),
    "accumulate_allreduce_grads_in_fp32": switch("training.precision.gradients", "fp32"),
    "grad_reduce_in_bf16": switch("training.precision.gradients", "bf16"),
    "grad_reduce_in_fp32": switch("training.precision.gradients", "fp32", "bf16"),
    "optimizer": named_optimizer,
    "lr": states_value("training.optimizer.learning_rate", read_number),
    "weight_decay": states_value("training.optimizer.weight_decay", read_number),
    "adam_beta1": states_value("training.optimizer.beta1", read_number),
    "adam_beta2": states_value("training.optimizer.beta2", read_number),
    "adam_eps": states_value("training.optimizer.eps", read_number),
    "sgd_momentum": states_value("training.optimizer.momentum", read_number),
    "clip_grad": reads_clip,
    "gradient_clip_val": reads_clip,
    "main_params_dtype": selects(
        "training.precision.master", {"fp32": "fp32", "torch.float32": "fp32"}, "fp32 is simulated"
    ),
    "main_grads_dtype": selects(
        "training.precision.gradients", {"fp32": "fp32", "bf16": "bf16"}, "fp32 is simulated"
    ),
    "exp_avg_dtype": selects("moment1", _STATES, "fp32 is simulated"),
    "exp_avg_sq_dtype": selects("moment2", _STATES, "fp32 is simulated"),
    "use_precision_aware_optimizer": has_no_effect,
}
"""Arguments of a training step."""

PARALLEL: Mapping[str, Meaning] = {
    "tensor_model_parallel_size": states_value("tensor"),
    "model_parallel_size": states_value("tensor"),
    "pipeline_model_parallel_size": states_value("pipeline"),
    "num_layers_per_virtual_pipeline_stage": states_value("layers_per_chunk"),
    "num_virtual_stages_per_pipeline_rank": states_value("chunks"),
    "virtual_pipeline_model_parallel_size": states_value("chunks"),
    "decoder_first_pipeline_num_layers": states_value("first_layers"),
    "decoder_last_pipeline_num_layers": states_value("last_layers"),
    "num_layers_in_first_pipeline_stage": states_value("first_layers"),
    "num_layers_in_last_pipeline_stage": states_value("last_layers"),
    "account_for_embedding_in_pipeline_split": switch("embedding_counts"),
    "account_for_loss_in_pipeline_split": switch("loss_counts"),
    "pipeline_model_parallel_layout": read_layout,
    "overlap_moe_expert_parallel_comm": switch("pairs"),
    "pipeline_model_parallel_split_rank": not_expressible(
        "stages of equal size are simulated", unless=(None,)
    ),
    "standalone_embedding_stage": not_expressible("the embedding shares the first stage"),
    "context_parallel_size": states_value("context"),
    "cp_comm_type": selects(
        "context_kind",
        {"p2p": "ring", "all_gather": "gather", "a2a": "heads"},
        "keys and values go around a ring",
    ),
    "hierarchical_context_parallel_sizes": not_expressible("one level is simulated", unless=(None,)),
    "sequence_parallel": switch("sequence_parallel"),
    "use_distributed_optimizer": switch("parallel.optimizer_sharding", ZERO[1]),
    "use_layer_wise_distributed_optimizer": switch("parallel.optimizer_sharding", WHOLE_PARAMETERS),
    "data_parallel_sharding_strategy": selects(
        "sharding_strategy",
        {"no_shard": ZERO[0], "optim": ZERO[1], "optim_grads": ZERO[2], "optim_grads_params": ZERO[3]},
    ),
    "num_distributed_optimizer_instances": not_expressible("states are sharded over all data-parallel ranks"),
    "use_torch_fsdp2": switch("parallel.optimizer_sharding", FSDP),
    "use_megatron_fsdp": switch("parallel.optimizer_sharding", FSDP),
    "use_custom_fsdp": switch("parallel.optimizer_sharding", FSDP),
    "use_fsdp": switch("parallel.optimizer_sharding", FSDP),
    "use_tp_pp_dp_mapping": not_expressible("stages are the outermost axis"),
    "recompute_granularity": _recompute,
    "recompute_activations": switch("recompute", "selective"),
    "checkpoint_activations": switch("recompute", "full"),
    "activations_checkpoint_granularity": _recompute,
    "activations_checkpoint_method": states_value("recompute_method", read_word),
    "activations_checkpoint_num_layers": states_value("recompute_layers"),
    "recompute_method": states_value("recompute_method", read_word),
    "recompute_num_layers": states_value("recompute_layers"),
    "recompute_modules": states_value("recompute_modules", as_written),
    "distribute_saved_activations": switch("slice"),
    "distribute_checkpointed_activations": switch("slice"),
    "tp_comm_overlap": switch("tensor_chunks"),
    "disable_tp_comm_overlap_ag": switch("whole_gathers"),
    "disable_tp_comm_overlap_rs": switch("whole_scatters"),
}
"""Arguments of the parallel plan."""

PROFILED: Mapping[str, str] = {
    "DDP_impl": "megatron-lm-2021",
    "data_impl": "megatron-lm-2021",
    "scattered_embeddings": "megatron-lm-2021",
    "checkpoint_activations": "megatron-lm-2021",
    "activations_checkpoint_method": "megatron-lm-2021",
    "no_contiguous_buffers_in_local_ddp": "megatron-lm-2021",
    "recompute_activations": "megatron-lm-2022",
    "recompute_granularity": "megatron-lm-2022",
    "sequence_parallel": "megatron-lm-2022",
    "use_distributed_optimizer": "megatron-lm-2022",
    "no_async_tensor_model_parallel_allreduce": "megatron-lm-2022",
    "use_flash_attn": "megatron-core",
    "use_mcore_models": "megatron-core",
    "transformer_impl": "megatron-core",
    "overlap_grad_reduce": "megatron-core",
    "overlap_param_gather": "megatron-core",
    "context_parallel_size": "megatron-core",
    "swiglu": "megatron-core",
    "group_query_attention": "megatron-core",
    "normalization": "megatron-core",
    "position_embedding_type": "megatron-core",
    "tp_comm_overlap": "megatron-core",
    "attention_backend": "megatron-core",
    "deepspeed": "megatron-deepspeed",
    "deepspeed_config": "megatron-deepspeed",
    "zero_stage": "megatron-deepspeed",
    "reuse_fp32_param": "mindspeed-llm",
    "use_ascend_coc": "mindspeed-llm",
    "use_ascend_mc2": "mindspeed-llm",
    "use_mc2": "mindspeed-llm",
    "use_fused_rmsnorm": "mindspeed-llm",
    "use_fused_swiglu": "mindspeed-llm",
    "use_fused_rotary_pos_emb": "mindspeed-llm",
    "use_cp_send_recv_overlap": "mindspeed-llm",
}
"""The framework profile whose version introduced a flag; of several the one last in ``PROFILES`` is taken."""

PROFILES = ("megatron-lm-2021", "megatron-lm-2022", "megatron-core", "megatron-deepspeed", "mindspeed-llm")
"""Profiles in order: each is preferred to those before it."""


MEANINGS: Mapping[str, Meaning] = {
    **dict.fromkeys(sorted(ignored_settings("megatron")["effectless"]), has_no_effect),
    **dict.fromkeys(sorted(ignored_settings("megatron")["profile"]), decided_by_profile),
    **MODEL,
    **TRAINING,
    **PARALLEL,
    **MIXTURE,
    **OFFLOAD,
    **MUON_MEANINGS,
}
"""All arguments by name, without dashes."""


def meaning_of(name: str) -> Meaning | None:
    """What the argument called ``name`` means, or None if it is unknown here."""
    return MEANINGS.get(name) or unsupported_meaning(name)
