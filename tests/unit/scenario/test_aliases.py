"""MindSpore's names in scenarios: each stands for a key of ours, in files, data, changes and the schema."""

from __future__ import annotations

import pytest

from simcluster.document import Document
from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario, other_tool_names, scenario_schema

HEAD = """\
simcluster: 1
name: small
cluster: {use: cpu-server, hosts: 4}
model: {layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 128, vocab: 256}
training: {global_batch: 8, micro_batch: 1, seq_len: 16, precision: fp32}
"""
THEIRS = (
    HEAD
    + """\
parallel:
  parallel_mode: semi_auto_parallel
  pipeline_stages: 2
  mesh: {data: 2, tensor: 2}
  pipeline_config: {pipeline_interleave: false, pipeline_scheduler: gpipe}
  enable_parallel_optimizer: true
  parallel_optimizer_config:
    optimizer_level: level2
    parallel_optimizer_threshold: 1
    optimizer_weight_shard_size: 2
  comm_fusion: {allreduce: {mode: size, config: 25}, reducescatter: {mode: size, config: 25}}
  enable_alltoall: true
  dataset_strategy: full_batch
"""
)
OURS = (
    HEAD
    + """\
data: {strategy: full_batch}
parallel:
  mode: semi_auto
  mesh: {pipeline: 2, data: 2, tensor: 2}
  schedule: {kind: gpipe}
  optimizer_sharding: {mindspore: level2, min_bytes: 1 KiB, shard_size: 2, gradient_accumulation_shard: true}
  fusion: {all_reduce: {mode: size, config: 25}, reduce_scatter: {mode: size, config: 25}}
  redistribution: {all_to_all: true}
"""
)


def read(text):
    return Scenario.of(Document.parse(text).data)


def loaded(tmp_path, text, *changes):
    (tmp_path / "small.yaml").write_text(text)
    return Scenario.load(tmp_path / "small.yaml", changes)


def test_the_same_scenario(tmp_path):
    ours, theirs = loaded(tmp_path, OURS).spec, loaded(tmp_path, THEIRS).spec
    assert theirs == ours
    assert list(theirs.parallel.mesh) == list(ours.parallel.mesh)
    assert read(THEIRS).spec == ours


def test_a_default_counts_alone():
    alone = read(HEAD + "parallel: {mesh: {data: 8}, enable_parallel_optimizer: true, full_batch: true}\n")
    sharding = alone.spec.parallel.optimizer_sharding
    assert sharding.mindspore == "level1"
    assert sharding.gradient_accumulation_shard  # MindSpore's default, where ours shards no gradients
    assert alone.spec.data.strategy == "full_batch"
    off = read(HEAD + "parallel: {mesh: {data: 8}, enable_parallel_optimizer: false}\n")
    assert not off.spec.parallel.optimizer_sharding.expanded(()).states


@pytest.mark.parametrize(
    "interleave, scheduler, kind",
    [("true", "1f1b", "interleaved_mindspore"), ("false", "1f1b", "1f1b"), ("true", "gpipe", "gpipe")],
)
def test_the_default_scheduler_may_be_interleaved(tmp_path, interleave, scheduler, kind):
    """``pipeline_config={"pipeline_interleave": True, "pipeline_scheduler": "1f1b"}`` is interleaved 1F1B."""
    config = f"{{pipeline_scheduler: {scheduler}, pipeline_interleave: {interleave}}}"
    text = HEAD + f"parallel: {{mesh: {{pipeline: 2, data: 4}}, pipeline_config: {config}}}\n"
    assert read(text).spec.parallel.schedule.kind == kind
    keys = {"pipeline_interleave": interleave, "pipeline_scheduler": scheduler}
    changes = [(f"parallel.pipeline_config.{key}", value) for key, value in keys.items()]
    plain = HEAD + "parallel: {mesh: {pipeline: 2, data: 4}}\n"
    assert loaded(tmp_path, plain, *changes).spec.parallel.schedule.kind == kind


def test_a_switch_that_is_set_off(tmp_path):
    text = HEAD + "parallel: {mesh: {data: 8}, optimizer_sharding: {mindspore: level2}}\n"
    found = loaded(tmp_path, text, ("parallel.enable_parallel_optimizer", "false"))
    assert not found.spec.parallel.optimizer_sharding.expanded(()).states
    off = HEAD + "parallel: {mesh: {data: 8}, enable_ps: false}\n"
    with pytest.raises(ScenarioError, match="says nothing without enable_ps: true"):
        loaded(tmp_path, off, ("parallel.server_num", "2"))


