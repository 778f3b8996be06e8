"""MindSpore's parallel optimizer, rule by rule (reference ``mindspore.md`` 7.2)."""

from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import PlanError, ScenarioError
from simcluster.layout import Movement
from simcluster.model import Phase
from simcluster.plan.spec.optimizer_sharding import OptimizerShardingSpec
from tests.support.plan_graphs import told
from tests.support.planned import LLAMA, plan
from tests.support.scenarios import TINY_GPT

ALL = {"min_bytes": "0 B"}
"""Small parameters are sharded too."""


def homes(found, instance="layers.0"):
    """Parameter -> the layout of its optimizer states, of one instance."""
    graph = found.graph
    block = next(graph.block_of(each) for each in graph.instances if each.name == instance)
    return {name: block.values[f"{name}.moment1"].layout for name in block.parameters}


def sharded(found, instance="layers.0"):
    """The parameters of an instance whose states lie split over data."""
    return {name for name, home in homes(found, instance).items() if "data" in "".join(home.axes)}


@pytest.mark.parametrize(("ffn", "split"), [(1018, False), (1024, True), (1152, True)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_slices_of_64_kilobytes_and_more_are_sharded(ffn, split, precision):
    """72 KB are (the test of the source), 64 KB too; fp32 parameters count as such, whatever computes."""
    model = {**LLAMA, "ffn": ffn}
    found = plan(
        {"data": 2},
        model=model,
        training={"precision": precision},
        optimizer_sharding={"mindspore": "level1"},
    )
    assert ffn * 16 * 4 >= 64 * 1024 or not split
    assert ("mlp.down.weight" in sharded(found)) == split


def test_only_a_first_dim_that_divides_is_sharded():
    model = {**LLAMA, "hidden": 24, "head_dim": 8, "ffn": 30}
    found = plan({"data": 4}, model=model, optimizer_sharding={"mindspore": "level1", **ALL})
    names = sharded(found)
    assert "mlp.up.up.weight" in names  # 24 rows
    assert "mlp.down.weight" not in names  # 30 rows
    assert homes(found)["mlp.up.up.weight"].dims[0] == ("data",)


def test_what_tensor_ranks_hold_too_is_sharded_over_them():
    """A slice that is still replicated over n devices is cut in n, whatever the devices do otherwise."""
    found = homes(
        plan({"data": 2, "tensor": 2}, recipe="megatron", optimizer_sharding={"mindspore": "level1", **ALL})
    )
    assert found["attention.norm.weight"].dims[0] == ("data", "tensor")
    assert found["attention.out.weight"].dims[0] == ("tensor", "data")
    over_data = {"mindspore": "level1", "axes": "batch", **ALL}
    found = homes(plan({"data": 2, "tensor": 2}, recipe="megatron", optimizer_sharding=over_data))
    assert found["attention.norm.weight"].dims[0] == ("data",)


def test_parameters_that_stay_whole():
    """``Parameter.parallel_optimizer = False``."""
    form = {"mindspore": "level1", "whole": ["layers.{0,2}.mlp.*", "embedding.*"], **ALL}
    found = plan({"data": 2}, optimizer_sharding=form)
    for index in range(4):
        assert any(name.startswith("mlp") for name in sharded(found, f"layers.{index}")) == (index % 2)
        assert any(name.startswith("attention") for name in sharded(found, f"layers.{index}"))
    assert len({each.block for each in found.graph.instances}) == 4
    with pytest.raises(PlanError, match=r"'layers\.\*\.mlp' matches no parameter") as error:
        plan({"data": 2}, optimizer_sharding={"zero": 1, "whole": ["embedding.*", "layers.*.mlp"]})
    assert error.value.problems[0].path == "parallel.optimizer_sharding.whole.1"


def test_of_a_tied_parameter_all_copies_stay_whole():
    form = {"zero": 1, "whole": ["head.*"]}
    found = plan({"pipeline": 2, "data": 2}, model=TINY_GPT, optimizer_sharding=form)
    tied = found.graph.ties[0]
    assert len(tied) == 2
    assert "tokens.weight" not in sharded(found, "embedding")


# -- groups ---------------------------------------------------------------------------------------------


def test_groups_are_neighbours_among_those_that_hold_the_same():
    """A parameter on [0, 8, 16, 24] in groups of 2: [0, 8] and [16, 24], all-reduced between [0, 16]."""
    form = {"mindspore": "level2", "optimizer_weight_shard_size": 2, "axes": "data", **ALL}
    model = {**LLAMA, "kv_heads": 8}
    found = plan({"data": 4, "tensor": 8}, model=model, recipe="megatron", optimizer_sharding=form)
    (axes,) = {home.dims[0][-1:] for home in homes(found).values() if "data" in "".join(home.axes)}
    assert found.mesh.groups(axes)[:2].tolist() == [[0, 8], [1, 9]]
    assert [0, 8] in found.mesh.groups(axes).tolist() and [16, 24] in found.mesh.groups(axes).tolist()
    block = found.graph.block_of(found.graph.instances[1])
    between = [
        node.operator.axes
        for node in block.phase(Phase.END)
        if isinstance(node.operator, Movement) and str(node.operator.kind) == "all_reduce"
    ]
    others = {group for axes in between for group in map(tuple, found.mesh.groups(axes).tolist())}
    assert (0, 16) in others and (8, 24) in others
    assert {each.split()[0] for each in told(block, Phase.SCATTER)} == {"reduce_scatter"}


def test_groups_by_what_each_parameter_is_replicated_over():
    """Of norms the tensor ranks of a host are a group; of split matrices half of the data ranks are."""
    form = {"mindspore": "level1", "shard_size": 2, **ALL}
    found = plan({"data": 4, "tensor": 2}, recipe="megatron", optimizer_sharding=form)
    assert homes(found)["attention.norm.weight"].dims[0] == ("tensor",)
    assert homes(found)["attention.out.weight"].dims[0] == ("tensor", "data.1")
    assert "optimizer_sharding.shard_size cuts data 4 into data.0 2 x data.1 2" in found.notes


def test_a_size_that_does_not_divide_is_ignored_aloud():
    form = {"zero": 1, "shard_size": 3}
    found = plan({"data": 4}, optimizer_sharding=form)
    every = plan({"data": 4}, optimizer_sharding={"zero": 1})
    assert homes(found) == homes(every)
    assert any("shard_size 3 does not divide the 4 ranks of data" in note for note in found.notes)


def test_groups_of_one_shard_nothing_and_of_all_everything():
    one, every, plain = (
        homes(plan({"data": 4}, optimizer_sharding={"zero": 1, "shard_size": size})) for size in (1, 4, -1)
    )
    assert every == plain != one
    assert not any(home.axes for home in one.values())


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ({"shard_size": 2}, "shard_size", "nothing is sharded"),
        ({"whole": ["head.*"]}, "whole", "nothing is sharded"),
        ({"zero": 1, "shard_size": 0}, "shard_size", "too small"),
        ({"zero": 1, "gradient_accumulation_shard": True}, "gradient_accumulation_shard", "MindSpore"),
        (
            {"mindspore": "level2", "gradient_accumulation_shard": False},
            "gradient_accumulation_shard",
            "accumulates gradients in shards",
        ),
    ],
)
def test_what_cannot_be_meant(keys, path, message):
    with pytest.raises(ScenarioError, match=message) as error:
        validate_data(keys, OptimizerShardingSpec)
    assert error.value.problems[0].path.startswith(path)


def test_groups_larger_than_a_stage():
    with pytest.raises(PlanError, match="groups of 8 ranks, but a stage has 4"):
        plan({"pipeline": 2, "data": 4}, optimizer_sharding={"zero": 1, "shard_size": 8})


# -- levels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "gathers", "again", "each_micro_batch"),
    [
        ({"mindspore": "level1"}, True, False, False),
        ({"mindspore": "level1", "gradient_accumulation_shard": False}, True, False, False),
        ({"mindspore": "level1", "gradient_accumulation_shard": True}, True, False, True),
        ({"mindspore": "level2"}, True, False, True),
        ({"mindspore": "level3"}, True, True, True),
    ],
)
def test_what_each_level_does(form, gathers, again, each_micro_batch):
    found = plan({"data": 4}, optimizer_sharding={**form, **ALL})
    block = found.graph.block_of(found.graph.instances[1])
    number = len(block.parameters)
    assert told(block, Phase.GATHER) == ["all_gather data"] * number * gathers
    assert told(block, Phase.REGATHER) == ["all_gather data"] * number * again
    assert told(block, Phase.SCATTER) == ["reduce_scatter data"] * number * each_micro_batch
    assert len(told(block, Phase.END)) == number * (not each_micro_batch)
