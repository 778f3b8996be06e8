"""MindFormers' YAML: sizes, batches, optimizer parallelism, recomputation."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file
from tests.support.mindformers_files import listed, read


def test_hosts_follow_from_the_axes():
    found = read(parallel_config__data_parallel=4)
    assert found.data["cluster"]["hosts"] == 4
    assert found.data["training"]["global_batch"] == 64


def test_without_a_pipeline_accumulation_counts():
    found = read(parallel_config__pipeline_stage=1, runner_config__gradient_accumulation_steps=3)
    assert found.data["training"]["global_batch"] == 2 * 3
    assert "schedule" not in found.data["parallel"]


@pytest.mark.parametrize(
    ("changes", "ffn"),
    [
        ({}, 14336),
        ({"model__model_config__intermediate_size": 12288}, 12288),
        ({"model__model_config__ffn_dim_multiplier": None, "model__model_config__multiple_of": 256}, 11008),
    ],
)
def test_the_inner_size(changes, ffn):
    """Llama 3 8B and Llama 2 7B by Llama's rule."""
    assert read(**changes).data["model"]["ffn"] == ffn


@pytest.mark.parametrize(("hidden", "positions"), [(4096, "rotary"), (5120, "alibi")])
def test_baichuan_has_alibi_in_its_larger_size_alone(hidden, positions):
    found = read(model__model_config__type="BaichuanConfig", model__model_config__hidden_size=hidden)
    assert found.data["model"]["positions"] == positions
    assert any("ALiBi" in remark for remark in found.remarks) == (hidden == 5120)


@pytest.mark.parametrize(
    ("recompute", "layers", "aloud"),
    [
        (True, "all", False),
        (False, None, False),
        (2, 2, False),
        ([16, 16], "all", False),
        ([8, 0], [8, 0], False),
        ([[4, 4], [2, 0]], [6, 4], True),
        ([[8, 8], [8, 8]], "all", True),
        ([0, 0], None, False),
    ],
)
def test_recomputation(recompute, layers, aloud):
    found = read(recompute_config__recompute=recompute)
    assert found.data["parallel"].get("recompute", {}).get("layers") == layers
    assert (TranslationStatus.UNSUPPORTED in listed(found, "recompute_config.recompute")) == aloud


@pytest.mark.parametrize("recompute", [[8], [[8, 0], [8]], "some", [True, "x"]])
def test_recomputation_that_fits_no_stages(recompute):
    with pytest.raises(ScenarioError, match=r"recompute: .*expected"):
        read(recompute_config__recompute=recompute)


@pytest.mark.parametrize(
    ("select", "sequence", "layers", "again", "status"),
    [
        (True, True, False, True, None),
        ([r".*\.norm"], True, False, True, None),
        ({r".*\.norm": True}, True, False, True, None),
        (False, True, False, False, TranslationStatus.EFFECTLESS),
        (True, False, False, False, TranslationStatus.EFFECTLESS),
        (True, True, True, False, TranslationStatus.EFFECTLESS),
        ([2, 0], True, False, False, TranslationStatus.UNSUPPORTED),
    ],
)
def test_gathered_activations_are_kept_unless_they_are_recomputed(select, sequence, layers, again, status):
    found = read(
        recompute_config__recompute=layers,
        recompute_config__select_comm_recompute=select,
        parallel_config__use_seq_parallel=sequence,
    )
    wanted = {"use": "mindformers", "saved_activations": "as_made"} if again else "mindformers"
    assert found.data["framework"] == wanted
    assert listed(found, "select_comm_recompute") == ([] if status is None else [status])


def test_how_layers_are_recomputed():
    found = read(
        recompute_config__recompute=True,
        recompute_config__mp_comm_recompute=False,
        recompute_config__parallel_optimizer_comm_recompute=True,
        recompute_config__recompute_slice_activation=True,
    )
    wanted = {"layers": "all", "collectives": False, "gathers": True, "slice": True}
    assert found.data["parallel"]["recompute"] == wanted
    for name in ("mp_comm_recompute", "recompute_slice_activation"):
        assert TranslationStatus.UNSUPPORTED not in listed(found, name)


