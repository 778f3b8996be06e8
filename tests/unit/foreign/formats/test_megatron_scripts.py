"""Scripts as people have them: forks' arguments, other programs, conditions, here-documents."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus
from simcluster.model import padded
from simcluster.scenario import Scenario
from tests.support.megatron_launches import BERT, LINE, SIZES, T5, VISION, read


def refused(text, **options):
    with pytest.raises(ScenarioError) as caught:
        read(text, **options)
    return str(caught.value)


def fates(found, name):
    return [each.status for each in found.untranslated if each.flag.name == name]


# -- the program decides ------------------------------------------------------------------------------


def test_bert_is_a_bert():
    found = read(BERT)
    assert found.data["model"] == {
        "family": "bert",
        "layers": 24,
        "hidden": 1024,
        "heads": 16,
        "ffn": 4096,
        "vocab": 30592,
        "max_positions": 512,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "masked": 1.0,
    }
    told = read(BERT + " --swiglu --ffn-hidden-size 4096")
    assert fates(told, "--swiglu") == [TranslationStatus.UNSUPPORTED]


def test_t5_has_an_encoder_and_a_decoder():
    found = read(T5)
    model = found.data["model"]
    assert (model["family"], model["encoder_layers"], model["decoder_layers"]) == ("t5", 12, 6)
    assert (model["decoder_seq_len"], found.data["training"]["seq_len"]) == (128, 512)
    assert model["vocab"] == 28996 + 100
    assert any("positions: relative instead of learned" in each.reason for each in found.untranslated)
    alike = read(T5.replace("--encoder-num-layers 12 --decoder-num-layers 6", "--num-layers 8"))
    assert (alike.data["model"]["encoder_layers"], alike.data["model"]["decoder_layers"]) == (8, 8)


def test_a_vision_transformer_has_pictures():
    found = read(VISION)
    assert found.data["model"]["family"] == "vit"
    assert found.data["training"]["seq_len"] == 197


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("pretrain_mamba.py", "state-space layers"),
        ("pretrain_hybrid.py", "state-space layers"),
        ("pretrain_retro.py", "retrieval"),
        ("pretrain_vlm.py", "models of pictures and texts"),
        ("convert_ckpt.py", "programs that do not compute a model"),
    ],
)
def test_programs_that_no_scenario_can_say_are_refused(program, words):
    said = refused(LINE.replace("pretrain_gpt.py", program))
    assert said.startswith(f"run.sh:1: {program}: no scenario can say {words}")


def test_an_inference_asks_for_its_prompts():
    line = LINE.replace("pretrain_gpt.py", "tools/run_text_generation_server.py")
    assert "how many tokens a prompt has" in refused(line)
    sizes = [("inference.batch", "32"), ("inference.prompt", "1024"), ("inference.tokens", "64")]
    found = read(line + "--tensor-model-parallel-size 8 --recompute-activations", options=sizes)
    assert found.data["inference"] == {"batch": 32, "prompt": 1024, "tokens": 64, "precision": "bf16"}
    assert "training" not in found.data


def test_an_unheard_of_program_is_told():
    found = read(LINE.replace("pretrain_gpt.py", "wonder.py"))
    assert fates(found, "wonder.py") == [TranslationStatus.UNKNOWN]
    assert fates(read(LINE), "pretrain_gpt.py") == [TranslationStatus.EFFECTLESS]


# -- what no scenario can say -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--full-attention-interval 4", "linear attention"),
        ("--linear-key-head-dim 128 --linear-num-value-heads 32", "linear attention"),
        ("--hybrid-override-pattern M-M*-", "state-space layers"),
        ("--is-hybrid-model", "state-space layers"),
        ("--mamba-state-dim 128", "state-space layers"),
        ("--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec", "state-space layers"),
        ("--index-topk 2048", "sparse attention"),
        ("--qlora", "adapters other"),
        ("--use-lf-gate", "localised filtering"),
    ],
)
def test_what_no_scenario_can_say_is_refused_once(arguments, words):
    said = refused(LINE + arguments)
    assert said.count("no scenario can say") == 1 and words in said


# -- arguments of forks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "path", "value"),
    [
        ("--num-key-value-heads 4", "model.kv_heads", 4),
        (
            "--lora-r 8 --lora-alpha 16 --lora-target-modules linear_qkv dense_4h_to_h",
            "training.lora",
            {"rank": 8, "alpha": 16, "targets": ["linear_qkv", "linear_fc2"]},
        ),
        ("--geglu --ffn-hidden-size 4096", "model.activation", "geglu"),
        ("--quick-geglu --ffn-hidden-size 4096", "model.activation", "geglu"),
        ("--gelu-tanh --ffn-hidden-size 4096", "model.activation", "geglu"),
        ("--glu-activation geglu --ffn-hidden-size 4096", "model.activation", "geglu"),
        (
            "--pipeline-model-parallel-size 2 --schedules-method dualpipev",
            "parallel.schedule.kind",
            "dualpipe_v",
        ),
        ("--pipeline-model-parallel-size 2 --zero-bubble-v-schedule", "parallel.schedule.kind", "zb_v"),
        (
            "--pipeline-model-parallel-size 4 --pipeline-model-parallel-blocks 3,5,5,3",
            "parallel.schedule.stages",
            [3, 5, 5, 3],
        ),
        (
            "--pipeline-model-parallel-size 4 --num-layer-list 3,5,5,3",
            "parallel.schedule.stages",
            [3, 5, 5, 3],
        ),
        ("--use-distributed-optimizer", "parallel.optimizer_sharding", {"zero": 1}),
        ("--optimizer mcore_distributed_optim", "parallel.optimizer_sharding", {"zero": 1}),
        ("--optimizer distributed_fused_adam", "parallel.optimizer_sharding", {"zero": 1}),
        ("--deepspeed --zero-stage 0", "parallel.optimizer_sharding", {"zero": 1}),
        ("--deepspeed --zero-stage 2", "parallel.optimizer_sharding", {"zero": 2}),
        (
            "--data-parallel-sharding-strategy optim --use-megatron-fsdp",
            "parallel.optimizer_sharding",
            {"zero": 1},
        ),
        ("--data-parallel-sharding-strategy optim", "parallel.optimizer_sharding", None),
    ],
)
def test_arguments_of_forks(arguments, path, value):
    line = LINE.replace("--swiglu ", "") if "lu" in arguments else LINE
    found = read(line + arguments).data
    for key in path.split("."):
        found = found.get(key) if found is not None else None
    assert found == value


def test_fp16_without_a_stage_is_not_sharded():
    found = read(LINE.replace("--bf16", "--fp16") + "--deepspeed --zero-stage 0")
    assert found.data["parallel"]["optimizer_sharding"] == {"zero": 0}


@pytest.mark.parametrize("stages", ["4,4,4", "4,4,4,5", "16,0,0,0", "a,b"])
def test_stages_that_do_not_hold_the_layers_are_refused(stages):
    said = refused(LINE + f"--pipeline-model-parallel-size 4 --pipeline-model-parallel-blocks {stages}")
    assert "--pipeline-model-parallel-blocks" in said


def test_stages_that_hold_embeddings_alone_are_refused():
    how = "--pipeline-model-parallel-size 8 --pp-partition-method 'type:transformer|embedding' "
    six = LINE.replace("--num-layers 16", "--num-layers 6")
    assert "6 layers + 2 / 8 stages = 1: the end stages have no layer" in refused(six + how)
    assert fates(read(LINE + how), "--pp-partition-method") == [TranslationStatus.EFFECTLESS]
    other = how.replace("type:transformer|embedding", "parameters")
    assert fates(read(LINE + other), "--pp-partition-method") == [TranslationStatus.UNSUPPORTED]


def test_shared_experts_and_dense_layers_by_number():
    experts = "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 1024 --expert-model-parallel-size 8 "
    found = read(LINE + experts + "--n-shared-experts 2 --first-k-dense-replace 1 --moe-layer-freq -1")
    assert (found.data["model"]["experts"]["shared"], found.data["model"]["experts"]["dense_layers"]) == (
        2,
        1,
    )
    assert TranslationStatus.UNKNOWN not in [each.status for each in found.untranslated]


@pytest.mark.parametrize(
    ("algorithm", "heads", "aloud"),
    [("ulysses_cp_algo", True, False), ("megatron_cp_algo", False, False), ("hybrid_cp_algo", False, True)],
)
def test_context_parallelism_by_its_names(algorithm, heads, aloud):
    found = read(LINE + f"--context-parallel-size 8 --context-parallel-algo {algorithm}")
    core = [{"match": "layers.*.attention.core{,.*}", "split": {"heads": ["context"]}}]
    assert found.data["parallel"].get("strategies") == (core if heads else None)
    assert (fates(found, "--context-parallel-algo") == [TranslationStatus.UNSUPPORTED]) == aloud


@pytest.mark.parametrize(("mask", "context"), [("causal", "ring"), ("general", "ring_masked")])
def test_rings_skip_what_a_causal_mask_hides_unless_told(mask, context):
    told = f"--context-parallel-size 8 --context-parallel-algo megatron_cp_algo --attention-mask-type {mask}"
    assert read(LINE + told).data["parallel"]["context"] == context


def test_latent_attention_has_its_norms_anyway():
    latent = (
        "--multi-latent-attention --qk-layernorm --kv-lora-rank 512 --qk-head-dim 128"
        " --qk-pos-emb-head-dim 64 --v-head-dim 128"
    )
    found = read(LINE + latent)
    assert "qk_norm" not in found.data["model"]
    assert fates(found, "--qk-layernorm") == [TranslationStatus.EFFECTLESS]


@pytest.mark.parametrize(
    ("arguments", "mesh", "experts"),
    [
        (
            "--expert-model-parallel-size 8 --context-parallel-size 4",
            {"data": 4, "expert": 2, "context": 4},
            ["expert", "context"],
        ),
        (
            "--expert-model-parallel-size 4 --context-parallel-size 4",
            {"data": 8, "context": 4},
            ["context"],
        ),
        (
            "--expert-model-parallel-size 8 --context-parallel-size 2 --tensor-model-parallel-size 2"
            " --sequence-parallel --expert-tensor-parallel-size 1",
            {"data": 4, "expert": 2, "context": 2, "tensor": 2},
            ["expert", "context", "tensor"],
        ),
    ],
)
def test_experts_lie_over_context_ranks_before_those_of_the_batch(arguments, mesh, experts):
    line = LINE + "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 1024 "
    found = read(line + arguments, hosts=4)
    assert found.data["parallel"]["mesh"] == mesh
    assert found.data["parallel"]["roles"] == {"experts": experts}


def test_ranks_of_experts_that_do_not_divide_are_shown():
    line = LINE + "--num-experts 12 --moe-router-topk 2 --context-parallel-size 4 "
    said = refused(line + "--expert-model-parallel-size 12")
    assert "2 data-parallel ways x 4 of the context axis / 12 = 0.666667" in said


@pytest.mark.parametrize(
    ("vocabulary", "rows"),
    [
        ("--make-vocab-size-divisible-by 1 --padded-vocab-size 152064", 152064),
        ("--make-vocab-size-divisible-by 1 --vocab-size 151936", 151936),
        ("--make-vocab-size-divisible-by 128 --vocab-size 151936", 152576),
    ],
)
def test_the_vocabulary_is_padded_as_the_file_says(vocabulary, rows):
    line = LINE.replace("--vocab-size 102400", vocabulary) + "--tensor-model-parallel-size 8"
    scenario = Scenario.of(read(line).data)
    multiple = scenario.framework.vocabulary_multiple * 8
    assert padded(scenario.model, multiple).vocab == rows


def test_a_here_document_of_deepspeed_is_read():
    text = f"""#!/bin/bash
