"""What becomes of settings without a line in the scenario: told first, refused, or listed last."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import (
    Flag,
    Imported,
    TranslationStatus,
    UserAdditions,
    importer,
    importers,
    translate_file,
    translated_text,
)
from simcluster.foreign.assembly.inference_runs import state_inference
from simcluster.foreign.assembly.model_families import ALWAYS, adapt_to_family
from simcluster.foreign.file_translation import describe_untranslated
from simcluster.foreign.translation.facts import Facts
from simcluster.foreign.translation.flag_readers import refuses_setting
from simcluster.foreign.translation.unsupported_features import ADAPTERS, LINEAR_ATTENTION
from simcluster.model.spec.model_spec import ModelSpec

LINE = (
    "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 8 --hidden-size 1024"
    " --num-attention-heads 16 --seq-length 512 --max-position-embeddings 512 --micro-batch-size 1"
    " --global-batch-size 64 --vocab-size 50304 --bf16 --log-interval 1 --wonder 1 --window-size 127,0"
    " --window-attn-skip-freq [0,1,1]"
    " --pipeline-model-parallel-size 2 --overlap-param-gather"
)


def written(kind, text, *, model=None):
    return translate_file(importer(kind), text, "file", UserAdditions("dgx-h100", 1, model))


def test_what_changes_the_result_comes_first_and_what_changes_nothing_last():
    text = translated_text(written("megatron", LINE), importer("megatron"), "run.sh")
    changes, scenario = text.index("# Changes the result"), text.index("simcluster: 1")
    unknown, nothing = text.index("# Unknown here"), text.index("# No effect on time or memory")
    assert changes < text.index("--window-attn-skip-freq [0,1,1]: every layer has the window") < scenario
    assert scenario < unknown < text.index("--wonder 1") < text.index("# Worked out") < nothing
    assert nothing < text.index("--log-interval") and text.count("\n", nothing) <= 4


def test_the_order_is_that_of_gravity():
    order = [
        TranslationStatus.UNSUPPORTED,
        TranslationStatus.UNKNOWN,
        None,
        TranslationStatus.PROFILE,
        TranslationStatus.ABSORBED,
        TranslationStatus.EFFECTLESS,
    ]
    assert [fate for fate, _, _ in describe_untranslated(written("megatron", LINE))] == order


NO_FILES = {
    "no setting": "a: 1",
    "vocabulary": '{"the": 0, "optimize": 1, "model": 2, "seed": 3}',
    "config.json": '{"model_type": "llama", "hidden_size": 4096, "architectures": ["A"]}',
    "scenario": "simcluster: 1\nname: x\nmodel: {use: llama3-8b}\nparallel: {mesh: {data: 8}}\n",
}


@pytest.mark.parametrize("kind", importers())
@pytest.mark.parametrize("text", NO_FILES.values(), ids=NO_FILES)
def test_a_file_of_no_format_is_refused_by_each(kind, text):
    with pytest.raises(ScenarioError) as caught:
        written(kind, text, model="llama2-7b")
    problems = caught.value.problems
    assert len(problems) == 1
    assert any(
        words in problems[0].message for words in ("this is not", "this is not JSON", "no arguments of")
    )


def test_the_format_that_reads_it_is_named():
    with pytest.raises(ScenarioError, match="simcluster import mindformers reads a MindFormers YAML"):
        written("nemo", "run_mode: train\n")
    with pytest.raises(ScenarioError, match=r"model: \{hf: config.json\}"):
        written("deepspeed", NO_FILES["config.json"])
    with pytest.raises(ScenarioError, match="simcluster import llama-factory reads a LLaMA-Factory YAML"):
        written("nemo", "per_device_train_batch_size: 1\nlora_target: all\n")


def test_what_no_scenario_can_say_is_refused_once():
    facts = Facts()
    for name, value in (("--a", ["1"]), ("--b", True), ("--c", ["0"])):
        refuses_setting(LINEAR_ATTENTION)(facts, Flag(name, value, f"{name} {value}", "x.sh:3"))
    refuses_setting(ADAPTERS)(facts, Flag("--d", True, "--d", "x.sh:4"))
    first, second = facts.problems
    assert first.where == "x.sh:3" and "--a" in first.message
    assert "no scenario can say linear attention" in first.message
    assert "softmax attention in every layer" in first.hint
    assert "adapters" in second.message
    assert [(each.flag.name, each.status) for each in facts.untranslated] == [
        ("--b", TranslationStatus.ABSORBED),
        ("--c", TranslationStatus.EFFECTLESS),
    ]


@pytest.mark.parametrize("family", ALWAYS)
def test_a_family_keeps_what_it_has_and_tells_what_it_is_not(family):
    facts = Facts()
    facts.say("model.family", family, Flag("program", family, family, "x:1"))
    said = {"hidden": 64, "norm": "rms", "activation": "gelu", "window": 8}
    for line, (key, value) in enumerate(said.items(), 2):
        facts.say(f"model.{key}", value, Flag(key, value, f"{key}: {value}", f"x:{line}"))
    adapt_to_family(facts)
    assert all(ModelSpec.family_knows(family, path.split(".")[1]) for path in facts.known)
    assert facts.get("model.hidden") == 64
    fates = {each.flag.name: each.status for each in facts.untranslated}
    assert fates["window"] is TranslationStatus.UNSUPPORTED
    assert fates["norm"] is (
        TranslationStatus.EFFECTLESS if family == "t5" else TranslationStatus.UNSUPPORTED
    )


def test_an_inference_keeps_its_precision_and_nothing_of_training():
    facts = Facts()
    facts.say("task", "inference", Flag("run_mode", "predict", "run_mode: predict", "x:1"))
    facts.say("training.precision.compute", "fp16", Flag("dtype", "fp16", "dtype: fp16", "x:2"))
    facts.say("training.optimizer.kind", "lamb", Flag("kind", "lamb", "kind: lamb", "x:3"))
    facts.say("parallel.recompute", {"layers": "all"}, Flag("recompute", True, "recompute", "x:4"))
    state_inference(facts)
    assert facts.get("inference.precision") == "fp16"
    assert not [path for path in facts.known if path.startswith(("training", "parallel"))]
    assert {each.flag.name: each.status for each in facts.untranslated} == {
        "run_mode": TranslationStatus.ABSORBED,
        "kind": TranslationStatus.EFFECTLESS,
        "recompute": TranslationStatus.EFFECTLESS,
    }


def test_nothing_to_tell_is_nothing_told():
    assert list(describe_untranslated(Imported({}, {}, (), ()))) == []


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("verl", "trains with preferences or rewards"),
        ("trl", "'trainer' reads scripts"),
        ("huggingface", "model: {hf: config.json}"),
    ],
)
def test_tools_without_a_format_of_their_own(kind, said):
    with pytest.raises(ScenarioError) as caught:
        importer(kind)
    assert said in str(caught.value)
