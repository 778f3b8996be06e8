"""Real-looking files of every format: what they become, and that nothing in them is lost."""

from __future__ import annotations

import pytest

from simcluster.foreign import TranslationStatus, importer, translate_file, translated_text
from simcluster.foreign.assembly.accepted_keys import schema_accepts, schema_has
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.plan.spec import FrameworkSpec
from simcluster.scenario import Scenario
from tests.support.foreign_samples import SAMPLES, text_of

LLAMA3_8B = {
    "layers": 32,
    "hidden": 4096,
    "heads": 32,
    "kv_heads": 8,
    "ffn": 14336,
    "vocab": 128256,
    "norm": "rms",
    "activation": "swiglu",
    "positions": "rotary",
    "rope_theta": 500000.0,
    "bias": False,
    "tied": False,
}
GPT3_175B = {
    "layers": 96,
    "hidden": 12288,
    "heads": 96,
    "ffn": 49152,
    "vocab": 50257,
    "max_positions": 2048,
    "norm": "layer",
    "activation": "gelu",
    "positions": "learned",
    "bias": True,
    "tied": True,
}

# What a file says that the schema may not have yet: (key path, value). Written if it has, else listed aloud.
GROWING = {
    "gpt3_175b_sc21.sh": [
        ("framework", "megatron-lm-2021"),
        ("model.dropout", 0.1),
        ("model.attention_dropout", 0.1),
        ("training.optimizer.clip", 1.0),
        ("parallel.schedule", {"kind": "interleaved", "chunks": 4}),
    ],
    "llama3_8b_torchrun.sh": [("framework", "nemo"), ("training.optimizer.clip", 1.0)],
    "zero2.json": [
        ("framework", "deepspeed-zero"),
        ("training.optimizer.clip", 1.0),
        ("parallel.optimizer_sharding", {"zero": 2}),
    ],
    "llama3_8b_mindformers.yaml": [
        ("framework", "mindformers"),
        ("training.optimizer.clip", 1.0),
        ("parallel.optimizer_sharding", {"mindspore": "level1"}),
    ],
    "gpt_nemo1.yaml": [("framework", {"use": "nemo", "vocabulary_multiple": 1})],
    "llama3_70b_nemo2.yaml": [("framework", "nemo"), ("training.optimizer.clip", 1.0)],
    "llama3_8b_bridge.yaml": [("framework", "nemo")],
}
# Where the schema lacks a form, the nearest it has.
NEAREST = {"parallel.optimizer_sharding": {"zero": 1}, "framework": "ideal"}

EXPECTED = {
    "gpt3_175b_sc21.sh": {
        "cluster": {"use": "dgx-a100", "hosts": 192},
        "model": GPT3_175B,
        "training": {
            "global_batch": 1536,
            "micro_batch": 1,
            "seq_len": 2048,
            "precision": {"compute": "fp16", "gradients": "fp16"},
            "optimizer": {
                "kind": "adamw",
                "learning_rate": 0.00015,
                "weight_decay": 0.1,
                "beta1": 0.9,
                "beta2": 0.95,
            },
        },
        "parallel": {
            "mesh": {"pipeline": 12, "data": 16, "tensor": 8},
            "recipe": "megatron",
            "schedule": {"kind": "1f1b", "p2p": "blocking"},
            "recompute": {"layers": "all"},
        },
    },
    "llama3_8b_torchrun.sh": {
        "cluster": {"use": "dgx-h100", "hosts": 4},
        "model": LLAMA3_8B,
        "training": {
            "global_batch": 128,
            "micro_batch": 1,
            "seq_len": 8192,
            "precision": {"compute": "bf16", "gradients": "fp32"},
            "optimizer": {"kind": "adamw", "learning_rate": 0.0003},
        },
        "parallel": {
            "mesh": {"data": 8, "tensor": 4},
            "recipe": "megatron_sp",
            "optimizer_sharding": {"zero": 1},
            "recompute": {"layers": "all"},
        },
    },
    "zero2.json": {
        "cluster": {"use": "dgx-a100", "hosts": 4},
        "model": {"use": "llama2-7b"},
        "training": {
            "global_batch": 256,
            "micro_batch": 2,
            "seq_len": 4096,
            "precision": {"compute": "bf16", "gradients": "bf16"},
            "optimizer": {
                "kind": "adamw",
                "learning_rate": 1e-4,
                "weight_decay": 0.1,
                "beta1": 0.9,
                "beta2": 0.95,
                "eps": 1e-8,
            },
        },
        "parallel": {
            "mesh": {"data": 32},
            "host": ["*.update"],
            "offload": {"gradients": "host", "pinned": True},
        },
    },
    "llama3_8b_mindformers.yaml": {
        "cluster": {"use": "atlas-800t-a2", "hosts": 2},
        "model": LLAMA3_8B,
        "training": {
            "global_batch": 32,
            "micro_batch": 1,
            "seq_len": 8192,
            "precision": {"compute": "bf16", "gradients": "fp32"},
            "optimizer": {"kind": "adamw", "beta1": 0.9, "beta2": 0.95, "eps": 1e-8},
        },
        "parallel": {
            "mesh": {"pipeline": 2, "data": 2, "tensor": 4},
            "recipe": "megatron_sp",
            "strategies": [{"match": "embedding.tokens", "split": {}}],
            "schedule": {"kind": "1f1b"},
            "recompute": {"layers": "all"},
        },
    },
    "gpt_nemo1.yaml": {
        "cluster": {"use": "dgx-h100", "hosts": 16},
        "model": {
            "layers": 40,
            "hidden": 5120,
            "heads": 40,
            "ffn": 13824,
            "vocab": 32000,
            "norm": "rms",
            "activation": "swiglu",
            "positions": "rotary",
            "bias": False,
            "tied": False,
        },
        "training": {
            "global_batch": 256,
            "micro_batch": 1,
            "seq_len": 4096,
            "precision": {"compute": "bf16", "gradients": "fp32"},
            "optimizer": {
                "kind": "adamw",
                "learning_rate": 1e-4,
                "weight_decay": 0.1,
                "beta1": 0.9,
                "beta2": 0.95,
            },
        },
        "parallel": {
            "mesh": {"pipeline": 4, "data": 8, "tensor": 4},
            "recipe": "megatron_sp",
            "schedule": {"kind": "1f1b", "p2p": "blocking"},
            "optimizer_sharding": {"zero": 1},
            "recompute": {
                "operators": ["layers.*.attention.core*"],
                "keep_outputs": ["layers.*.attention.core*"],
            },
        },
    },
    "llama3_70b_nemo2.yaml": {
        "cluster": {"use": "dgx-h100", "hosts": 8},
        "model": {"use": "llama3-70b"},
        "training": {
            "global_batch": 128,
            "micro_batch": 1,
            "seq_len": 8192,
            "precision": {"compute": "bf16", "gradients": "fp32"},
            "optimizer": {"kind": "adamw", "learning_rate": 0.0003, "beta2": 0.95},
        },
        "parallel": {
            "mesh": {"pipeline": 4, "data": 4, "tensor": 4},
            "recipe": "megatron_sp",
            "schedule": {"kind": "1f1b", "p2p": "blocking"},
            "optimizer_sharding": {"zero": 1},
        },
    },
    "llama3_8b_bridge.yaml": {
        "cluster": {"use": "dgx-h100", "hosts": 2},
        "model": LLAMA3_8B,
        "training": {
            "global_batch": 128,
            "micro_batch": 1,
            "seq_len": 8192,
            "precision": {"compute": "bf16", "gradients": "fp32"},
            "optimizer": {"kind": "adamw", "learning_rate": 0.0003},
        },
        "parallel": {
            "mesh": {"data": 8, "context": 2},
            "context": "ring",
            "optimizer_sharding": {"zero": 1},
        },
    },
}


