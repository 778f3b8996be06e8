#!/bin/bash
#SBATCH --nodes=192 --ntasks-per-node=8 --time=4:00:00
#SBATCH --job-name=gpt3-175b   # nothing of this matters

# GPT-3 175B with the plan of figure 12: 12 stages of tensor-parallel hosts.
TP=8
PP=12
DATA=/data/gpt
VERSION=$(touch EXECUTED; echo 1)

options=" \
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size $PP \
    --num-layers-per-virtual-pipeline-stage 2 \
    --num-layers 96 \
    --hidden-size 12288 \
    --num-attention-heads 96 \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --micro-batch-size 1 \
    --global-batch-size 1536 \
    --train-iters 20 --lr-decay-iters 320 \
    --lr 0.00015 --min-lr 0.00001 --lr-decay-style cosine --lr-warmup-fraction .001 \
    --tokenizer-type GPT2BPETokenizer \
    --vocab-file $DATA/vocab.json --merge-file $DATA/merges.txt \
    --data-path $DATA/text_document_$VERSION --split 969,30,1 \
    --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --init-method-std 0.006 \
    --clip-grad 1.0 --fp16 --loss-scale 8192 \
    --checkpoint-activations --DDP-impl local \
    --wonder-flag 3 \
    --log-interval 1 --eval-iters 0"

run_cmd="python -u ${DIR}/pretrain_gpt.py $@ ${options}"
srun -l --container-image image --output=`touch EXECUTED` sh -c "${run_cmd}"