@pytest.mark.parametrize(
    ("select", "operators", "aloud"),
    [
        (True, ["layers.*.mlp.activation"], False),
        (
            [r"feed_forward\.mul", r"attention_norm"],
            ["layers.*.mlp.activation", "layers.*.attention.norm"],
            False,
        ),
        ({r".*_norm": True}, ["layers.*.attention.norm", "layers.*.mlp.norm"], False),
        ({r"feed_forward\.mul": [2, 1]}, ["layers.{0,1,16}.mlp.activation"], False),
        ({r"feed_forward\.mul": [2, 1, 1]}, ["layers.*.mlp.activation"], True),
        (
            {r"feed_forward\.mul": True, r"feed_forward\.w1\.reshape": False},
            ["layers.*.mlp.activation"],
            False,
        ),
        ({r"attention_norm": False}, None, False),
        ([2, 0], ["layers.{0,1}.mlp.activation"], False),
        ([16, 16], ["layers.*.mlp.activation"], False),
        ([0, 0], None, False),
        (["something"], None, True),
        (1, ["layers.{0,16}.mlp.activation"], False),
    ],
)
def test_selective_recomputation(select, operators, aloud):
    found = read(recompute_config__recompute=False, recompute_config__select_recompute=select)
    assert found.data["parallel"].get("recompute", {}).get("operators") == operators
    fates = [each.status for each in found.untranslated if "select_recompute" in each.flag.name]
    assert (TranslationStatus.UNSUPPORTED in fates) == aloud


def test_whole_layers_win_over_operators():
    found = read(recompute_config__recompute=True, recompute_config__select_recompute=True)
    assert "operators" not in found.data["parallel"]["recompute"]
    assert listed(found, "select_recompute") == [TranslationStatus.EFFECTLESS]
    some = read(recompute_config__recompute=[2, 1], recompute_config__select_recompute=True)
    wanted = {"layers": [2, 1], "operators": ["layers.*.mlp.activation"]}
    assert some.data["parallel"]["recompute"] == wanted


@pytest.mark.parametrize("level", ["level1", "level2", "level3"])
def test_optimizer_levels(level):
    """Gradients are accumulated in shards unless the file says otherwise, as MindSpore's default has it."""
    found = read(
        parallel__parallel_optimizer_config={"optimizer_level": level, "gradient_accumulation_shard": False}
    )
    assert found.data["parallel"]["optimizer_sharding"] == {"mindspore": level}
    found = read(parallel__parallel_optimizer_config={"optimizer_level": level})
    shards = {"gradient_accumulation_shard": True} if level == "level1" else {}
    assert found.data["parallel"]["optimizer_sharding"] == {"mindspore": level, **shards}


def test_how_optimizer_parallelism_shards():
    found = read(
        parallel__parallel_optimizer_config={
            "gradient_accumulation_shard": True,
            "parallel_optimizer_threshold": 32,
            "optimizer_weight_shard_size": 2,
        }
    )
    assert found.data["parallel"]["optimizer_sharding"] == {
        "mindspore": "level1",
        "gradient_accumulation_shard": True,
        "min_bytes": "32 KiB",
        "shard_size": 2,
    }


def test_without_optimizer_parallelism():
    assert "optimizer_sharding" not in read(parallel__enable_parallel_optimizer=False).data["parallel"]


def test_stages_by_offset():
    found = read(model__model_config__offset=[1, -1])
    assert found.data["parallel"]["schedule"]["stages"] == [17, 15]
    with pytest.raises(ScenarioError, match="do not spread over 2 stages"):
        read(model__model_config__offset=[1, 1])


def test_chunks_are_in_mindspores_order():
    found = read(model__model_config__pp_interleave_num=2)
    schedule = found.data["parallel"]["schedule"]
    assert (schedule["kind"], schedule["chunks"]) == ("interleaved_mindspore", 2)
    uneven = read(model__model_config__pp_interleave_num=2, model__model_config__offset=[[1, -1], [0, 0]])
    assert uneven.data["parallel"]["schedule"]["stages"] == [[9, 7], [8, 8]]
    with pytest.raises(ScenarioError, match="do not spread over 2 chunks on each of 2 stages"):
        read(model__model_config__pp_interleave_num=2, model__model_config__offset=[1, -1])


def test_zero_bubble_is_known():
    found = read(parallel__pipeline_config__pipeline_scheduler="zero_bubble_v")
    assert found.data["parallel"]["schedule"]["kind"] == "zb_v"


def test_sequences_in_slices_are_known():
    found = read(
        parallel__pipeline_config__pipeline_scheduler="seqvpp",
        parallel_config__seq_split_num=2,
        model__model_config__pp_interleave_num=2,
    )
    schedule = found.data["parallel"]["schedule"]
    assert (schedule["kind"], schedule["chunks"], schedule["slices"]) == ("seqvpp", 2, 2)
    found = read(parallel_config__seq_split_num=2)
    assert listed(found, "seq_split_num") == [TranslationStatus.UNSUPPORTED]