def translated(name):
    kind, given = SAMPLES[name]
    return translate_file(importer(kind), text_of(name), name, given)


def taken(data, path):
    """Takes the value at a key path out of the data."""
    *parents, last = path.split(".")
    for key in parents:
        data = data.get(key, {})
    return data.pop(last, None)


def known(path, value):
    if path == "framework":
        return (value["use"] if isinstance(value, dict) else value) in FrameworkSpec.entries()
    return schema_has(path) if isinstance(value, float) else schema_accepts(path, value)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_scenario_is_what_the_file_says(name):
    found = translated(name)
    data = found.data
    listed = " ".join(
        str(each) for each in found.untranslated if each.status is TranslationStatus.UNSUPPORTED
    )
    for path, value in GROWING[name]:
        if path == "parallel.schedule":
            schedule = data["parallel"]["schedule"]
            assert ({"kind": schedule["kind"], "chunks": schedule.get("chunks")} == value) == known(
                path, value
            )
            assert ("pipeline bubble" in listed) != known(path, value)
            schedule.pop("chunks", None)
            schedule["kind"] = "1f1b"
            continue
        written = taken(data, path)
        if known(path, value):
            assert written == value
        else:
            assert written == NEAREST.get(path)
            said = {"framework": value, "parallel.optimizer_sharding": "only optimizer states are sharded"}
            assert said.get(path, f"cannot say {path}: {value} yet") in listed
    expected = EXPECTED[name]
    assert {key: data[key] for key in expected} == expected
    assert set(data) == {"simcluster", "name", *expected}
    assert data["name"] == name.partition(".")[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_setting_has_a_line_or_is_listed(name):
    kind, given = SAMPLES[name]
    read = importer(kind).read(text_of(name), name, given).flags
    found = translated(name)
    accounted = {*found.origins.values(), *(each.flag for each in found.untranslated)}
    assert read
    assert {(flag.name, flag.where) for flag in read} <= {(flag.name, flag.where) for flag in accounted}
    text = translated_text(found, importer(kind), name)
    assert all(flag.name[:50] in text for flag in read)


@pytest.mark.parametrize("name", [name for name in SAMPLES if "wonder" in text_of(name)])
def test_the_unknown_setting_is_listed_with_its_line(name):
    line = next(n for n, row in enumerate(text_of(name).splitlines(), 1) if "wonder" in row)
    unknown = [each for each in translated(name).untranslated if each.status is TranslationStatus.UNKNOWN]
    assert [each.flag.where for each in unknown] == [f"{name}:{line}"]
    assert str(unknown[0]).endswith(": unknown")


@pytest.mark.parametrize("name", SAMPLES)
def test_it_is_deterministic(name):
    kind = importer(SAMPLES[name][0])
    assert translated_text(translated(name), kind, name) == translated_text(translated(name), kind, name)


def test_nothing_in_a_script_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    translated("gpt3_175b_sc21.sh")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "model"),
    [("gpt3_175b_sc21.sh", "gpt3-175b"), ("llama3_8b_torchrun.sh", "llama3-8b")],
)
def test_the_model_is_the_one_of_the_catalog(name, model):
    """Dimensions read from a launch count the same parameters as the published model."""
    found = Scenario.of(translated(name).data)
    assert found.model.num_parameters == ModelSpec.load(model).parameters.value
