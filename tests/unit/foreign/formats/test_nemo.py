"""NeMo's and Megatron-Bridge's YAML: references, precision, what each dialect calls things."""

from __future__ import annotations

import re

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus
from tests.support.foreign_samples import text_of
from tests.support.nemo_files import changed, read


def test_references_are_followed():
    found = read(text_of("gpt_nemo1.yaml"))
    assert found.data["training"]["seq_len"] == 4096
    assert found.origins["training.seq_len"].text == "model.data.seq_length: ${model.encoder_seq_length}"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("${model.nowhere}", "the file has no 'model.nowhere'"),
        ("${model.data.seq_length}", "these references go in circles"),
        ("???", "the file leaves this open\n    --set training.seq_len=... says it"),
        ("${wonder:4, 1024}", "leaves open what ${wonder:4, 1024} is"),
        ("${multiply:4, ${model.seed}, x}", "x is not a number: x"),
        ("${divide_ceil:4, 0}", "it divides by zero"),
        ("${divide_ceil:4}", "divide_ceil takes 2 numbers"),
        ("${multiply:1e60, 1e60}", "1e60 is too large for a size"),
        ("${multiply:4, ${model.seed}", "a bracket is open"),
    ],
)
def test_references_that_lead_nowhere(reference, message):
    with pytest.raises(ScenarioError) as caught:
        read(changed("seq_length: ${model.encoder_seq_length}", f"seq_length: '{reference}'"))
    assert message in str(caught.value)
    assert str(caught.value).startswith("n.yaml:")


@pytest.mark.parametrize(
    ("precision", "compute"), [("bf16-mixed", "bf16"), ("16", "fp16"), ("'16-mixed'", "fp16"), ("32", "fp32")]
)
def test_precision(precision, compute):
    found = read(changed("precision: bf16", f"precision: {precision}"))
    assert found.data["training"]["precision"]["compute"] == compute


def test_a_precision_nobody_knows():
    with pytest.raises(ScenarioError, match="expected bf16-mixed, 16-mixed or 32"):
        read(changed("precision: bf16", "precision: 4"))


def test_virtual_stages():
    found = read(
        changed("virtual_pipeline_model_parallel_size: null", "virtual_pipeline_model_parallel_size: 2")
    )
    lost = [
        each for each in found.untranslated if each.flag.name.endswith("virtual_pipeline_model_parallel_size")
    ]
    assert bool(lost) == (found.data["parallel"]["schedule"]["kind"] == "1f1b")
    assert all(each.status is TranslationStatus.UNSUPPORTED for each in lost)


@pytest.mark.parametrize("kind", ["tensor_model", "pipeline_model", "context"])
@pytest.mark.parametrize("size", [0, -1])
def test_axes_without_ranks_are_refused_with_their_line(kind, size):
    text = f"  {kind}_parallel_size: 1\n" if kind == "context" else ""
    text = text_of("gpt_nemo1.yaml").replace("  tensor_model_par", f"{text}  tensor_model_par", 1)
    wrong = re.sub(f"({kind}_parallel_size:) [0-9]+", f"\\1 {size}", text, count=1)
    with pytest.raises(
        ScenarioError, match=rf"n\.yaml:\d+: .*: {size}: expected a number of ranks, at least 1"
    ):
        read(wrong)


def test_query_groups_count_without_a_switch():
    found = read(changed("num_query_groups: null", "num_query_groups: 8"))
    assert found.data["model"]["kv_heads"] == 8


def test_a_configuration_class_is_a_model_of_the_catalog():
    found = read(text_of("llama3_70b_nemo2.yaml"), model=None)
    assert found.data["model"] == {"use": "llama3-70b"}
    found = read(changed("Llama3Config70B", "Llama3Config70B\n    num_layers: 16", "llama3_70b_nemo2.yaml"))
    assert found.data["model"] == {"use": "llama3-70b", "layers": 16}
    found = read(changed("Llama3Config70B", "Llama9Config70B", "llama3_70b_nemo2.yaml"), model="llama2-70b")
    assert found.data["model"] == {"use": "llama2-70b"}