def test_tied_embeddings_are_split_with_the_head():
    found = read(model__model_config__tie_word_embeddings=True)
    assert "strategies" not in found.data["parallel"]
    assert listed(found, "vocab_emb_dp") == [TranslationStatus.UNSUPPORTED]


def test_number_formats():
    assert read().data["training"]["precision"] == {"compute": "bf16", "gradients": "fp32"}
    found = read(model__model_config__param_init_type="bfloat16")
    assert found.data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16", "master": "none"}


def test_other_families_are_listed():
    found = read(model__model_config__type="SomethingConfig")
    assert listed(found, "model_config.type") == [TranslationStatus.UNSUPPORTED]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "m.yaml:1:4: the list opened with '['"),
        ("a: 1\n b: 2", "m.yaml:2"),
        ("- 1", "the file holds a list"),
        ("!!python/object:os.system {}", "is not accepted"),
        ("seed: 0", "this is not a MindFormers YAML"),
        ("run_mode: train", "the file does not say which model is trained"),
    ],
)
def test_malformed(text, message):
    with pytest.raises(ScenarioError) as caught:
        translate_file(importer("mindformers"), text, "m.yaml", UserAdditions("atlas-800t-a2", 1))
    assert message in str(caught.value)


def test_copies_go_abreast_each_with_the_batch_that_is_given():
    one, two = read(), read(micro_batch_interleave_num=2)
    size = one.data["training"]["micro_batch"]
    assert "copies" not in one.data["parallel"]
    assert two.data["parallel"]["copies"] == 2
    assert two.data["training"]["micro_batch"] == 2 * size
    assert two.data["training"]["global_batch"] == 2 * one.data["training"]["global_batch"]


def test_layers_are_interleaved_in_chunks():
    found = read(model__model_config__fine_grain_interleave=2)
    overlap = found.data["parallel"].get("overlap")
    if found.data["parallel"]["mesh"].get("tensor", 1) > 1:
        assert overlap == {"tensor": {"chunks": 2, "reach": "layer"}}
    else:
        assert overlap is None
    assert "overlap" not in read(model__model_config__fine_grain_interleave=1).data["parallel"]


def test_operators_of_layers_of_experts_are_recomputed():
    experts = {"num_experts": 8, "moe_intermediate_size": 64, "num_experts_per_tok": 2}
    said = {f"model__model_config__{name}": value for name, value in experts.items()}
    found = read(recompute_config__recompute=False, recompute_config__select_recompute=True, **said)
    assert found.data["parallel"]["recompute"]["operators"] == ["layers.*.mlp.experts.activation"]


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("PanguAlphaConfig", {"query_layer": True, "positions": "learned", "bias": True, "norm": "layer"}),
        ("BloomConfig", {"positions": "alibi", "embedding_norm": True, "activation": "gelu"}),
        ("QwenConfig", {"qkv_bias": True, "activation": "swiglu"}),
    ],
)
def test_types_have_the_layers_of_their_family(kind, model):
    found = read(model__model_config__type=kind)
    assert {name: found.data["model"].get(name) for name in model} == model
    assert TranslationStatus.UNSUPPORTED not in listed(found, "model_config.type")


def test_rates_of_dropout_by_other_names():
    said = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2, "embedding_dropout_prob": 0.3}
    model = read(**{f"model__model_config__{name}": rate for name, rate in said.items()}).data["model"]
    rates = [model[name] for name in ("dropout", "attention_dropout", "embedding_dropout")]
    assert rates == [0.1, 0.2, 0.3]
    both = read(model__model_config__dropout_rate=0.1).data["model"]
    assert both["dropout"] == both["attention_dropout"] == 0.1


def test_auto_leaves_an_axis_open():
    with pytest.raises(ScenarioError, match="how many hosts"):
        read(parallel_config__data_parallel="auto")
    with pytest.raises(ScenarioError, match="leaves it to a search"):
        read(parallel_config__model_parallel="auto")


def test_micro_batches_of_a_pipeline_replace_nothing():
    found = read(runner_config__gradient_accumulation_steps=1)
    assert not [remark for remark in found.remarks if "replaces" in remark]


def test_programs_are_not_read():
    text = "import mindspore\nmindspore.set_auto_parallel_context(pipeline_stages=2)\n"
    with pytest.raises(ScenarioError, match="this is a Python program"):
        translate_file(importer("mindformers"), text, "train.py", UserAdditions())
