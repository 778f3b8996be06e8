"""Launches of Megatron as they are read."""

from __future__ import annotations

from simcluster.foreign import UserAdditions, importer, translate_file

SIZES = (
    "--num-layers 16 --hidden-size 2048 --num-attention-heads 16 --seq-length 4096 --micro-batch-size 1"
    " --global-batch-size 64 --vocab-size 102400 --position-embedding-type rope --swiglu --bf16"
    " --disable-bias-linear "
)
LINE = f"torchrun --nproc_per_node 8 pretrain_gpt.py {SIZES}"
BERT = (
    "torchrun --nproc_per_node 8 pretrain_bert.py --num-layers 24 --hidden-size 1024"
    " --num-attention-heads 16 --seq-length 512 --micro-batch-size 4 --global-batch-size 32"
    " --vocab-size 30592 --max-position-embeddings 512 --fp16"
)
T5 = (
    "torchrun --nproc_per_node 8 /opt/megatron/pretrain_t5.py --encoder-num-layers 12"
    " --decoder-num-layers 6 --hidden-size 768 --num-attention-heads 12 --kv-channels 64"
    " --ffn-hidden-size 3072 --encoder-seq-length 512 --decoder-seq-length 128 --micro-batch-size 4"
    " --global-batch-size 64 --max-position-embeddings 512 --tokenizer-type BertWordPieceCase"
    " --vocab-extra-ids 100 --bf16"
)
VISION = (
    "torchrun --nproc_per_node 8 pretrain_vision_classify.py --num-layers 12 --hidden-size 768"
    " --num-attention-heads 12 --img-h 224 --img-w 224 --patch-dim 16 --num-classes 1000"
    " --seq-length 196 --micro-batch-size 4 --global-batch-size 64 --max-position-embeddings 196 --fp16"
)
EXPERTS_OVER_CONTEXT = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 32 --num-attention-heads 4"
    " --ffn-hidden-size 64 --seq-length 16 --micro-batch-size 1 --global-batch-size 4 --vocab-size 64"
    " --position-embedding-type rope --swiglu --bf16 --disable-bias-linear --hidden-dropout 0"
    " --attention-dropout 0 --num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 8"
    " --context-parallel-size 4"
)
OFFLOADING = (
    "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
    "--num-attention-heads 8 --seq-length 512 --vocab-size 32000 --micro-batch-size 1 "
    "--global-batch-size 16 --bf16 --use-distributed-optimizer --transformer-impl transformer_engine "
)


def read(text, *, hosts=1, cluster="dgx-h100", variables=(), options=()):
    return translate_file(
        importer("megatron"),
        text,
        "run.sh",
        UserAdditions(cluster, hosts, None, tuple(options), dict(variables)),
    )


def offloading(more, *, cluster="dgx-a100"):
    given = UserAdditions(cluster, None, None, (), {})
    return translate_file(importer("megatron"), OFFLOADING + more, "run.sh", given)