CONFIG=./ds.json
STAGE=2
cat <<EOT > $CONFIG
{{
  "zero_optimization": {{"stage": $STAGE}},
  "gradient_clipping": 0.5,
  "bf16": {{"enabled": true}}
}}
EOT
deepspeed --num_gpus 8 pretrain_gpt.py {SIZES} --deepspeed --deepspeed_config $CONFIG
"""
    found = read(text)
    assert found.data["parallel"]["optimizer_sharding"] == {"zero": 2}
    assert found.data["training"]["optimizer"]["clip"] == 0.5
    assert found.origins["training.optimizer.clip"].where == "run.sh:7"
    assert "run.sh:6: zero_optimization.stage: $(n)" in refused(text.replace("$STAGE}", "$(n)}"))
    broken = read(text.replace('"gradient_clipping":', '"gradient_clipping'))
    assert fates(broken, "--deepspeed_config") == [TranslationStatus.UNSUPPORTED]
    elsewhere = read(text.replace("> $CONFIG", "> other.json"))
    assert fates(elsewhere, "--deepspeed_config") == [TranslationStatus.UNSUPPORTED]


def test_what_tells_the_profile_under_an_open_condition_is_told_first():
    found = read(f"if [ -f x ]; then A=(--deepspeed --overlap-grad-reduce); fi\n{LINE} ${{A[@]}}")
    assert (
        fates(found, "--deepspeed")
        == fates(found, "--overlap-grad-reduce")
        == [TranslationStatus.UNSUPPORTED]
    )
    assert found.data["framework"] == read(LINE).data["framework"]


# -- conditions ---------------------------------------------------------------------------------------


def test_arguments_under_an_open_condition_are_asked_for_if_they_change_anything():
    text = f"""ARGS=(--log-interval 1)
