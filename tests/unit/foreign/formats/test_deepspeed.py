"""DeepSpeed's JSON: batch arithmetic, ZeRO stages, malformed files."""

from __future__ import annotations

import json

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file
from simcluster.foreign.assembly.accepted_keys import schema_accepts

SEQ = (("training.seq_len", "2048"),)


def read(config, *, hosts=2, model="gpt3-1.3b", settings=SEQ):
    text = config if isinstance(config, str) else json.dumps(config, indent=1)
    return translate_file(
        importer("deepspeed"), text, "ds.json", UserAdditions("dgx-a100", hosts, model, settings)
    )


def refused(config, **options):
    with pytest.raises(ScenarioError) as caught:
        read(config, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("config", "total", "micro"),
    [
        (
            {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2},
            64,
            2,
        ),
        ({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2}, 64, 2),
        ({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}, 128, 2),
        ({"train_micro_batch_size_per_gpu": 2}, 32, 2),
        ({"train_batch_size": 64, "gradient_accumulation_steps": 2}, 64, 2),
    ],
)
def test_two_batch_sizes_give_the_third(config, total, micro):
    training = read(config).data["training"]
    assert (training["global_batch"], training["micro_batch"]) == (total, micro)


def test_three_that_disagree_are_shown_with_their_arithmetic():
    config = {"train_batch_size": 60, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}
    said = refused(config)
    assert said.startswith("ds.json:2: train_batch_size: 60: 2 per micro-batch x 2 micro-batches x 16")
    assert "= 64" in said


def test_what_does_not_divide():
    assert "not an integer" in refused({"train_batch_size": 60, "gradient_accumulation_steps": 7})


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_zero_stages(stage):
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage}}
    found = read(config)
    listed = [each for each in found.untranslated if each.flag.name == "zero_optimization.stage"]
    written = found.data["parallel"]["optimizer_sharding"]
    if schema_accepts("parallel.optimizer_sharding", {"zero": stage}):
        assert (written, listed) == ({"zero": stage}, [])
    else:
        assert written == {"zero": 1}
        assert [each.status for each in listed] == [TranslationStatus.UNSUPPORTED]


def test_values_left_to_the_program_are_remarked():
    found = read({"train_micro_batch_size_per_gpu": 1, "train_batch_size": "auto"})
    assert any("train_batch_size: auto: filled in by the program" in each for each in found.remarks)
    assert found.data["training"]["global_batch"] == 16


def test_tabs_are_blanks():
    assert read('{\n\t"train_micro_batch_size_per_gpu":\t4\n}').data["training"]["micro_batch"] == 4


def test_without_a_model():
    said = refused({"train_micro_batch_size_per_gpu": 1}, model=None)
    assert "the file does not say which model is trained" in said
    assert "--model llama3-70b" in said
    assert "sequence length" in refused({"train_micro_batch_size_per_gpu": 1}, settings=())
    assert "unknown model 'gpt4'" in refused({"train_micro_batch_size_per_gpu": 1}, model="gpt4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "ds.json:1:1: this is not a JSON object; expected '{'"),
        ("\n\nhello", "ds.json:3:1: this is not a JSON object"),
        ('{\n  // as usual\n  "a": 1}', "ds.json:2:3: JSON has no comments"),
        ('{"a": 1', "ds.json:1:1: the mapping opened with '{'"),
        ('{"a": 1 "b": 2}', "ds.json:1:"),
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('{"train_batch_size": "many"}', "ds.json:1: train_batch_size: many: expected an integer"),
        ('{"zero_optimization": {"stage": 7}}', "expected 0, 1, 2 or 3"),
        ('{"optimizer": {"params": {"betas": [0.9]}}}', "expected two numbers from 0 to 1"),
        ('{"bf16": {"enabled": 1}}', "expected true or false"),
    ],
)
def test_malformed(text, message):
    assert message in refused(text)


def test_variables_are_for_scripts():
    with pytest.raises(ScenarioError, match="a DeepSpeed JSON has no shell variables"):
        translate_file(importer("deepspeed"), "{}", "ds.json", UserAdditions(variables={"A": "1"}))


def test_sequence_parallelism_exchanges_heads():
    found = read({"train_micro_batch_size_per_gpu": 1, "sequence_parallel_size": 4})
    assert found.data["parallel"]["mesh"]["context"] == 4
    core = {"match": "layers.*.attention.core{,.*}", "split": {"heads": ["context"]}}
    assert found.data["parallel"]["strategies"] == [core]


MICRO = {"train_micro_batch_size_per_gpu": 1}


