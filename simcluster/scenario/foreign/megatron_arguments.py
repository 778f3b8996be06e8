"""Megatron's training arguments and what they mean; NeMo and Megatron-Bridge use the same words.

Names are those of Megatron-LM's command line without the dashes (``num_layers``); facts from its public argument
parser, reference ``frameworks.md`` sections 2 to 5.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.scenario.foreign.facts import Choice, Facts, Meaning
from simcluster.scenario.foreign.flag import Flag
from simcluster.scenario.foreign.meaning import (
    chooses,
    effectless,
    lost,
    number,
    of_profile,
    selects,
    states,
    switch,
    word,
)

MARKS = frozenset(
    ("--num-layers", "--hidden-size", "--micro-batch-size", "--tensor-model-parallel-size", "--global-batch-size")
)
"""Flags by which a launch of Megatron is known."""

_MOE = "a dense model is simulated"
_ATTENTION = "ordinary attention is simulated"

FSDP = Choice(
    ({"fsdp": {"reshard_after_forward": True}}, {"zero": 3}, {"zero": 2}, {"zero": 1}),
    "weights stay whole on every rank",
)
ZERO: Mapping[int, Choice] = {
    0: Choice(({"zero": 0},)),
    1: Choice(({"zero": 1},)),
    2: Choice(({"zero": 2}, {"zero": 1}), "gradients stay whole on every rank: only optimizer states are sharded"),
    3: Choice(
        ({"zero": 3}, {"zero": 2}, {"zero": 1}),
        "weights stay whole on every rank: more memory and less communication",
    ),
}
"""ZeRO stages, and what is simulated where a stage does not exist yet."""


def _clip(facts: Facts, flag: Flag) -> None:
    value = number(facts, flag)
    if value == 0.0:
        facts.unsupported(flag, "the gradient norm is computed all the same")
    elif value is not None:
        facts.effectless(flag, "the gradient norm is always computed")


def _fp8(facts: Facts, flag: Flag) -> None:
    said = word(facts, flag)
    if said is None or said.lower() in ("null", "none", "false"):
        return
    facts.say("training.precision.compute", Choice(("fp8", "bf16"), "bf16 is simulated: matrices take longer"), flag)


def _recompute(facts: Facts, flag: Flag) -> None:
    said = word(facts, flag)
    if said in (None, "null", "none"):
        return
    if said not in ("full", "selective"):
        facts.wrong(flag, "expected full or selective")
        return
    facts.say("recompute", said, flag)


def _rampup(facts: Facts, flag: Flag) -> None:
    if flag.value not in (None, [], "null"):
        facts.effectless(flag, "a step at the full global batch is simulated")


MODEL: Mapping[str, Meaning] = {
    "num_layers": states("model.layers"),
    "hidden_size": states("model.hidden"),
    "num_attention_heads": states("model.heads"),
    "num_query_groups": states("query_groups"),
    "group_query_attention": switch("grouped"),
    "ffn_hidden_size": states("model.ffn"),
    "kv_channels": states("model.head_dim"),
    "seq_length": states("training.seq_len"),
    "max_position_embeddings": states("positions_limit"),
    "position_embedding_type": selects(
        "model.positions",
        {
            "rope": "rotary",
            "rotary": "rotary",
            "learned_absolute": "learned",
            "alibi": "alibi",
            "none": "none",
            "relative": "relative",
        },
        "rotary positions are simulated",
    ),
    "use_rotary_position_embeddings": switch("model.positions", "rotary"),
    "rotary_base": states("model.rope_theta", number),
    "rotary_percent": lost("all dims of a head are rotated", unless=("1.0", 1.0, 1, "1", None)),
    "rotary_interleaved": effectless,
    "no_rope_fusion": of_profile,
    "normalization": selects("model.norm", {"rmsnorm": "rms", "layernorm": "layer"}, "RMS norm is simulated"),
    "norm_epsilon": effectless,
    "layernorm_epsilon": effectless,
    "apply_layernorm_1p": effectless,
    "swiglu": switch("model.activation", "swiglu"),
    "squared_relu": switch("model.activation", "squared_relu"),
    "openai_gelu": switch("model.activation", "gelu"),
    "onnx_safe": effectless,
    "add_bias_linear": switch("model.bias", True, False),
    "disable_bias_linear": switch("model.bias", False, True),
    "add_qkv_bias": switch("model.qkv_bias", True, False),
    "qk_layernorm": switch("model.qk_norm", True),
    "untie_embeddings_and_output_weights": switch("model.tied", False, True),
    "share_embeddings_and_output_weights": switch("model.tied", True, False),
    "hidden_dropout": states("hidden_dropout", number),
    "attention_dropout": states("attention_dropout", number),
    "make_vocab_size_divisible_by": states("vocabulary_multiple"),
    "padded_vocab_size": states("padded_vocab"),
    "vocab_size": states("model.vocab"),
    "pad_vocab_size_to": states("padded_vocab"),
    "embed_layernorm": lost("there is no norm behind the embedding"),
    "tokenizer_type": states("tokenizer", word),
    "num_experts": lost(_MOE, unless=(None, 0, "0")),
    "num_moe_experts": lost(_MOE, unless=(None, 0, "0")),
    "multi_latent_attention": lost(_ATTENTION),
    "window_size": lost("attention over the whole sequence is simulated", unless=(None,)),
    "mtp_num_layers": lost("no further tokens are predicted", unless=(None, 0, "0")),
    "is_hybrid_model": lost("transformer layers are simulated"),
}
"""Of the model."""

TRAINING: Mapping[str, Meaning] = {
    "micro_batch_size": states("training.micro_batch"),
    "global_batch_size": states("training.global_batch"),
    "batch_size": states("training.micro_batch"),
    "rampup_batch_size": _rampup,
    "decrease_batch_size_if_needed": effectless,
    "bf16": switch("training.precision.compute", "bf16"),
    "fp16": switch("training.precision.compute", "fp16"),
    "fp8": _fp8,
    "fp8_format": _fp8,
    "fp8_recipe": effectless,
    "fp8_margin": effectless,
    "fp8_interval": effectless,
    "fp8_amax_history_len": effectless,
    "fp8_amax_compute_algo": effectless,
    "fp8_param_gather": lost("weights are gathered in their own format"),
    "accumulate_allreduce_grads_in_fp32": switch("training.precision.gradients", "fp32"),
    "grad_reduce_in_bf16": switch("training.precision.gradients", "bf16"),
    "grad_reduce_in_fp32": switch("training.precision.gradients", "fp32", "bf16"),
    "optimizer": selects(
        "training.optimizer.kind",
        {
            "adam": "adamw",
            "adamw": "adamw",
            "sgd": "momentum",
            "lamb": "lamb",
            "distributed_fused_adam": "adamw",
            "fused_adam": "adamw",
        },
        "adamw is simulated",
    ),
    "lr": states("training.optimizer.learning_rate", number),
    "weight_decay": states("training.optimizer.weight_decay", number),
    "adam_beta1": states("training.optimizer.beta1", number),
    "adam_beta2": states("training.optimizer.beta2", number),
    "adam_eps": states("training.optimizer.eps", number),
    "sgd_momentum": states("training.optimizer.momentum", number),
    "clip_grad": _clip,
    "main_params_dtype": selects("training.precision.master", {"fp32": "fp32", "torch.float32": "fp32"}, "fp32 is simulated"),
    "main_grads_dtype": selects("training.precision.gradients", {"fp32": "fp32", "bf16": "bf16"}, "fp32 is simulated"),
    "exp_avg_dtype": selects("training.optimizer.states", {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}, "fp32 is simulated"),
    "exp_avg_sq_dtype": selects("training.optimizer.states", {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}, "fp32 is simulated"),
    "use_precision_aware_optimizer": effectless,
    "optimizer_cpu_offload": lost("optimizer states stay on the device"),
    "cpu_offloading": lost("activations stay on the device"),
    "cpu_offloading_num_layers": lost("activations stay on the device"),
}
"""Of a step."""

PARALLEL: Mapping[str, Meaning] = {
    "tensor_model_parallel_size": states("tensor"),
    "model_parallel_size": states("tensor"),
    "pipeline_model_parallel_size": states("pipeline"),
    "num_layers_per_virtual_pipeline_stage": states("layers_per_chunk"),
    "num_virtual_stages_per_pipeline_rank": states("chunks"),
    "virtual_pipeline_model_parallel_size": states("chunks"),
    "decoder_first_pipeline_num_layers": states("first_layers"),
    "decoder_last_pipeline_num_layers": states("last_layers"),
    "num_layers_in_first_pipeline_stage": states("first_layers"),
    "num_layers_in_last_pipeline_stage": states("last_layers"),
    "account_for_embedding_in_pipeline_split": switch("embedding_counts"),
    "account_for_loss_in_pipeline_split": switch("loss_counts"),
    "pipeline_model_parallel_layout": lost("stages of equal size are simulated", unless=(None,)),
    "pipeline_model_parallel_split_rank": lost("stages of equal size are simulated", unless=(None,)),
    "standalone_embedding_stage": lost("the embedding shares the first stage"),
    "context_parallel_size": states("context"),
    "cp_comm_type": effectless,
    "hierarchical_context_parallel_sizes": lost("one level is simulated", unless=(None,)),
    "expert_model_parallel_size": lost(_MOE),
    "expert_tensor_parallel_size": lost(_MOE, unless=(None, 1, "1")),
    "sequence_parallel": switch("sequence_parallel"),
    "use_distributed_optimizer": chooses("parallel.optimizer_sharding", ZERO[1]),
    "num_distributed_optimizer_instances": lost("states are sharded over all data-parallel ranks"),
    "use_torch_fsdp2": chooses("parallel.optimizer_sharding", FSDP),
    "use_megatron_fsdp": chooses("parallel.optimizer_sharding", FSDP),
    "use_custom_fsdp": chooses("parallel.optimizer_sharding", FSDP),
    "use_fsdp": chooses("parallel.optimizer_sharding", FSDP),
    "use_tp_pp_dp_mapping": lost("stages are the outermost axis"),
    "recompute_granularity": _recompute,
    "recompute_activations": switch("recompute", "selective"),
    "checkpoint_activations": switch("recompute", "full"),
    "activations_checkpoint_granularity": _recompute,
    "activations_checkpoint_method": states("recompute_method", word),
    "activations_checkpoint_num_layers": states("recompute_layers"),
    "recompute_method": states("recompute_method", word),
    "recompute_num_layers": states("recompute_layers"),
    "recompute_modules": states("recompute_modules", lambda facts, flag: flag.value),
    "distribute_saved_activations": lost("saved activations are whole on every tensor rank"),
    "distribute_checkpointed_activations": lost("saved activations are whole on every tensor rank"),
}
"""Of the plan."""

PROFILED: Mapping[str, str] = {
    "DDP_impl": "megatron-lm-2021",
    "scattered_embeddings": "megatron-lm-2021",
    "checkpoint_activations": "megatron-lm-2021",
    "activations_checkpoint_method": "megatron-lm-2021",
    "no_contiguous_buffers_in_local_ddp": "megatron-lm-2021",
    "recompute_activations": "megatron-lm-2022",
    "recompute_granularity": "megatron-lm-2022",
    "sequence_parallel": "megatron-lm-2022",
    "use_distributed_optimizer": "megatron-lm-2022",
    "no_async_tensor_model_parallel_allreduce": "megatron-lm-2022",
    "use_flash_attn": "megatron-lm-2022",
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
"""The framework profile that a flag gives away; the latest of those named here wins."""

PROFILES = ("megatron-lm-2021", "megatron-lm-2022", "megatron-core", "megatron-deepspeed", "mindspeed-llm")
"""In the order in which they win over those before them."""

# Belongs to the framework profile: fusions, overlap, buckets. What a profile does cannot be changed one by one.
_OF_PROFILE = """
    overlap_grad_reduce overlap_param_gather overlap_param_gather_with_optimizer_step align_param_gather
    delay_grad_reduce no_delay_grad_reduce ddp_bucket_size ddp_average_in_collective tp_comm_overlap
    tp_comm_overlap_ag tp_comm_overlap_rs tp_comm_bulk_dgrad tp_comm_bulk_wgrad tp_comm_split_ag tp_comm_split_rs
    disable_tp_comm_overlap_ag disable_tp_comm_overlap_rs disable_tp_comm_bulk_dgrad disable_tp_comm_bulk_wgrad
    tp_comm_overlap_cfg overlap_p2p_comm batch_p2p_comm overlap_p2p_communication no_overlap_p2p_communication
    overlap_p2p_communication_warmup_flush defer_embedding_wgrad_compute deallocate_pipeline_outputs
    gradient_accumulation_fusion no_gradient_accumulation_fusion masked_softmax_fusion no_masked_softmax_fusion
    bias_gelu_fusion no_bias_gelu_fusion bias_swiglu_fusion no_bias_swiglu_fusion bias_dropout_fusion
    bias_dropout_add_fusion no_bias_dropout_fusion bias_activation_fusion no_persist_layer_norm persist_layer_norm
    apply_rope_fusion cross_entropy_loss_fusion cross_entropy_fusion_impl enable_cuda_graph cuda_graph_scope
    no_async_tensor_model_parallel_allreduce use_ring_exchange_p2p bucket_size use_ascend_coc use_ascend_mc2 use_mc2
    use_fused_rmsnorm use_fused_swiglu use_fused_rotary_pos_emb use_fused_ring_attention_update
    overlap_param_gather_with_optimizer_step num_layers_per_gradient_bucket
    DDP_impl no_contiguous_buffers_in_local_ddp nccl_ub disable_symmetric_registration
