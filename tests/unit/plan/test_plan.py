from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.layout import Strategy
from simcluster.plan.pipeline.schedule import render
from simcluster.work import DType
from tests.support.planned import GPT, LLAMA, plan


def problems(*args, **kwargs):
    with pytest.raises(PlanError) as caught:
        plan(*args, **kwargs)
    return caught.value.problems


def problem(*args, **kwargs):
    (only,) = problems(*args, **kwargs)
    return only


# -- decisions ------------------------------------------------------------------------------------------


def test_a_mesh_with_tensor_gets_megatron_and_any_other_data():
    assert plan({"tensor": 2}).recipe == "megatron"
    assert plan({"data": 2}).recipe == "data"
    assert plan({"data": 2}, mode="data").recipe == "data"
    assert plan({"tensor": 2}, recipe="megatron_sp").recipe == "megatron_sp"


def test_later_entries_win_and_the_users_before_the_recipes():
    own = [
        {"match": "layers.*.mlp.*", "split": {"seq": "tensor"}},
        {"match": "layers.1.mlp.up", "split": {"hidden": "tensor"}},
    ]
    found = plan({"data": 2, "tensor": 2}, strategies=own).strategies
    batch = {"batch": ["data"]}
    assert found.of("layers.0")["mlp.up"] == Strategy.of(batch | {"seq": ["tensor"]})
    assert found.of("layers.1")["mlp.up"] == Strategy.of(batch | {"hidden": ["tensor"]})
    assert found.of("layers.0")["attention.core"] == Strategy.of(batch | {"heads": ["tensor"]})
    assert found.sources["layers.1"]["mlp.up"] == "scenario"
    assert found.sources["layers.1"]["attention.core"] == "recipe megatron"
    assert found.sources["layers.1"]["attention.norm"] == "default"


def test_unconfigured_operators_are_counted_aloud():
    found = plan({"data": 2, "tensor": 2})
    unconfigured = 4 * 4 + 1
    assert found.strategies.unconfigured == unconfigured
    assert f"{unconfigured} operators without a strategy, replicated over tensor (2)" in found.notes
    assert not any("without a strategy" in note for note in plan({"data": 2}).notes)


@pytest.mark.parametrize("parallel", ["one_norm", "two_norms"])
def test_sums_of_attention_and_mlp_side_by_side_are_not_counted(parallel):
    """They add partial sums as they are: nothing is computed twice."""
    found = plan({"data": 2, "tensor": 2}, model=GPT | {"parallel": parallel}, recipe="megatron_sp")
    assert not any("without a strategy" in note for note in found.notes)


def test_the_vocabulary_is_padded_for_the_ranks_that_share_it():
    assert plan({"data": 2}).vocab == 128
    found = plan({"tensor": 4})
    assert found.vocab == 512
    assert "vocabulary padded from 61 to 512" in found.notes


def test_micro_batches_divide_the_batch_of_a_data_rank():
    found = plan({"data": 2, "tensor": 2}, training={"global_batch": 24, "micro_batch": 3})
    assert (found.num_micro_batches, found.placement.batch_ways, found.placement.batch_axes) == (
        4,
        2,
        ("data",),
    )


def test_the_loss_is_divided_by_the_tokens_of_all_ranks_and_micro_batches():
    found = plan({"data": 2, "tensor": 2}, training={"global_batch": 24, "micro_batch": 3, "seq_len": 8})
    for graph in (found.graph, found.logical):
        (loss,) = [node for node in graph.blocks["head"].nodes if node.name in ("loss", "loss.join")]
        assert loss.operator.scale == 1 / (24 * 8)
        tokens = next(block for name, block in graph.blocks.items() if name.startswith("embedding")).values[
            "tokens"
        ]
        assert tokens.type.shape == (3 * 2, 8)


def test_roles_say_what_axes_are_for():
    found = plan({"stages": 2, "wide": 2}, roles={"batch": "wide", "pipeline": "stages"})
    assert (found.stage_axis, found.num_stages, found.placement.batch_axes) == ("stages", 2, ("wide",))
    assert found.pipeline.layers_of_stages == (2, 2)


def test_stages_are_listed_or_even():
    assert plan({"pipeline": 3}, model=LLAMA | {"layers": 7}).pipeline.layers_of_stages == (2, 3, 2)
    assert plan({"pipeline": 2}, schedule={"stages": [1, 3]}).pipeline.layers_of_stages == (1, 3)


