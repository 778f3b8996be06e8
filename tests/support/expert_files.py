"""Small models with experts as Megatron and MindFormers write them."""

from __future__ import annotations

EXPERTS_OF_MEGATRON = """torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 4 \
--hidden-size 64 --ffn-hidden-size 128 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 \
--micro-batch-size 1 --global-batch-size 32 --vocab-size 128 --bf16 --disable-bias-linear --swiglu \
--hidden-dropout 0 --attention-dropout 0 --num-experts 8 --moe-router-topk 2 """

EXPERTS_OF_MINDFORMERS = """
runner_config: {batch_size: 1, epochs: 1}
parallel_config: {data_parallel: 8, model_parallel: 1, expert_parallel: 4}
moe_config: {expert_num: 8, num_experts_chosen: 2, shared_expert_num: 1, capacity_factor: 1.5}
model:
  model_config:
    type: LlamaConfig
    seq_length: 16
    hidden_size: 64
    num_layers: 4
    num_heads: 4
    intermediate_size: 128
    vocab_size: 128
    moe_intermediate_size: 32
    first_k_dense_replace: 1
    scoring_func: sigmoid
    topk_method: noaux_tc
"""