""".split()

# Times and bytes of a step do not depend on these.
_EFFECTLESS = """
    data_path data_prefix train_data_path valid_data_path test_data_path per_split_data_args_path data_cache_path
    data_impl mmap_bin_files split mock_data num_workers dataloader_type num_dataset_builder_threads
    vocab_file merge_file tokenizer_model tokenizer_name_or_path tiktoken_pattern
    tiktoken_num_special_tokens tokenizer_not_use_fast vocab_extra_ids legacy_tokenizer tokenizer_kwargs
    save load save_interval no_save_optim no_save_rng no_load_optim no_load_rng finetune use_checkpoint_args
    exit_on_missing_checkpoint ckpt_format use_dist_ckpt dist_ckpt_format async_save auto_detect_ckpt_format
    ckpt_fully_parallel_save ckpt_fully_parallel_load ckpt_assume_constant_structure non_persistent_save_interval
    pretrained_checkpoint override_opt_param_scheduler use_checkpoint_opt_param_scheduler dist_ckpt_strictness
    no_ckpt_fully_parallel_save no_initialization train_iters train_samples exit_interval exit_duration_in_mins
    exit_signal_handler eval_iters eval_interval skip_train log_interval log_params_norm log_num_zeros_in_grad
    log_throughput log_progress log_timers_to_tensorboard log_batch_size_to_tensorboard
    log_validation_ppl_to_tensorboard log_memory_to_tensorboard log_world_size_to_tensorboard
    log_learning_rate_to_tensorboard log_loss_scale_to_tensorboard no_log_learnig_rate_to_tensorboard
    no_log_loss_scale_to_tensorboard timing_log_level timing_log_option barrier_with_L1_time
    tensorboard_dir tensorboard_log_interval tensorboard_queue_size wandb_project wandb_exp_name wandb_save_dir
    wandb_entity one_logger_project logging_level loss_scale initial_loss_scale min_loss_scale loss_scale_window
    hysteresis seed data_parallel_random_init te_rng_tracker inference_rng_tracker init_method_std
    init_method_xavier_uniform lr_decay_style lr_decay_iters lr_decay_samples lr_warmup_iters lr_warmup_samples
    lr_warmup_fraction lr_warmup_init min_lr lr_wsd_decay_style lr_wsd_decay_samples lr_wsd_decay_iters
    start_weight_decay end_weight_decay weight_decay_incr_style decoupled_lr decoupled_min_lr
    attention_softmax_in_fp32 apply_query_key_layer_scaling no_query_key_layer_scaling query_key_layer_scaling
    fp16_lm_cross_entropy fp32_residual_connection reset_position_ids reset_attention_mask eod_mask_loss
    no_create_attention_mask_in_dataloader create_attention_mask_in_dataloader distributed_backend
    distributed_timeout_minutes local_rank lazy_mpu_init use_cpu_initialization empty_unused_memory_level
    check_for_nan_in_loss_and_grad no_check_for_nan_in_loss_and_grad check_for_nan_in_grad check_for_spiky_loss
    manual_gc manual_gc_interval no_manual_gc_eval profile profile_step_start profile_step_end profile_ranks
    use_pytorch_profiler record_memory_history memory_snapshot_path enable_ft_package disable_straggler_on_startup
    log_straggler use_mcore_models use_legacy_models transformer_impl use_flash_attn attention_backend
    calculate_per_token_loss calculate_per_token_loss_masked inference_batch_times_seqlen_threshold
    max_tokens_to_oom output_bert_embeddings deepspeed no_pipeline_parallel pp_partition_method adlr_autoresume
    adlr_autoresume_interval rank world_size cpu_offloading_activations moe_router_load_balancing_type
    keep_fp8_weight_transpose_cache no_shared_storage valid_num_workers no_data_sharding kill_switch_path
    use_one_sent_docs num_attention_heads_per_rank accumulate_steps use_torch_optimizer_for_cpu_offload
""".split()

MEANINGS: Mapping[str, Meaning] = {
    **dict.fromkeys(_EFFECTLESS, effectless),
    **dict.fromkeys(_OF_PROFILE, of_profile),
    **MODEL,
    **TRAINING,
    **PARALLEL,
}
"""All of them by name, without dashes."""


def meaning_of(name: str) -> Meaning | None:
    """What the argument called ``name`` means, or None if it is unknown here."""
    if name in MEANINGS:
        return MEANINGS[name]
    return _of_experts if name.startswith("moe_") else None


def _of_experts(facts: Facts, flag: Flag) -> None:
    facts.effectless(flag, "there are no experts")
