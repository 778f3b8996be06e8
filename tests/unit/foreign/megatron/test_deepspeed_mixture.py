"""Experts of Megatron-DeepSpeed, vocabularies of tokenizers, and MindSpeed's recomputation per rank."""

import pytest

from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file

SIZES = (
    " --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 --micro-batch-size 1"
    " --max-position-embeddings 512 --global-batch-size 64 --fp16 "
)


def read(arguments, program="pretrain_gpt.py", vocab=" --vocab-size 50304"):
    text = f"torchrun --nproc_per_node 8 --nnodes 2 {program} {SIZES} {vocab} {arguments}"
    return translate_file(importer("megatron"), text, "run.sh", UserAdditions("dgx-a100"))


def aloud(found):
    return [str(each) for each in found.untranslated if each.status is TranslationStatus.UNSUPPORTED]


DEEPSPEED = "--deepspeed --num-experts 16 --moe-expert-parallel-size 8"


def test_experts_of_deepspeed():
    found = read(f"{DEEPSPEED} --expert-interval 1 --topk 2 --moe-train-capacity-factor 1.25")
    experts = found.data["model"]["experts"]
    assert (experts["count"], experts["top_k"], experts["capacity_factor"]) == (16, 2, 1.25)
    assert found.data["parallel"]["mesh"] == {"data": 2, "expert": 8}
    assert not aloud(found)


def test_defaults_of_deepspeed_are_told():
    found = read(DEEPSPEED)
    experts = found.data["model"]["experts"]
    assert (experts["top_k"], experts["capacity_factor"], experts["every"]) == (1, 1.0, 2)
    assert "dense_layers" not in experts or not experts["dense_layers"]
    assert not aloud(found)


def test_experts_of_deepspeed_that_drop_nothing():
    found = read(
        f"{DEEPSPEED} --expert-interval 1 --disable-moe-token-dropping --moe-train-capacity-factor 2"
    )
    assert "capacity_factor" not in found.data["model"]["experts"]


def test_experts_of_megatron_keep_megatron_s_defaults():
    experts = read("--num-experts 16 --expert-model-parallel-size 8").data["model"]["experts"]
    assert experts["top_k"] == 2 and "capacity_factor" not in experts


def test_a_different_number_of_experts_in_every_layer_is_told():
    found = read("--deepspeed --expert-interval 1 --num-experts 16 32")
    assert any("every layer has 16 experts" in line for line in aloud(found))


@pytest.mark.parametrize(
    ("program", "arguments", "rows"),
    [
        ("pretrain_gpt.py", "", 50257),
        ("pretrain_gpt2.py", "", 50257),
        ("pretrain_bert.py", "", 30522),
        ("pretrain_qwen.py", "--patch-tokenizer-type Qwen2Tokenizer --extra-vocab-size 421", 152064),
        ("pretrain_llama.py", "--patch-tokenizer-type LLama3Tokenizer --extra-vocab-size 256", 128256),
    ],
)
def test_vocabularies_of_tokenizers(program, arguments, rows):
    found = read(arguments, program, vocab="")
    assert found.data["model"]["vocab"] == rows
    assert any(f"{rows:,}" in remark for remark in found.remarks)


@pytest.mark.parametrize("arguments", ["--tokenizer-type HuggingFaceTokenizer", "--tokenizer-model x"])
def test_no_vocabulary_is_guessed_beside_another_tokenizer(arguments):
    with pytest.raises(Exception, match="does not say the vocabulary"):
        read(arguments, vocab="")


@pytest.mark.parametrize(
    ("count", "layers"),
    [(1, [[1, 1], [0, 0]]), (2, [[1, 1], [1, 1]]), (3, [[2, 2], [1, 1]]), (4, "all")],
)
def test_recomputed_layers_of_a_rank_are_shared_by_its_chunks(count, layers):
    said = "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2"
    said += f" --recompute-granularity full --recompute-method block --recompute-num-layers {count}"
    found = read(f"{said} --enable-recompute-layers-per-pp-rank")
    assert found.data["parallel"]["recompute"]["layers"] == layers


@pytest.mark.parametrize(
    ("launcher", "hosts"),
    [
        ("torchrun --nproc_per_node 8", 1),
        ("torchrun --nproc_per_node 8 --nnodes 2", 2),
        ("python -m torch.distributed.launch --nproc_per_node=8", 1),
        ("mpirun -np 32 --npernode 8 python", 4),
        ("srun -n 32 python", 4),
        ("srun -N 2 -n 2 torchrun --nproc_per_node 8", 2),
        ("#BSUB -nnodes 4\njsrun -n 32 -g 1 python", 4),
    ],
)
def test_hosts_of_launchers(launcher, hosts):
    text = f"{launcher} pretrain_gpt.py {SIZES}"
    found = translate_file(importer("megatron"), text, "run.sh", UserAdditions("dgx-a100"))
    assert found.data["cluster"]["hosts"] == hosts


def test_hosts_that_are_open_are_not_guessed():
    text = f"torchrun --nproc_per_node 8 --nnodes $N pretrain_gpt.py {SIZES}"
    with pytest.raises(Exception, match="on how many hosts"):
        translate_file(importer("megatron"), text, "run.sh", UserAdditions("dgx-a100"))


@pytest.mark.parametrize(("pending", "kind"), [(2, "zb_h1"), (4, "zb_h2")])
def test_forwards_under_way_in_a_zero_bubble_pipeline(pending, kind):
    found = read(
        f"--pipeline-model-parallel-size 2 --enable-zero-bubble --zero-bubble-max-pending-backward {pending}"
    )
    assert found.data["parallel"]["schedule"]["kind"] == kind


def test_slime_sets_precision_and_sharding_by_itself():
    found = read("--rollout-batch-size 32 --n-samples-per-prompt 8", "train.py").data
    assert found["parallel"]["optimizer_sharding"] == {"zero": 1}
    text = f"python train.py --actor-num-nodes 2 --actor-num-gpus-per-node 8 {SIZES} --vocab-size 50304"
    given = UserAdditions("dgx-a100")
    found = translate_file(importer("megatron"), text.replace("--fp16", ""), "run.sh", given).data
    assert found["training"]["precision"]["compute"] == "bf16"
    assert found["cluster"]["hosts"] == 2


def test_scripts_with_data_impl_are_of_before_megatron_core():
    assert read("--data-impl mmap").data["framework"] == "megatron-lm-2021"
    assert read("--data-impl mmap --sequence-parallel").data["framework"] == "megatron-lm-2022"


def test_an_open_number_of_extra_rows_may_be_said_as_the_vocabulary():
    text = f"torchrun --nproc_per_node 8 pretrain_qwen.py {SIZES} --patch-tokenizer-type Qwen2Tokenizer"
    given = UserAdditions("dgx-a100", settings=(("model.vocab", "152064"),))
    found = translate_file(importer("megatron"), f"{text} --extra-vocab-size $EXTRA", "run.sh", given)
    assert found.data["model"]["vocab"] == 152064