def test_what_is_set_replaces_what_is_written(tmp_path):
    for key, value in (("mode", "data"), ("parallel_mode", "data_parallel")):
        text = HEAD + "parallel: {mesh: {data: 8}, parallel_mode: semi_auto_parallel}\n"
        assert loaded(tmp_path, text, (f"parallel.{key}", value)).spec.parallel.mode == "data"
    text = HEAD + "parallel: {mesh: {data: 8}, mode: semi_auto}\n"
    found = loaded(tmp_path, text, ("parallel.parallel_mode", "data_parallel"))
    assert found.spec.parallel.mode == "data"
    assert found.changed([("parallel.mode", "semi_auto")]).spec.parallel.mode == "semi_auto"


@pytest.mark.parametrize(
    "line, where, told",
    [
        ("  mode: data\n  parallel_mode: data_parallel\n", "8", "MindSpore calls 'parallel.mode' so"),
        ("  parallel_mode: all\n", "7", "all"),
        ("  parallel_optimizer_config: {optimizer_levle: level1}\n", "7", "'optimizer_levle' is not known"),
        (
            "  enable_parallel_optimizer: false\n  parallel_optimizer_config: {optimizer_level: level2}\n",
            "8",
            "says nothing without enable_parallel_optimizer: true",
        ),
        ("  enable_ps: false\n  server_num: 2\n", "8", "says nothing without enable_ps: true"),
        ("  server_num: 2\n", "7", "says nothing without enable_ps: true"),
        (
            "  enable_ps: false\n  parameter_server: {servers: 2}\n",
            "7",
            "calls 'parallel.parameter_server' so",
        ),
        ("  optimizer_sharding: fsdp\n  parallel_optimizer_config: {optimizer_level: level1}\n", "8", "fsdp"),
    ],
)
def test_refused_where_it_is_written(tmp_path, line, where, told):
    with pytest.raises(ScenarioError) as caught:
        loaded(tmp_path, HEAD + "parallel:\n" + line + "  mesh: {data: 8}\n")
    problem = caught.value.problems[0]
    assert f"small.yaml:{where}:" in problem.where
    assert told in problem.message


def test_every_name_stands_in_the_schema():
    schema = scenario_schema()
    for name, (tool, _) in other_tool_names().names.items():
        place = schema
        for key in name.split("."):
            while "properties" not in place:
                if "$ref" in place:
                    place = schema["$defs"][place["$ref"].rpartition("/")[2]]
                else:
                    place = next(each for each in place["anyOf"] if {"$ref", "properties"} & {*each})
            place = place["properties"][key]
        assert f"{tool}'s name of" in place["description"]


def test_the_schema_of_a_name_has_the_words_of_both():
    config = scenario_schema()["$defs"]["ParallelSpec"]["properties"]["pipeline_config"]["properties"]
    theirs, ours = config["pipeline_scheduler"]["anyOf"]
    assert theirs == {"enum": ["zero_bubble_v"]}
    assert ours["type"] == "string"  # gpipe and all others


def test_switches_of_a_profile():
    """Megatron's switches of overlap, and a profile with a switch of its own."""
    plan = "parallel: {mesh: {data: 8}}\n"
    switches = "overlap_grad_reduce: true, overlap_param_gather: true, prefetch: 3"
    found = read(f"{HEAD}framework: {{use: megatron-core, {switches}}}\n{plan}").framework
    assert (found.reduction.overlap, found.gather.value, found.prefetch) == (True, "overlapped", 3)
    assert found.name == "megatron-core, changed"
    plain = read(f"{HEAD}framework: megatron-core\n{plan}").framework
    assert plain.name == "megatron-core"
    assert found.storage == plain.storage
    assert read(HEAD + plan).framework.name == "ideal"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("device_num: 8", "the mesh numbers the devices"),
        ("global_rank: 0", "the mesh numbers the devices"),
        ("gradient_fp32_sync: false", "training.precision.gradients"),
        ("force_fp32_communication: true", "training.precision.gradients"),
        ("loss_repeated_mean: true", "counts once"),
        ("strategy_ckpt_config: {save_file: a.ckpt}", "simcluster checkpoint"),
        ("group_ckpt_save_file: a.pb", "simcluster checkpoint"),
        ("costmodel_simplify_cal: true", "cannot win"),
        ("costmodel_allreduce_fusion_times: 2", "write fusion"),
    ],
)
def test_context_keys_that_are_said_otherwise(tmp_path, key, told):
    """Of set_auto_parallel_context and set_cost_model_context (reference 2.2, 4.1)."""
    with pytest.raises(ScenarioError) as caught:
        loaded(tmp_path, HEAD + f"parallel:\n  {key}\n  mesh: {{data: 8}}\n")
    (problem,) = caught.value.problems
    assert told in f"{problem.message} {problem.hint}"