@pytest.mark.combinations
@pytest.mark.parametrize("stage", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("numbers", ["bf16", "bfloat16", "fp16", None])
@pytest.mark.parametrize("gradients", [None, "fp32", "bf16"])
def test_bf16_without_a_stage_is_sharded_as_stage_1(stage, numbers, gradients):
    """DeepSpeed's BF16_Optimizer; where bf16 gradients add up in bf16 it is not used."""
    config = dict(MICRO)
    config |= {} if stage is None else {"zero_optimization": {"stage": stage}}
    config |= {} if numbers is None else {numbers: {"enabled": True}}
    config |= {} if gradients is None else {"data_types": {"grad_accum_dtype": gradients}}
    data = read(config).data
    own = numbers in ("bf16", "bfloat16") and not stage and gradients != "bf16"
    assert data["parallel"]["optimizer_sharding"] == {"zero": 1 if own else stage or 0}
    if own:
        assert data["training"]["precision"]["gradients"] == "fp32"


@pytest.mark.parametrize(
    ("formats", "cluster", "compute"),
    [
        ({"bf16": "auto"}, "dgx-a100", "bf16"),
        ({"fp16": "auto"}, "dgx-a100", "fp16"),
        ({"fp16": "auto", "bf16": "auto"}, "dgx-a100", "bf16"),
        ({"bf16": "auto", "fp16": "auto"}, "dgx-1v", "fp16"),
        ({"bf16": "auto", "fp16": True}, "dgx-a100", "fp16"),
        ({"bf16": "auto", "fp16": False}, "dgx-a100", "bf16"),
    ],
)
def test_a_number_format_left_to_the_program_is_half_precision(formats, cluster, compute):
    config = MICRO | {name: {"enabled": value} for name, value in formats.items()}
    given = UserAdditions(cluster, 2, "gpt3-1.3b", SEQ)
    found = translate_file(importer("deepspeed"), json.dumps(config, indent=1), "ds.json", given)
    assert found.data["training"]["precision"]["compute"] == compute
    told = [each for each in found.remarks if ".enabled: auto: " in each]
    assert len(told) == (True not in formats.values())


def test_the_clip_of_the_trainer_and_no_sizes():
    found = read(MICRO | {"gradient_clipping": "auto", "optimizer": {"params": {"lr": "auto"}}})
    assert found.data["training"]["optimizer"]["clip"] == 1.0
    auto = dict.fromkeys(("train_batch_size", "train_micro_batch_size_per_gpu"), "auto")
    said = refused(auto | {"gradient_accumulation_steps": "auto"})
    assert "the file does not say the micro-batch" in said
    assert "the file does not say the global batch" in said


def test_a_stage_left_to_the_program_is_asked_for():
    config = MICRO | {"zero_optimization": {"stage": "auto"}}
    said = refused(config)
    assert "the program that reads this file fills in the stage" in said
    assert "--set parallel.optimizer_sharding={zero: 2}" in said
    found = read(config, settings=(*SEQ, ("parallel.optimizer_sharding.zero", "2")))
    assert found.data["parallel"]["optimizer_sharding"] == {"zero": 2}


def test_every_setting_may_be_left_to_the_program():
    """What changes the result is told first; nothing is dropped without a word."""
    names = ["tensor_parallel.autotp_size", "sparse_attention.mode", "communication_data_type"]
    for name in names:
        head, _, rest = name.partition(".")
        found = read(MICRO | ({head: {rest: "auto"}} if rest else {head: "auto"}))
        fates = {each.flag.name: each.status for each in found.untranslated}
        assert fates[name] is TranslationStatus.UNSUPPORTED
    found = read(MICRO | {"zero_optimization": {"reduce_bucket_size": "auto", "wonder": "auto"}})
    fates = {each.flag.name: each.status for each in found.untranslated}
    assert fates["zero_optimization.reduce_bucket_size"] is TranslationStatus.PROFILE
    assert fates["zero_optimization.wonder"] is TranslationStatus.UNKNOWN


def test_mics_shards_within_groups():
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "mics_shard_size": 4}}
    assert read(config).data["parallel"]["optimizer_sharding"] == {"zero": 3, "shard_size": 4}
    config["zero_optimization"]["mics_shard_size"] = -1
    assert read(config).data["parallel"]["optimizer_sharding"] == {"zero": 3}


def test_heads_are_exchanged_where_attention_is_several_kernels():
    config = {"train_micro_batch_size_per_gpu": 1, "sequence_parallel_size": 4}
    (entry,) = read(config).data["parallel"]["strategies"]
    assert entry["split"] == {"heads": ["context"]}


@pytest.mark.parametrize(
    ("config", "compute"),
    [
        ({"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}, "bf16"),
        ({"torch_autocast": {"enabled": True}, "fp16": {"enabled": True}}, "fp16"),
        ({"torch_autocast": {"enabled": False, "dtype": "float16"}}, "fp32"),
    ],
)
def test_autocast(config, compute):
    assert read(MICRO | config).data["training"]["precision"]["compute"] == compute


def test_muon():
    assert read(MICRO | {"optimizer": {"type": "Muon"}}).data["training"]["optimizer"]["kind"] == "muon"


@pytest.mark.parametrize(("written", "stage"), [(True, 1), (False, 0)])
def test_the_switch_of_old_files_is_stage_1(written, stage):
    found = read(
        {
            "train_batch_size": 16,
            "train_micro_batch_size_per_gpu": 1,
            "fp16": {"enabled": True},
            "zero_optimization": written,
        }
    )
    assert found.data["parallel"]["optimizer_sharding"] == {"zero": stage}


@pytest.mark.parametrize(("every", "aloud"), [(1, False), (2, True)])
def test_checkpoints_of_a_pipeline_are_recomputation(every, aloud):
    found = read(
        {
            "train_batch_size": 16,
            "train_micro_batch_size_per_gpu": 1,
            "pipeline": {"activation_checkpoint_interval": every},
        }
    )
    assert found.data["parallel"]["recompute"] == {"layers": "all"}
    fates = [each.status for each in found.untranslated if "interval" in each.flag.name]
    assert (TranslationStatus.UNSUPPORTED in fates) == aloud


def test_adam_of_the_host_is_adam():
    found = read(
        {
            "train_batch_size": 16,
            "train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "DeepSpeedCPUAdam", "params": {"lr": 1e-4}},
        }
    )
    assert found.data["training"]["optimizer"]["kind"] == "adamw"
    assert not [each for each in found.untranslated if each.status is TranslationStatus.UNSUPPORTED]
