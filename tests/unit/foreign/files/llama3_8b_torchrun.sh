#!/usr/bin/env bash
set -euo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${NNODES:-4}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
MBS=1
STEPS=16

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes=$NNODES
    --master_addr ${MASTER_ADDR:-localhost}
)
MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096          # the width
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --rotary-base 500000
    --normalization RMSNorm --swiglu --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0 --hidden-dropout 0.0
    --use-mcore-models
)
DATA_ARGS=(
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER"
    --vocab-size 128256 --make-vocab-size-divisible-by 128
    --mock-data
)
TRAIN_ARGS=(
    --micro-batch-size $MBS
    --global-batch-size $((MBS * STEPS * WORLD_SIZE / 4))
    --bf16 --lr 3e-4 --clip-grad 1.0
    --optimizer adam
)
PARALLEL_ARGS="--tensor-model-parallel-size 4 --sequence-parallel"
PARALLEL_ARGS="$PARALLEL_ARGS --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"
PARALLEL_ARGS+=" --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"

cat <<END
torchrun pretrain_gpt.py --num-layers 99
END
echo torchrun ${MODEL_ARGS[@]}
torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" ${DATA_ARGS[@]} \
    ${TRAIN_ARGS[@]} $PARALLEL_ARGS \
    --data-path "/path with spaces/a" 2>&1 | tee log.txt