if [ -f /etc/fast ]; then
  ARGS+=(--fp8-format hybrid)
fi
{LINE} ${{ARGS[@]}}"""
    said = refused(text)
    assert "run.sh:3: --fp8-format hybrid: set on line 3 under a condition" in said
    assert read(text, variables={"ARGS": ""}).data["training"]["precision"].get("matmul") is None
    harmless = text.replace("--fp8-format hybrid", "--wandb-project x")
    assert fates(read(harmless), "--log-interval") == [TranslationStatus.EFFECTLESS]


ARGUMENTS = st.sampled_from(
    [
        "--wandb-project x",
        "--log-interval 5",
        "--no-save-optim",
        "--overlap-grad-reduce",
        "--use-flash-attn",
        "--fp8-format hybrid",
        "--use-distributed-optimizer",
        "--tensor-model-parallel-size 2",
        "--recompute-activations",
        "--num-layers 8",
        "--mtp-num-layers 1",
        "--lora-r 8",
        "--hidden-dropout 0.5",
        "--moe-router-topk 4",
        "--wonder 3",
        "--zero-stage 2",
        "--reuse-fp32-param",
        "--deepspeed",
    ]
)
CONDITIONS = st.sampled_from(["[ -f x ]", "[ $Q = 1 ]", "grep -q a b", "[[ $(nproc) -gt 4 ]]", "(( Q > 3 ))"])
UNDER = st.sampled_from(
    [
        "if {c}; then A+=({a}); fi",
        "if {c}; then A=({a}); else A=(--seed 1); fi",
        "{c} && A+=({a})",
        "case $Q in 1) A+=({a}) ;; esac",
        "while {c}; do A+=({a}); done",
    ]
)


@settings(max_examples=10, deadline=None)
@given(ARGUMENTS, CONDITIONS, UNDER)
def test_no_argument_under_an_open_condition_is_taken_or_lost_in_silence(argument, condition, under):
    """Refused, with its line; or told by name, with the scenario as it is without it."""
    script = under.format(c=condition, a=argument)
    name = argument.split()[0]
    try:
        found = read(f"A=(--seed 1)\n{script}\n{LINE} ${{A[@]}}")
    except ScenarioError as error:
        problem = error.problems[0]
        assert name in str(problem) and "under a condition" in str(problem) and problem.where == "run.sh:2"
        return
    entries = [entry for entry in found.untranslated if entry.flag.name == name]
    assert entries and all(
        entry.status is not TranslationStatus.UNSUPPORTED or "under a condition" in entry.reason
        for entry in entries
    )
    assert found.data == read(LINE).data


def test_arguments_under_a_known_condition_count():
    text = f'''DTYPE=${{1:-fp8}}
if [[ "$DTYPE" == "fp8" ]]; then ARGS=(--fp8-format hybrid); else ARGS=(--log-interval 1); fi
{LINE} "${{ARGS[@]}}"'''
    assert read(text).data["training"]["precision"]["matmul"] == "fp8"
    assert "matmul" not in read(text, variables={"1": "bf16"}).data["training"]["precision"]


@pytest.mark.parametrize(
    ("flags", "matmul"), [("--fp8-format hybrid", "fp8"), ("--fp4-format e2m1", "nvfp4")]
)
def test_narrow_formats_of_matmuls(flags, matmul):
    assert read(f"{LINE} {flags}").data["training"]["precision"]["matmul"] == matmul


def test_a_word_that_nothing_sets_is_told_and_not_charged_to_the_argument_before_it():
    found = read(LINE + "--tensor-model-parallel-size 2 --sequence-parallel ${EXTRA_ARGS[@]} ${te_options}")
    assert found.data["parallel"]["recipe"] == "megatron_sp"
    assert fates(found, "${EXTRA_ARGS[@]}") == fates(found, "${te_options}") == [TranslationStatus.UNKNOWN]


def test_a_word_that_is_set_where_nothing_runs_is_empty():
    text = f"""OFFLOAD=false
