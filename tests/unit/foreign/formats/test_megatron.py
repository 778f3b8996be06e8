"""Megatron's arguments one by one, and scripts that cannot be read."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file

BASE = (
    "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 8 --hidden-size 1024"
    " --num-attention-heads 16 --seq-length 512 --max-position-embeddings 512 --micro-batch-size 1"
    " --global-batch-size 64 --vocab-size 50304 --bf16 "
)


def read(text, *, cluster="dgx-h100", hosts=None, variables=(), settings=()):
    given = UserAdditions(cluster, hosts, None, tuple(settings), dict(variables))
    return translate_file(importer("megatron"), text, "run.sh", given)


def refused(text, **options):
    with pytest.raises(ScenarioError) as caught:
        read(text, **options)
    return str(caught.value)


def fates(found, name):
    return [each.status for each in found.untranslated if each.flag.name == name]


def test_a_bare_launch_line():
    found = read(BASE)
    assert found.data["cluster"] == {"use": "dgx-h100", "hosts": 2}
    assert found.data["parallel"]["mesh"] == {"data": 16}
    assert found.data["training"]["global_batch"] == 64


def test_a_bare_list_of_arguments():
    arguments = BASE.partition(".py ")[2].replace(" --", "\n--")
    assert read(arguments, hosts=2).data == {**read(BASE).data, "name": "run"}


def test_the_global_batch_is_one_micro_batch_everywhere_if_not_given():
    found = read(BASE.replace("--global-batch-size 64", ""))
    assert found.data["training"]["global_batch"] == 16


@pytest.mark.parametrize(
    ("arguments", "path", "value"),
    [
        ("--swiglu", "ffn", 2688),  # int(8/3 x 1024 / 64) x 64
        ("--swiglu --ffn-hidden-size 2816", "ffn", 2816),
        ("", "ffn", 4096),
        ("--kv-channels 32", "head_dim", 32),
        ("--normalization RMSNorm", "norm", "rms"),
        ("--disable-bias-linear", "bias", False),
        ("--untie-embeddings-and-output-weights", "tied", False),
        ("--group-query-attention --num-query-groups 4", "kv_heads", 4),
        ("--num-query-groups 4", "kv_heads", None),
        ("--position-embedding-type rope", "max_positions", None),
        ("--padded-vocab-size 50432", "vocab", 50432),
        ("--make-vocab-size-divisible-by 1024", "vocab", 51200),
        ("--use-rotary-position-embeddings", "positions", "rotary"),
        ("--position-embedding-type yarn", "positions", "rotary"),
        ("--position-embedding-type another", "positions", "rotary"),  # as the list of losses says
        ("--normalization another", "norm", "rms"),
        ("--no-position-embedding", "positions", "none"),
        ("--no-position-embedding --position-embedding-type rope", "positions", "rotary"),
        ("--window-size 127,0 --window-attn-skip-freq 2", "window_every", 2),
        ("--window-size 127,0 --window-attn-skip-freq '([1,0]*4)'", "window_every", 2),
        ("--window-size 127,0 --window-attn-skip-freq 6", "full_attention_every", 6),
        ("--window-size 127,0 --window-attn-skip-freq '([1,1,0]*3)'", "full_attention_every", 3),
        ("--window-size 127,0 --window-attn-skip-freq '([0]*2+[1]*6)'", "full_attention_every", None),
        ("--window-attn-skip-freq 2", "window_every", None),
        ("--attention-chunk-size 128", "window", 128),
        ("--attention-chunk-size 128 --no-rope-freq 4", "full_attention_every", 4),
        ("--attention-chunk-size 128 --no-rope-freq '([0,0,1]*4)'", "full_attention_every", 3),
        ("--no-rope-freq 4", "full_attention_every", None),
    ],
)
def test_model_arguments(arguments, path, value):
    assert read(BASE + arguments).data["model"].get(path) == value


def test_what_llama_4_has_and_is_not_simulated_is_told():
    found = read(f"{BASE} --attention-chunk-size 128 --no-rope-freq 4 --qk-l2-norm")
    lost = {entry.flag.name for entry in found.untranslated if entry.status is TranslationStatus.UNSUPPORTED}
    assert {"--no-rope-freq", "--qk-l2-norm"} <= lost
    assert any("sliding window here" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("arguments", "compute", "gradients"),
    [
        ("", "bf16", "fp32"),
        ("--fp16", "fp16", "fp16"),
        ("--fp16 --accumulate-allreduce-grads-in-fp32", "fp16", "fp32"),
        ("--grad-reduce-in-bf16", "bf16", "bf16"),
    ],
)
def test_number_formats(arguments, compute, gradients):
    text = BASE.replace("--bf16", "") if "--fp16" in arguments else BASE
    precision = read(text + arguments).data["training"]["precision"]
    assert precision == {"compute": compute, "gradients": gradients}


@pytest.mark.parametrize(("stage", "gradients"), [(0, "fp32"), (1, "bf16"), (2, "bf16")])
def test_gradients_of_deepspeed_have_the_models_format_under_zero(stage, gradients):
    found = read(f"{BASE} --deepspeed --zero-stage {stage}")
    assert found.data["training"]["precision"]["gradients"] == gradients


@pytest.mark.parametrize(("layers", "p2p"), [(1, None), (2, "blocking")])
def test_one_virtual_stage_of_each_device_is_none(layers, p2p):
    """Megatron drops a virtual pipeline of one chunk, and with it the overlap of transfers."""
    virtual = f"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage {layers}"
    assert read(f"{BASE} {virtual}").data["parallel"]["schedule"].get("p2p") == p2p


@pytest.mark.parametrize(
    ("arguments", "layers", "aloud"),
    [
        ("", None, False),
        ("--recompute-activations", None, False),
        ("--recompute-granularity selective", None, False),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", "all", False),
        ("--recompute-granularity full --recompute-method uniform --recompute-num-layers 2", "all", True),
        ("--recompute-granularity full --recompute-method block --recompute-num-layers 8", "all", False),
        ("--recompute-granularity full --recompute-method block --recompute-num-layers 3", 3, False),
        ("--checkpoint-activations", "all", False),
        ("--activations-checkpoint-method uniform", "all", False),
        ("--recompute-method uniform --no-load-rng", "all", False),
    ],
)
def test_recomputation(arguments, layers, aloud):
    found = read(BASE + "--use-mcore-models --hidden-dropout 0 --attention-dropout 0 " + arguments)
    assert found.data["parallel"].get("recompute", {}).get("layers") == layers
    assert (TranslationStatus.UNSUPPORTED in fates(found, "--recompute-num-layers")) == aloud


@pytest.mark.parametrize(
    ("arguments", "recompute"),
    [
        (
            "--recompute-granularity full --recompute-method uniform --distribute-saved-activations",
            {"layers": "all", "slice": True},
        ),
        (
            "--recompute-granularity selective --recompute-modules layernorm mlp",
            {
                "operators": ["layers.*.{attention,mlp}.norm", "layers.*.mlp.{up,activation,down}*"],
                "keep_outputs": ["layers.*.mlp.{up,activation,down}*"],
            },
        ),
        (
            "--recompute-granularity selective --recompute-modules core_attn",
            {"operators": ["layers.*.attention.core*"], "keep_outputs": ["layers.*.attention.core*"]},
        ),
        ("--distribute-saved-activations", None),
    ],
)
def test_what_of_it_is_recomputed(arguments, recompute):
    found = read(BASE + "--use-mcore-models --hidden-dropout 0 --attention-dropout 0 " + arguments)
    assert found.data["parallel"].get("recompute") == recompute


@pytest.mark.parametrize(
    ("how", "heads", "ring"),
    [
        ("", None, True),
        ("p2p", None, True),
        ("all_gather", None, False),
        ("a2a", ["tensor", "context"], False),
    ],
)
def test_context_parallelism(how, heads, ring):
    kind = f" --cp-comm-type {how}" if how else ""
    found = read(BASE + "--context-parallel-size 2 --tensor-model-parallel-size 4" + kind)
    assert found.data["parallel"]["mesh"]["context"] == 2
    core = [{"match": "layers.*.attention.core{,.*}", "split": {"heads": heads}}]
    assert found.data["parallel"].get("strategies") == (core if heads else None)
    assert found.data["parallel"].get("context") == ("ring" if ring else None)


def test_unfused_attention_is_recomputed_without_what_it_gives():
    found = read(BASE + "--recompute-activations --hidden-dropout 0 --attention-dropout 0")
    assert found.data["framework"] == "megatron-lm-2022"
    core = ["layers.*.attention.core*"]
    assert found.data["parallel"]["recompute"] == {"operators": core, "keep_outputs": core}


@pytest.mark.parametrize(
    ("arguments", "mesh", "recipe"),
    [
        ("--tensor-model-parallel-size 4", {"data": 4, "tensor": 4}, "megatron"),
        ("--tensor-model-parallel-size 4 --sequence-parallel", {"data": 4, "tensor": 4}, "megatron_sp"),
        ("--pipeline-model-parallel-size 4", {"pipeline": 4, "data": 4}, None),
        (
            "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2",
            {"pipeline": 2, "data": 4, "tensor": 2},
            "megatron",
        ),
        ("--sequence-parallel", {"data": 16}, None),
    ],
)
def test_the_mesh(arguments, mesh, recipe):
    parallel = read(BASE + arguments).data["parallel"]
    assert parallel["mesh"] == mesh
    assert list(parallel["mesh"]) == list(mesh)
    assert parallel.get("recipe") == recipe


def test_uneven_stages():
    arguments = "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 3"
    assert read(BASE + arguments).data["parallel"]["schedule"]["stages"] == [3, 5]
    counted = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
    ten = BASE.replace("--num-layers 8", "--num-layers 10") + "--pipeline-model-parallel-size 4 "
    assert read(ten + counted).data["parallel"]["schedule"]["stages"] == [2, 3, 3, 2]


def test_virtual_stages_are_chunks():
    arguments = "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2"
    found = read(BASE + arguments)
    schedule = found.data["parallel"]["schedule"]
    assert (schedule["kind"], schedule["chunks"]) == ("interleaved", 2)
    assert TranslationStatus.UNSUPPORTED not in fates(found, "--num-layers-per-virtual-pipeline-stage")
    assert "8 layers / (3 x 2 stages) = 1.33" in refused(BASE + arguments.replace("stage 2", "stage 3"))


def test_uneven_stages_are_shared_by_their_chunks():
    ends = "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
    found = read(BASE + ends + "--decoder-first-pipeline-num-layers 2")
    assert found.data["parallel"]["schedule"]["stages"] == [[1, 3], [1, 3]]
    wrong = refused(BASE + ends + "--decoder-first-pipeline-num-layers 3")
    assert "stages of 3, 5 layers do not divide by 2 chunks" in wrong


def test_blocks_of_layers_are_recomputed_in_every_chunk():
    chunks = "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
    block = "--recompute-granularity full --recompute-method block --recompute-num-layers 1"
    assert read(BASE + chunks + block).data["parallel"]["recompute"] == {"layers": [[1, 1], [1, 1]]}


def test_hosts_of_the_option_win_aloud():
    found = read(BASE, hosts=4)
    assert found.data["parallel"]["mesh"] == {"data": 32}
    assert any("--hosts 4: 4 x 8 = 32 devices; the file has 16" in remark for remark in found.remarks)


def test_a_batch_script_says_how_many_hosts():
    text = "#SBATCH -N 4 --gres=gpu:8\nsrun python " + BASE.partition("--nnodes 2 ")[2]
    assert read(text).data["cluster"]["hosts"] == 4


def test_the_last_of_repeated_arguments_counts_aloud():
    found = read(BASE + "--num-layers 4")
    assert found.data["model"]["layers"] == 4
    assert any("--num-layers 4 replaces --num-layers 8" in remark for remark in found.remarks)


def test_settings_win_and_keep_their_place_in_errors():
    assert read(BASE, settings=[("model.layers", "4")]).data["model"]["layers"] == 4
    assert "--set model.layers=-4" in refused(BASE, settings=[("model.layers", "-4")])


def test_muon():
    """Defaults of Megatron are another scaling and mode than the published optimizer's."""
    found = read(BASE + "--optimizer dist_muon --muon-momentum 0.95 --muon-tp-mode distributed")
    assert found.data["training"]["optimizer"] == {
        "kind": "muon",
        "momentum": 0.95,
        "nesterov": False,
        "scaling": "spectral",
        "matrices": "duplicated",
        "clip": 1.0,
    }
    assert found.data["parallel"]["optimizer_sharding"] == {"states": True, "split": "parameters"}
    assert fates(found, "--muon-tp-mode") == [TranslationStatus.UNSUPPORTED]
    other = read(BASE + "--muon-tp-mode duplicated")
    assert other.data["training"]["optimizer"] == {"kind": "adamw", "clip": 1.0}
    assert fates(other, "--muon-tp-mode") == [TranslationStatus.EFFECTLESS]


