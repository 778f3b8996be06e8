"""Layouts of pipelines, layers that compute nothing, overlapped pairs, and arguments in a YAML file."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file

BASE = (
    "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 16 --hidden-size 1024"
    " --num-attention-heads 16 --seq-length 512 --micro-batch-size 1 --global-batch-size 64"
    " --vocab-size 50304 --position-embedding-type rope --swiglu --bf16 "
)
VIRTUAL = "--num-layers-per-virtual-pipeline-stage 2 "
BLOCK = "--recompute-granularity full --recompute-method block --recompute-num-layers 1 "


def read(arguments, text=BASE):
    return translate_file(importer("megatron"), text + arguments, "run.sh", UserAdditions("dgx-h100", 1))


@pytest.mark.parametrize(
    ("layout", "stages", "chunks"),
    [
        ("'Et*4|(tttt|)*2t*4L'", [4, 4, 4, 4], None),
        ("'Et*3|(tt|)*6tL'", [[3, 2, 2, 2], [2, 2, 2, 1]], 2),
        ("'E|(ttt|)*2,(tt|)*4,ttL'", [[0, 3, 3, 2], [2, 2, 2, 2]], 2),
        ("'Et*4|ttt|ttt|(tt|)*3,m|L'", [[4, 3, 3, 2], [2, 1, 1, 0]], 2),
    ],
)
def test_layouts(layout, stages, chunks):
    found = read(f"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout {layout}")
    schedule = found.data["parallel"]["schedule"]
    assert (schedule["stages"], schedule.get("chunks")) == (stages, chunks)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("Et*8|t*8L", "2 parts do not spread over 4 stages"),
        ("Et|t|t|tL", "it has 4 layers, the model 16"),
        ("t*4|t*4|t*4|t*4L", "expected the parts of every stage, such as"),
    ],
)
def test_layouts_that_do_not_go_with_the_model(layout, said):
    with pytest.raises(ScenarioError, match=said):
        read(f"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout '{layout}'")


@pytest.mark.parametrize(
    ("arguments", "layers", "stages", "recompute"),
    [
        ("--noop-layers 15", 15, None, None),
        ("--noop-layers 13,14,15 --pipeline-model-parallel-size 4", 13, [4, 4, 4, 1], None),
        (
            f"--noop-layers 14,15 --pipeline-model-parallel-size 4 {VIRTUAL}{BLOCK}",
            14,
            [[2, 2, 2, 2], [2, 2, 2, 0]],
            [[1, 1, 1, 1], [1, 1, 1, 0]],
        ),
        (
            "--noop-layers 0,15 --pipeline-model-parallel-size 4 --schedules-method dualpipev",
            14,
            [[1, 2, 2, 2], [1, 2, 2, 2]],
            None,
        ),
    ],
)
def test_layers_that_compute_nothing(arguments, layers, stages, recompute):
    data = read(arguments).data
    assert data["model"]["layers"] == layers
    assert data["parallel"].get("schedule", {}).get("stages") == stages
    assert data["parallel"].get("recompute", {}).get("layers") == recompute


def test_a_stage_in_the_middle_without_layers_is_told():
    found = read("--noop-layers 4,5,6,7 --pipeline-model-parallel-size 4")
    lost = [entry.flag.name for entry in found.untranslated if entry.status is TranslationStatus.UNSUPPORTED]
    assert (found.data["model"]["layers"], lost) == (16, ["--noop-layers"])


@pytest.mark.parametrize("stages", [1, 2])
def test_pairs_of_a_forward_and_a_backward(stages):
    experts = "--num-experts 8 --expert-model-parallel-size 4 --overlap-moe-expert-parallel-comm"
    found = read(f"{experts} --pipeline-model-parallel-size {stages}")
    assert found.data["parallel"]["schedule"]["pairs"] is True


def test_modules_that_no_layer_has_are_not_recomputed():
    found = read("--recompute-granularity selective --recompute-modules moe_act layernorm")
    assert found.data["parallel"]["recompute"] == {"operators": ["layers.*.{attention,mlp}.norm"]}
    assert any("no layer has moe_act" in remark for remark in found.remarks)


def test_arguments_in_a_yaml_file():
    words = BASE.split("pretrain_gpt.py ")[1].split(" --")
    rows = [word.removeprefix("--").partition(" ") for word in words]
    body = "".join(f"  --{name}: {value.strip() or 'true'}\n" for name, _, value in rows)
    text = f"ENV_VARS:\n  A: 1\nMODEL_ARGS:\n{body}  --fp16: false\n  --wonder: 1\n"
    found = read("", text)
    assert found.data["model"] == read("").data["model"]
    assert found.data["training"] == read("").data["training"]
    (unknown,) = [entry for entry in found.untranslated if entry.status is TranslationStatus.UNKNOWN]
    assert unknown.flag.where == f"run.sh:{len(text.splitlines())}"


CONFIGURATION = """
language_model:
  num_layers: 24
  hidden_size: 1024
  num_attention_heads: 16
  num_query_groups: 4
  kv_channels: null
  activation_func: swiglu
  gated_linear_unit: False
  add_bias_linear: False
  hidden_dropout: 0.0
  attention_dropout: 0.0
model_parallel:
  tensor_model_parallel_size: 2
  sequence_parallel: True
  bf16: True
  fp16: False
micro_batch_size: 2
global_batch_size: 128
rampup_batch_size: [32, 32, 65324160]
seq_length: 4096
position_embedding_type: rope
untie_embeddings_and_output_weights: True
vocab_size: 32000
strange: 1
"""


def test_a_file_for_yaml_cfg():
    given = UserAdditions("dgx-h100", 1)
    found = translate_file(importer("megatron"), CONFIGURATION, "gpt_config.yaml", given)
    model = found.data["model"]
    assert (model["activation"], model["kv_heads"], model["bias"], model["tied"]) == (
        "swiglu",
        4,
        False,
        False,
    )
    assert found.data["parallel"]["mesh"] == {"data": 4, "tensor": 2}
    assert found.data["training"]["precision"]["compute"] == "bf16"
    assert found.origins["model.layers"].where == "gpt_config.yaml:3"
    unknown = [each.flag.name for each in found.untranslated if each.status is TranslationStatus.UNKNOWN]
    assert unknown == ["--strange"]
