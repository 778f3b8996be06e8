from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import PlanError, ScenarioError
from simcluster.layout import Layout, Mesh
from simcluster.model import TensorType
from simcluster.plan.spec.optimizer_sharding import OptimizerShardingSpec, ShardingChoice, explicit_sharding
from simcluster.work import DType
from tests.support.planned import plan

MESH = Mesh.of({"replica": 2, "data": 4, "tensor": 2})
BATCH = ("replica", "data")


def written(**keys):
    return validate_data(keys, OptimizerShardingSpec)


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, ShardingChoice()),
        ({"zero": 0}, ShardingChoice()),
        ({"zero": 1}, ShardingChoice(True, axes=BATCH)),
        ({"zero": 2}, ShardingChoice(True, True, axes=BATCH)),
        ({"zero": 3}, ShardingChoice(True, True, True, True, True, axes=BATCH)),
        ({"zero": 3, "axes": "data"}, ShardingChoice(True, True, True, True, True, axes=("data",))),
        ({"fsdp": {}}, ShardingChoice(True, True, True, True, axes=BATCH)),
        ({"fsdp": {"reshard_after_forward": False}}, ShardingChoice(True, True, True, axes=BATCH)),
        (
            {"mindspore": "level1"},
            ShardingChoice(True, False, True, split="rows", axes=BATCH, min_bytes=2**16, gather_once=True),
        ),
        (
            {"mindspore": "level3", "min_bytes": "8 B"},
            ShardingChoice(True, True, True, True, split="rows", axes=BATCH, min_bytes=8),
        ),
        ({"states": True, "weights": True}, ShardingChoice(True, False, True, True, axes=BATCH)),
        ({"states": True, "weights": True, "regather": False}, ShardingChoice(True, False, True, axes=BATCH)),
    ],
)
def test_every_form_expands_into_the_explicit_one(keys, wanted):
    found = written(**keys)
    assert found.expanded(BATCH) == wanted
    if wanted.states:
        again = {**wanted.document(), "min_bytes": f"{wanted.min_bytes} B"}
        assert written(**again).expanded(("other",)) == wanted


def test_fsdp_alone_is_a_form():
    assert explicit_sharding("fsdp", BATCH) == written(fsdp={}).expanded(BATCH)
    assert explicit_sharding(None, BATCH) == ShardingChoice()


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ({"zero": 1, "fsdp": {}}, "fsdp", "two forms"),
        ({"mindspore": "level1", "states": True}, "states", "two forms"),
        ({"zero": 3, "split": "rows"}, "split", "two forms"),
        ({"weights": True}, "weights", "need sharded states"),
        ({"gradients": True}, "gradients", "need sharded states"),
        ({"states": True, "regather": True}, "regather", "about sharded weights"),
        ({"states": True, "keep_cast": True}, "keep_cast", "about sharded weights"),
        ({"zero": 0, "axes": "data"}, "axes", "nothing is sharded"),
        ({"min_bytes": "1 KiB"}, "min_bytes", "nothing is sharded"),
        ({"zero": 4}, "zero", "0, 1, 2 or 3"),
    ],
)
def test_contradictions_are_refused_where_they_stand(keys, path, message):
    with pytest.raises(ScenarioError, match=message) as error:
        written(**keys)
    assert [problem.path for problem in error.value.problems] == [path]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("dta", "no axis 'dta'"),
        (["pipeline"], "different parameters"),
        (["experts"], "no axis of role 'experts'"),
        (["hosts"], "no axis 'hosts'"),
    ],
)
def test_axes_have_to_be_on_the_mesh(axes, message):
    with pytest.raises(PlanError, match=message) as error:
        plan({"pipeline": 2, "data": 2}, optimizer_sharding={"zero": 2, "axes": axes})
    assert error.value.problems[0].path == "parallel.optimizer_sharding.axes"


def test_a_role_that_has_no_axis_here():
    with pytest.raises(PlanError, match="no axis of role 'pipeline'"):
        plan({"data": 2}, optimizer_sharding={"zero": 2, "axes": "pipeline"})


def test_sharding_over_one_rank_is_said_to_be_nothing():
    found = plan({"data": 1}, optimizer_sharding={"zero": 3})
    assert found.sharding == ShardingChoice()
    assert any("shards nothing" in note for note in found.notes)


KIND = TensorType((12, 6), DType.FP32)


@pytest.mark.parametrize(
    ("layout", "sharding", "home"),
    [
        (Layout(((), ())), ShardingChoice(), Layout(((), ()))),
        (Layout(((), ())), ShardingChoice(True, axes=BATCH), Layout(((), ()), flat=BATCH)),
        (
            Layout((("data",), ())),
            ShardingChoice(True, axes=BATCH),
            Layout((("data",), ()), flat=("replica",)),
        ),
        (Layout((("tensor",), ())), ShardingChoice(True, axes=BATCH), Layout((("tensor",), ()), flat=BATCH)),
        # 12 rows over 4 ranks divide, over 8 they do not.
        (Layout(((), ())), ShardingChoice(True, split="rows", axes=("data",)), Layout((("data",), ()))),
        (Layout(((), ())), ShardingChoice(True, split="rows", axes=BATCH), Layout(((), ()))),
        (
            Layout((("tensor",), ())),
            ShardingChoice(True, split="rows", axes=("replica",)),
            Layout((("tensor", "replica"), ())),
        ),
        (
            Layout((("tensor",), ())),
            ShardingChoice(True, split="rows", axes=("data",)),
            Layout((("tensor",), ())),
        ),
        # 12 x 6 x 4 B are 288 B, half of them on each tensor rank.
        (Layout(((), ())), ShardingChoice(True, axes=BATCH, min_bytes=288), Layout(((), ()), flat=BATCH)),
        (Layout(((), ())), ShardingChoice(True, axes=BATCH, min_bytes=289), Layout(((), ()))),
        (
            Layout((("tensor",), ())),
            ShardingChoice(True, axes=BATCH, min_bytes=145),
            Layout((("tensor",), ())),
        ),
    ],
)
def test_home(layout, sharding, home):
    assert sharding.home(layout, KIND, MESH) == home


def test_the_recipe_shards_unless_the_scenario_says_otherwise():
    by_recipe = plan({"data": 2}, recipe="fsdp")
    assert by_recipe.sharding == plan({"data": 2}, optimizer_sharding="fsdp").sharding
    assert any("recipe fsdp shards states, gradients and weights over data" in n for n in by_recipe.notes)
    other = plan({"data": 2}, recipe="fsdp", optimizer_sharding={"zero": 1})
    assert other.sharding == ShardingChoice(True, axes=("data",))
    assert not any("recipe fsdp" in note for note in other.notes)