def test_a_class_sets_what_the_file_leaves_out():
    """A provider of Llama with nothing but sizes is no GPT with layer norms and learned positions."""
    text = """model: {_target_: bridge.LlamaModelProvider, num_layers: 4, hidden_size: 256, seq_length: 512,
 num_attention_heads: 4, ffn_hidden_size: 512, share_embeddings_and_output_weights: true}
tokenizer: {vocab_size: 1024}
train: {global_batch_size: 128, micro_batch_size: 1}
"""
    found = read(text).data["model"]
    said = {
        "norm": "rms",
        "activation": "swiglu",
        "positions": "rotary",
        "bias": False,
        "tied": True,
        "vocab": 1024,
    }
    assert {key: found[key] for key in said} == said


def test_context_parallelism_is_said_or_listed():
    found = read(text_of("llama3_8b_bridge.yaml"))
    lost = [each for each in found.untranslated if each.flag.name == "model.context_parallel_size"]
    assert bool(lost) == ("context" not in found.data["parallel"]["mesh"])


def test_an_empty_file_is_refused():
    with pytest.raises(ScenarioError, match=r"n\.yaml: the file is empty"):
        read("\n \n")


@pytest.mark.parametrize(
    ("said", "ffn"),
    [
        ("${multiply:4, ${.hidden_size}}", 20480),
        ("${multiply: 4, ${model.hidden_size}}", 20480),
        ("${divide_ceil:${multiply:8, ${.hidden_size}}, 3}", 13654),
        ("${divide_floor:${multiply:8, ${.hidden_size}}, 3}", 13653),
        ("${sum:${.hidden_size}, ${.hidden_size}, -240}", 10000),
        ("${training.model.hidden_size}", 5120),
        ("${multiply:2, ${training.model.hidden_size}}", 10240),
        ("${oc.select:model.wider,4096}", 4096),
    ],
)
def test_the_resolvers_of_nemo_are_worked_out(said, ffn):
    found = read(changed("ffn_hidden_size: 13824", f"ffn_hidden_size: '{said}'"))
    assert found.data["model"]["ffn"] == ffn


def test_a_launcher_file_hangs_below_training():
    text = changed("max_position_embeddings: ${.encoder_seq_length}", "fp8: ${training.trainer.precision}")
    text = text.replace("  fp8: False\n", "")
    assert read(text).data["training"]["seq_len"] == 4096


@pytest.mark.parametrize(
    ("line", "option", "path"),
    [
        ("ffn_hidden_size: 13824", "49152", "model.ffn"),
        ("num_layers: 40", "48", "model.layers"),
        ("tensor_model_parallel_size: 4", "8", "parallel.mesh.tensor"),
        ("activation: fast-swiglu", "geglu", "model.activation"),
    ],
)
def test_what_the_file_leaves_open_is_given_with_set(line, option, path):
    """Also where other values follow from it."""
    text = changed(f"\n  {line}\n", f"\n  {line.split(':')[0]}: ???\n")
    with pytest.raises(ScenarioError) as caught:
        read(text)
    assert f"--set {path}=... says it" in str(caught.value)
    data = read(text, settings=((path, option),)).data
    for key in path.split("."):
        data = data[key]
    assert str(data) == option
    if path == "parallel.mesh.tensor":
        found = read(text, settings=((path, option),)).data
        assert found["parallel"]["mesh"] == {"pipeline": 4, "data": 4, "tensor": 8}


@pytest.mark.parametrize("value", ["${model.nowhere}", "???"])
def test_what_changes_the_result_is_told_even_if_it_is_left_open(value):
    found = read(changed("  wonder: 3\n", f"  mtp_num_layers: {value}\n"))
    (fate,) = (each.status for each in found.untranslated if each.flag.name == "model.mtp_num_layers")
    assert fate is TranslationStatus.UNSUPPORTED
