"""NeMo's and Megatron-Bridge's YAML: references, precision, what each dialect calls things."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import Fate, Given, importer, translate
from tests.unit.foreign.samples import text_of


def read(text, *, settings=(), model=None):
    return translate(importer("nemo"), text, "n.yaml", Given("dgx-h100", 16, model, settings))


def changed(old, new, name="gpt_nemo1.yaml"):
    text = text_of(name)
    assert text.count(old) == 1
    return text.replace(old, new)


def test_references_are_followed():
    found = read(text_of("gpt_nemo1.yaml"))
    assert found.data["training"]["seq_len"] == 4096
    assert found.origins["training.seq_len"].text == "model.data.seq_length: ${model.encoder_seq_length}"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("${model.nowhere}", "the file has no 'model.nowhere'"),
        ("${model.data.seq_length}", "these references go in circles"),
        ("???", "the file leaves this open; give it with --set"),
        ("${multiply:4, 1024}", "leaves open what ${multiply:4, 1024} is"),
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
    assert all(each.fate is Fate.UNSUPPORTED for each in lost)


def test_query_groups_count_without_a_switch():
    found = read(changed("num_query_groups: null", "num_query_groups: 8"))
    assert found.data["model"]["kv_heads"] == 8


def test_a_configuration_class_is_a_model_of_the_catalog():
    found = read(text_of("llama3_70b_nemo2.yaml"), model=None)
    assert found.data["model"] == {"use": "llama3-70b"}
    found = read(changed("Llama3Config70B", "Llama9Config70B", "llama3_70b_nemo2.yaml"), model="llama2-70b")
    assert found.data["model"] == {"use": "llama2-70b"}


def test_context_parallelism_is_said_or_listed():
    found = read(text_of("llama3_8b_bridge.yaml"))
    lost = [each for each in found.untranslated if each.flag.name == "model.context_parallel_size"]
    assert bool(lost) == ("context" not in found.data["parallel"]["mesh"])


def test_an_empty_file_is_refused():
    with pytest.raises(ScenarioError, match=r"n\.yaml: the file is empty"):
        read("\n \n")
