"""torchtitan's TOML: models by flavor, degrees in old and new sections, pipelines, recomputation, float8."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file

MODEL = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 4\nseq_len = 4096\n'


def read(text, hosts=2, **given):
    return translate_file(importer("torchtitan"), text, "t.toml", UserAdditions("dgx-h100", hosts, **given))


def data(parallel="", rest="", text=MODEL):
    return read(f"{text}[parallelism]\n{parallel}\n{rest}").data


@pytest.mark.parametrize(
    ("name", "flavor", "model"),
    [
        ("llama3", "70B", {"use": "llama3-70b"}),
        ("simple_fsdp.llama3", "405B", {"use": "llama3-405b"}),
        ("llama3_ft", "8B_flex", {"use": "llama3-8b"}),
        ("deepseek_v3", "16B", {"use": "deepseek-v2-lite"}),
        ("deepseek_v3", "671B", {"use": "deepseek-v3", "mtp_layers": 0}),
        ("qwen3", "30B-A3B", {"use": "qwen3-30b-a3b"}),
    ],
)
def test_flavors(name, flavor, model):
    text = MODEL.replace("llama3", name).replace("8B", flavor)
    assert read(text).data["model"] == model


@pytest.mark.parametrize(("flavor", "window"), [("17bx128e", None), ("17bx128e_irope", 8192)])
def test_maverick_has_experts_in_every_second_layer_and_chunks_of_attention(flavor, window):
    found = read(MODEL.replace("llama3", "llama4").replace("8B", flavor))
    model = found.data["model"]
    assert (model["experts"]["count"], model["experts"]["every"], model["ffn"]) == (128, 2, 16384)
    assert (model.get("window"), model.get("full_attention_every")) == (window, 4 if window else None)
    assert any("sliding window here" in said for said in found.remarks) == bool(window)


@pytest.mark.parametrize(
    ("name", "flavor", "said"),
    [
        ("llama4", "17bx4e", "known flavors are 17bx16e, 17bx16e_irope, 17bx128e, 17bx128e_irope"),
        ("llama3", "debugmodel", "model.flavor = debugmodel: its sizes are not known here"),
        ("flux", "flux-dev", "torchtitan's model 'flux' is not known here"),
    ],
)
def test_models_that_are_refused(name, flavor, said):
    with pytest.raises(ScenarioError, match=said):
        read(MODEL.replace("llama3", name).replace("8B", flavor))


def test_degrees_mean_the_same_in_every_section():
    new = data("tensor_parallel_degree = 2\npipeline_parallel_degree = 2\npipeline_parallel_microbatches = 4")
    old = read(
        MODEL + "tensor_parallel_degree = 2\n[experimental]\npipeline_parallel_degree = 2\n"
        "pipeline_parallel_microbatches = 4\n"
    ).data
    assert new["parallel"] == old["parallel"]
    assert new["parallel"]["mesh"] == {"pipeline": 2, "data": 4, "tensor": 2}
    assert new["training"]["micro_batch"] == 1


@pytest.mark.parametrize(
    ("parallel", "sharding", "data_ways"),
    [
        ("", {"fsdp": {"reshard_after_forward": True}}, 16),
        ('fsdp_reshard_after_forward = "never"', {"fsdp": {"reshard_after_forward": False}}, 16),
        ("pipeline_parallel_degree = 2", {"fsdp": {"reshard_after_forward": False}}, 8),
        (
            "data_parallel_replicate_degree = 2\ntensor_parallel_degree = 2",
            {"fsdp": {"reshard_after_forward": True}, "shard_size": 4},
            8,
        ),
        ("data_parallel_replicate_degree = 16\ndata_parallel_shard_degree = 1", {"zero": 0}, 16),
    ],
)
def test_what_is_sharded(parallel, sharding, data_ways):
    found = data(parallel)["parallel"]
    assert found["optimizer_sharding"] == sharding
    assert found["mesh"]["data"] == data_ways


@pytest.mark.parametrize(
    ("parallel", "schedule"),
    [
        ("pipeline_parallel_degree = 2", {"kind": "1f1b", "stages": [16, 16]}),
        (
            'pipeline_parallel_degree = 4\npipeline_parallel_schedule = "Interleaved1F1B"',
            {"kind": "interleaved", "chunks": 2, "stages": [[4, 5, 4, 4], [4, 4, 4, 3]]},
        ),
        (
            'pipeline_parallel_degree = 4\npipeline_parallel_schedule = "ZBVZeroBubble"',
            {"kind": "zb_v", "stages": [[4, 5, 4, 4], [3, 4, 4, 4]], "p2p": "overlapped"},
        ),
        (
            'pipeline_parallel_degree = 2\npipeline_parallel_split_points = ["layers.12"]',
            {"kind": "1f1b", "stages": [12, 20]},
        ),
    ],
)
def test_layers_of_stages(parallel, schedule):
    assert data(parallel)["parallel"]["schedule"] == schedule


@pytest.mark.parametrize(
    ("rest", "recompute"),
    [
        ('mode = "none"', None),
        ('mode = "full"', {"layers": "all"}),
        ('selective_ac_option = "16"', {"layers": ["layers.{15,31}"]}),
        ('mode = "selective"\nselective_ac_option = 1', {"layers": "all"}),
    ],
)
def test_recomputation(rest, recompute):
    assert data(rest=f"[activation_checkpoint]\n{rest}")["parallel"].get("recompute") == recompute


def test_compiled_and_in_eight_bits():
    found = data(
        "enable_async_tensor_parallel = true\ntensor_parallel_degree = 4",
        '[quantize.linear.float8]\nrecipe_name = "rowwise"\n[compile]\nenable = true\n',
        MODEL.replace('"8B"', '"8B"\nconverters = ["quantize.linear.float8"]'),
    )
    assert found["training"]["precision"]["matmul"] == "fp8"
    assert found["framework"]["implementations"] == ["liger", "aten"]
    assert found["framework"]["traffic"]["fp8_cast"] == 3.3
    assert found["parallel"]["overlap"]["tensor"] == {"chunks": 4, "reductions": "forward"}
    without = data(rest='[quantize.linear.float8]\nrecipe_name = "rowwise"\n')
    assert without["framework"] == "torchtitan"
    assert "matmul" not in without["training"]["precision"]


def test_what_is_not_simulated_is_told():
    found = read(MODEL + "[experimental]\nnew_way = 3\n[optimizer]\nearly_step_in_backward = true\n")
    fates = {entry.flag.name: entry.status for entry in found.untranslated}
    assert fates["experimental.new_way"] is TranslationStatus.UNKNOWN
    assert fates["optimizer.early_step_in_backward"] is TranslationStatus.UNSUPPORTED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[training]\nseq_len = 1\n x y", "t.toml:3:4: this is not TOML"),
        ("a = 1", "t.toml: this is not a torchtitan TOML"),
        (MODEL + '[parallelism]\ntensor_parallel_degree = "two"', "t.toml:8: .*expected an integer"),
        (MODEL + "[parallelism]\ndata_parallel_shard_degree = 0", "expected a number of ranks, or -1"),
        (MODEL + "[parallelism]\npipeline_parallel_degree = 40", "40 parts of 32 layers do not go with"),
    ],
)
def test_mistakes_have_their_place(text, said):
    with pytest.raises(ScenarioError, match=said):
        read(text)


@pytest.mark.parametrize(
    ("parallel", "moved"),
    [("", ["gradients", "parameters"]), ("pipeline_parallel_degree = 2", ["parameters"])],
)
def test_offload_to_hosts(parallel, moved):
    found = data(parallel, text=MODEL + "enable_cpu_offload = true\n")["parallel"]
    assert sorted(found["offload"]) == moved
    assert found["host"] == ["*.update"]


def test_tensor_parallelism_alone_has_no_mixed_precision():
    found = data("data_parallel_shard_degree = 1\ntensor_parallel_degree = 16")
    assert found["training"]["precision"]["compute"] == "fp32"
    assert found["parallel"]["mesh"] == {"data": 1, "tensor": 16}