if [ $OFFLOAD != false ]; then options="--optimizer-cpu-offload"; fi
{LINE} ${{options}} ${{others}}"""
    found = read(text)
    assert fates(found, "${options}") == [TranslationStatus.EFFECTLESS]
    ((fate, reason),) = [
        (each.status, each.reason) for each in found.untranslated if each.flag.name == "${others}"
    ]
    assert fate is TranslationStatus.UNKNOWN and "taken as empty; --var others=..." in reason


def test_a_model_in_a_file_that_is_read_besides_is_asked_for_in_these_words():
    text = """source models/qwen3-4B.sh
torchrun --nproc_per_node 8 train.py --micro-batch-size 1 ${MODEL_ARGS[@]} --global-batch-size 64"""
    said = refused(text)
    assert "run.sh:2: ${MODEL_ARGS[@]}: nothing in this file sets it" in said
    assert "models/qwen3-4B.sh" in said and "position table" not in said


def test_a_size_of_an_open_condition_names_what_decides_it():
    text = f"""if [ $SIZE = 7B ]; then N=32; else N=40; fi
{LINE.replace("--num-layers 16", "--num-layers $N")}"""
    said = refused(text)
    assert "the file leaves open what ${N} is, set on line 1 under a condition that --var SIZE=..." in said
    assert read(text, variables={"SIZE": "7B"}).data["model"]["layers"] == 32
    assert read(text, variables={"SIZE": "13B"}).data["model"]["layers"] == 40


def test_a_quoted_command_for_another_shell_is_read_there():
    text = f"""export CMD="pretrain_gpt.py {SIZES}"
export LAUNCHER="torchrun --nproc_per_node 8 --master_port 6000"
srun --jobid $SLURM_JOBID bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD' 2>&1 | tee log"""
    found = read(text)
    assert not [each for each in found.untranslated if each.status is TranslationStatus.UNKNOWN]
    assert found.data["model"]["layers"] == 16


def test_words_of_launchers_are_not_arguments():
    text = f"""opts="{SIZES} --pipeline-model-parallel-size 1"
run_cmd="deepspeed --master_port 6000 `pwd`/pretrain_gpt.py ${{opts}} --save /x/$(whoami)"
eval ${{run_cmd}}"""
    assert not [each for each in read(text).untranslated if each.status is TranslationStatus.UNKNOWN]