def test_effectless_and_framework_flags():
    found = read(BASE + "--log-interval 10 --seed 1 --overlap-grad-reduce --moe-router-topk 2")
    assert fates(found, "--log-interval") == [TranslationStatus.EFFECTLESS]
    assert fates(found, "--overlap-grad-reduce") == [TranslationStatus.EFFECTLESS]
    assert fates(found, "--moe-router-topk") == [TranslationStatus.EFFECTLESS]


def test_overlapped_reduction_alone_is_a_change_of_the_profile():
    limit = {"elements": 40_000_000, "elements_per_rank": 1_000_000}
    for more in ("", " --use-distributed-optimizer"):
        found = read(f"{BASE} --overlap-grad-reduce{more}")
        overlapped = {"use": "megatron-core", "reduction": {"overlap": True, "limit": limit}}
        assert found.data["framework"] == overlapped
    both = read(f"{BASE} --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather")
    assert both.data["framework"] == "nemo"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BASE.replace("--num-layers 8", "--num-layers eight"),
            "run.sh:1: --num-layers eight: expected an integer",
        ),
        (
            BASE.replace("--num-layers 8", "--num-layers 1e100"),
            "run.sh:1: --num-layers 1e100: expected an integer",
        ),
        (BASE.replace("--num-layers 8", "--num-layers 8 9"), "--num-layers 8 9: expected a single value"),
        (BASE.replace("--num-layers 8", "--num-layers"), "--num-layers: expected an integer"),
        (BASE.replace("--num-layers 8", "--num-layers 0"), "run.sh:1: --num-layers 0: 0 is too small"),
        (BASE.replace("--num-layers 8", ""), "the file does not say the number of layers"),
        (BASE.replace("--seq-length 512", ""), "the file does not say the sequence length"),
        (
            BASE.replace("--num-layers 8", "--num-layers $LAYERS"),
            "leaves open what ${LAYERS} is; give --var LAYERS=VALUE",
        ),
        (BASE.replace("--num-layers 8", "--num-layers $(cat n)"), "leaves open what $(cat n) is"),
        (BASE.replace("--hidden-size 1024", "--hidden-size 1000"), "hidden 1000 / heads 16 = 62.5"),
        (BASE + "--tensor-model-parallel-size 5", "16 devices do not divide by tensor 5 = 5"),
        (
            BASE.replace("--nnodes 2", "--nnodes 1").replace("node 8", "node 4"),
            "4 devices / 8 per dgx-h100 = 0.5",
        ),
        (BASE + "--recompute-granularity all", "expected full or selective"),
        (BASE + "--zero-stage 4", "expected 0, 1, 2 or 3"),
        ("echo hello", "no arguments of Megatron are found in this file"),
        ("X='unbalanced\n" + BASE, "run.sh:1: the quote ' opened here is never closed"),
        ('\nX="unbalanced\n' + BASE, 'run.sh:2: the quote " opened here is never closed'),
        ("X=(a b\n" + BASE, "run.sh:1: the list opened with '(' is never closed"),
        ("X=${Y\n" + BASE, "run.sh:1: the '{' opened here is never closed"),
        ("X=$(ls\n" + BASE, "run.sh:1: the '(' opened here is never closed"),
        ("X=$((1+2\n" + BASE, "run.sh:1: the '((' opened here is never closed"),
        (BASE + "\n" + BASE + "--lr 1", "this script starts Megatron in 2 places, on lines 1, 2"),
        ("", "the file is empty"),
        ("  \n\n", "the file is empty"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    said = refused(text)
    assert message in said
    assert "Traceback" not in said


def test_what_is_missing_altogether():
    assert "on which machines it runs" in refused(BASE, cluster=None)
    assert "did you mean 'dgx-h100'?" in refused(BASE, cluster="dgx-h10")
    without = BASE.replace("--nproc_per_node 8 --nnodes 2", "")
    assert "on how many hosts it runs" in refused(without)
    assert read(without, hosts=2).data["parallel"]["mesh"] == {"data": 16}


def test_a_variable_under_a_condition_is_not_guessed():
    text = "N=8\nif [ $1 == big ]; then\n  N=16\nfi\n" + BASE.replace("--num-layers 8", "--num-layers $N")
    said = refused(text)
    assert "run.sh:5: --num-layers ${N}: the file leaves open what ${N} is" in said
    assert read(text, variables={"N": "16"}).data["model"]["layers"] == 16


def test_a_flag_behind_a_broken_continuation_is_remarked():
    found = read(BASE + "\\\n  --lr 1e-4 \n  --sequence-parallel --tensor-model-parallel-size 2\n")
    assert found.data["parallel"]["mesh"] == {"data": 16}
    assert any("is a '\\' missing" in remark for remark in found.remarks)


SPLIT = "--tensor-model-parallel-size 4 --sequence-parallel"


@pytest.mark.parametrize(
    ("arguments", "overlap"),
    [
        (f"{SPLIT} --tp-comm-overlap", {"chunks": 4}),
        (f"{SPLIT} --tp-comm-overlap --disable-tp-comm-overlap-rs", {"chunks": 4, "reductions": "none"}),
        (SPLIT, None),
        ("--tensor-model-parallel-size 4 --tp-comm-overlap", None),
        (f"{SPLIT} --tp-comm-overlap --disable-tp-comm-overlap-rs --disable-tp-comm-overlap-ag", None),
    ],
)
def test_overlap_of_tensor_parallel_communication_is_in_chunks(arguments, overlap):
    found = read(BASE + arguments)
    assert found.data["parallel"].get("overlap") == (overlap and {"tensor": overlap})
    if overlap is None and "--tp-comm-overlap" in arguments:
        assert fates(found, "--tp-comm-overlap") == [TranslationStatus.EFFECTLESS]


@pytest.mark.parametrize(
    ("tokenizer", "rows"),
    [
        ("deepseek-ai/DeepSeek-V3", 129280),
        ("/models/Meta-Llama-3-8B/tokenizer.json", 128256),
        ("Qwen/Qwen2.5-7B", 152064),
    ],
)
def test_the_vocabulary_of_a_tokenizer_that_is_known_by_its_model(tokenizer, rows):
    text = BASE.replace(
        "--vocab-size 50304", f"--tokenizer-type HuggingFaceTokenizer --tokenizer-model {tokenizer}"
    )
    found = read(text)
    assert found.data["model"]["vocab"] == rows
    assert any("as its model has" in remark for remark in found.remarks)
    assert read(text + " --vocab-size 1024").data["model"]["vocab"] == 1024
    unknown = refused(text.replace(tokenizer, "tokenizer.model"))
    assert "the file does not say the vocabulary size" in unknown


def test_a_plan_for_more_hosts_than_the_file_says():
    text = BASE.replace("--nnodes 2", "--nnodes 1") + " --tensor-model-parallel-size 8"
    wide = refused(text + " --pipeline-model-parallel-size 4 --num-experts 8")
    assert "8 devices do not divide by pipeline 4 x tensor 8 = 32" in wide
    assert "give --hosts 4 or more" in wide
    experts = BASE + " --num-experts 32 --expert-model-parallel-size 32"
    assert "give --hosts 4 or more" in refused(experts)
    assert "--hosts" not in refused(experts, hosts=3)


def test_variables_of_a_file_of_arguments():
    text = "MODEL_ARGS:\n" + "".join(
        f"  --{words[0]}: {words[1] if len(words) > 1 else 'true'}\n"
        for words in (part.split() for part in BASE.partition(".py --")[2].split(" --"))
    )
    text += "  --tensor-model-parallel-size: ${TP}\n"
    assert read(text, hosts=2, variables=[("TP", "2")]).data["parallel"]["mesh"] == {"data": 8, "tensor": 2}
    assert "give --var TP=VALUE" in refused(text, hosts=2)
    assert "the file has no variable 'PP'" in refused(text, hosts=2, variables=[("TP", "2"), ("PP", "1")])


@pytest.mark.parametrize(
    ("chunked", "ends", "rows"),
    [
        # 14 layers, embedding and loss: 16 on 2 stages of 2 chunks.
        ("--num-layers-per-virtual-pipeline-stage 4", "embedding loss", [[3, 4], [4, 3]]),
        ("--num-virtual-stages-per-pipeline-rank 2", "embedding loss", [[3, 4], [4, 3]]),
        ("--num-layers-per-virtual-pipeline-stage 2", "embedding loss", [[1, 2], [2, 2], [2, 2], [2, 1]]),
        ("--num-layers-per-virtual-pipeline-stage 1", "embedding loss", [[0, 1], *[[1, 1]] * 6, [1, 0]]),
    ],
)
def test_embedding_and_loss_count_in_chunks_of_stages(chunked, ends, rows):
    text = BASE.replace("--num-layers 8", "--num-layers 14") + "--pipeline-model-parallel-size 2 "
    text += " ".join(f"--account-for-{end}-in-pipeline-split" for end in ends.split())
    schedule = read(f"{text} {chunked}").data["parallel"]["schedule"]
    assert schedule["kind"] == "interleaved"
    assert schedule["chunks"] == len(rows)
    assert schedule["stages"] == rows


def test_embedding_that_counts_and_chunks_that_do_not_divide():
    text = BASE + "--pipeline-model-parallel-size 2 --account-for-embedding-in-pipeline-split "
    said = refused(text + "--num-layers-per-virtual-pipeline-stage 2")
    assert "8 layers + 1 that count as layers / (2 x 2 stages) = 2.25" in said