def test_the_schedule_is_the_one_that_is_named():
    assert render(plan({"pipeline": 2}, training={"global_batch": 2}).timetable) == "F0 F1 B0 B1\nF0 B0 F1 B1"
    gpipe = plan({"pipeline": 2}, training={"global_batch": 2}, schedule="gpipe")
    assert render(gpipe.timetable) == "F0 F1 B0 B1\nF0 F1 B0 B1"


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ("fp32", (DType.FP32, DType.FP32, None)),
        ("bf16", (DType.BF16, DType.FP32, DType.FP32)),
        ({"compute": "bf16", "gradients": "bf16"}, (DType.BF16, DType.BF16, DType.FP32)),
        ({"compute": "bf16", "master": "none"}, (DType.BF16, DType.FP32, None)),
        ({"compute": "fp32", "master": "fp32"}, (DType.FP32, DType.FP32, DType.FP32)),
    ],
)
def test_precision_says_compute_gradients_and_master(precision, expected):
    found = plan({"data": 2}, training={"precision": precision})
    assert (found.numerics.compute, found.numerics.gradients, found.numerics.master) == expected


def test_the_logical_graph_is_that_of_one_device():
    found = plan({"data": 2, "tensor": 2})
    assert set(found.logical.blocks) == {"embedding", "layer", "head"}
    assert all(
        value.layout is None for block in found.logical.blocks.values() for value in block.values.values()
    )
    assert all(
        value.layout is not None for block in found.graph.blocks.values() for value in block.values.values()
    )


# -- what is impossible ---------------------------------------------------------------------------------


def test_axes_that_do_not_multiply_to_the_devices_show_the_product():
    found = problem({"data": 4, "tensor": 2, "pipeline": 4}, devices=24)
    assert found.message == "data 4 x tensor 2 x pipeline 4 = 32, but the cluster has 24 devices"
    assert found.path == "parallel.mesh"
    assert "1 hosts x 24 devices = 24" in found.hint or "24" in found.hint


def test_a_batch_that_does_not_divide_shows_the_division():
    found = problem({"data": 4}, training={"global_batch": 10})
    assert found.path == "training.global_batch"
    assert "10 / (1 x 4) = 2.5" in found.message
    assert found.hint == "use a multiple of 4"


def test_an_axis_that_nothing_uses_is_an_error():
    found = problem({"data": 2, "tenser": 2})
    assert found.path == "parallel.mesh.tenser"
    assert "no role and no strategy uses axis 'tenser'" in found.message
    assert plan({"data": 2, "tenser": 1}).mesh.num_ranks == 2


def test_a_role_over_an_axis_that_is_not_there_proposes_the_nearest():
    found = problem({"data": 2}, roles={"batch": ["data", "dta"]})
    assert found.message == "the mesh has no axis 'dta'"
    assert found.path == "parallel.roles.batch"
    assert found.hint == "did you mean 'data'?"


def test_a_role_that_nothing_knows_is_an_error():
    """With it an axis counted as used, and all of its ranks repeated the same work."""
    found = problem({"wide": 2}, roles={"batsh": "wide"})
    assert (found.path, found.hint) == ("parallel.roles.batsh", "did you mean 'batch'?")
    named = {"match": "layers.*.mlp.up", "split": {"ffn": "columns"}}
    plan({"data": 2, "wide": 2}, roles={"columns": "wide"}, strategies=[named])
    plan(
        {"wide": 2},
        roles={"batch": "wide", "shards": "wide"},
        optimizer_sharding={"zero": 1, "axes": "shards"},
    )


def test_sequences_longer_than_the_position_table():
    found = problem({"data": 2}, model=GPT, training={"seq_len": 9})
    assert "sequences of 9 tokens" in found.message
    assert "8 positions" in found.message
    assert found.path == "training.seq_len"


def test_stages_that_do_not_fit_the_mesh_or_the_model():
    found = problem({"pipeline": 2}, schedule={"stages": [1, 1, 2]})
    assert found.message == "3 stages are listed, but the mesh has 2"
    assert found.path == "parallel.schedule.stages"
    assert problem({"pipeline": 2}, schedule={"stages": [1, 2]}).message.startswith(
        "1 + 2 = 3 layers in stages"
    )
    assert "every stage needs at least one layer" in problem({"pipeline": 5}).message


def test_problems_that_can_be_seen_at_once_are_shown_at_once():
    found = problems({"data": 2, "tenser": 2}, devices=3, roles={"batch": ["data", "dta"]})
    assert [each.path for each in found] == ["parallel.mesh", "parallel.mesh.tenser", "parallel.roles.batch"]
