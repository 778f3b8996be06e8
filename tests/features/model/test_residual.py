"""Residual networks: sizes as published, and values of every split against one device."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from simcluster.document import validate_data
from simcluster.errors import PlanError, ScenarioError
from simcluster.layout import Movement, MovementKind
from simcluster.model import Phase
from simcluster.model.model_flops import forward_flops
from simcluster.model.operators.batch_norm import BatchNorm
from simcluster.model.operators.convolution import Conv2d
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.plan import make_plan
from simcluster.program import build
from simcluster.simulation import simulate, verify
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.verification.single_device_comparison import compare_values
from simcluster.work import DType
from tests.support.covering import quick
from tests.support.folding import assert_folded_is_unfolded
from tests.support.scenarios import scenario

SMALL = {"family": "resnet", "blocks": [1, 1], "image": 64, "classes": 8, "width": 4}
TRAINING = {"seq_len": 1, "optimizer": "momentum", "precision": "fp32"}


def catalog(name, **changes):
    return validate_data({"use": name, **changes}, ModelSpec).build(None)


def graph_of(model):
    return model.graph(batch=1, seq_len=1, dtype=DType.FP16, num_tokens=1)


@pytest.mark.parametrize(
    ("name", "version", "giga_products"),
    [("resnet-50", "v1.5", 4.09), ("resnet-50", "v1", 3.86), ("resnet-18", "v1.5", 1.81)],
)
def test_forward_flops_are_twice_the_published_products(name, version, giga_products):
    graph = graph_of(catalog(name, version=version))
    assert round(forward_flops(graph).counted / 2e9, 2) == giga_products


def test_resnet_50_is_made_of_the_published_tensors():
    graph = graph_of(catalog("resnet-50"))
    sizes = dict(graph.parameters())
    assert len(sizes) == 161
    norms = sum(kind.num_elements for name, kind in sizes.items() if ".norm." in name)
    head = sum(kind.num_elements for name, kind in sizes.items() if name.startswith("head."))
    assert (norms, head) == (53_120, 2_049_000)
    assert sum(kind.num_elements for kind in sizes.values()) - norms - head == 23_454_912
    convolutions = [node for _, node in graph.nodes() if isinstance(node.operator, Conv2d)]
    assert len(convolutions) == 53
    block = {each.name: graph.block_of(each) for each in graph.instances}
    outputs = sum(
        block[instance.name].values[node.outputs[0]].type.num_elements
        for instance, node in graph.nodes()
        if isinstance(node.operator, Conv2d)
    )
    assert round(outputs / 1e6, 1) == 11.1


def test_pictures_are_halved_by_every_stage_but_the_first():
    graph = graph_of(catalog("resnet-50"))
    shapes = {
        name: block.values["out"].type.shape[1:] for name, block in graph.blocks.items() if name != "head"
    }
    assert shapes["stem"] == (64, 56, 56)
    assert shapes["stage1.first"] == shapes["stage1.next"] == (256, 56, 56)
    assert shapes["stage4.next"] == (2048, 7, 7)


def strides(model):
    block = graph_of(model).blocks["stage2.first"]
    return [block.node(f"conv{index}").operator.windows.stride[0] for index in (1, 2, 3)]


def test_versions_differ_in_who_halves_the_picture():
    assert strides(catalog("resnet-50")) == [1, 2, 1]
    assert strides(catalog("resnet-50", version="v1")) == [2, 1, 1]


# -- plans -----------------------------------------------------------------------------------------------


def resnet(mesh, split, *, micro_batch=2, micro_batches=1, plan=None, training=None, **model):
    # The three colours of a picture divide over no ranks.
    where = "layers.*" if "channels" in split else "*"
    rules = [{"match": where, "split": split}] if split else []
    return scenario(
        mesh,
        devices=2,
        model={**SMALL, **model},
        micro_batch=micro_batch,
        micro_batches=micro_batches,
        training=TRAINING | (training or {}),
        strategies=rules,
        **(plan or {}),
    )


def movements(built, phase=None):
    return Counter(
        str(node.operator.kind)
        for _, node in built.plan.graph.nodes()
        if isinstance(node.operator, Movement) and (phase is None or node.phase == phase)
    )


SPLITS = [
    ({"data": 2}, {}),
    ({"data": 4}, {}),
    ({"rows": 2}, {"height": "rows"}),
    ({"columns": 2}, {"width": "columns"}),
    ({"rows": 4}, {"height": "rows"}),
    ({"rows": 2, "columns": 2}, {"height": "rows", "width": "columns"}),
    ({"rows": 4, "columns": 2}, {"height": "rows", "width": "columns"}),
    pytest.param(
        {"rows": 2, "columns": 4}, {"height": "columns", "width": "rows"}, marks=pytest.mark.thorough
    ),
    ({"one": 2, "two": 2}, {"height": ["two", "one"]}),
    ({"data": 2, "rows": 2, "columns": 2}, {"height": "rows", "width": "columns"}),
    ({"tensor": 2}, {"channels": "tensor"}),
    ({"tensor": 2, "rows": 2}, {"filters": "tensor", "height": "rows"}),
]


@pytest.mark.combinations
@pytest.mark.parametrize("statistics", ["local", "synchronised"])
@pytest.mark.parametrize(("mesh", "split"), SPLITS, ids=str)
def test_every_split_computes_what_one_device_computes(mesh, split, statistics):
    found = verify(resnet(mesh, split, statistics=statistics))
    assert found.agrees, found


def test_a_block_of_two_convolutions_verifies_split_both_ways():
    wanted = resnet({"rows": 2, "columns": 2}, {"height": "rows", "width": "columns"}, block="basic")
    assert verify(wanted).agrees


def test_data_parallel_statistics_need_no_collective_and_synchronised_ones_do():
    forward = {
        statistics: movements(build_scenario(resnet({"data": 4}, {}, statistics=statistics)), "forward")
        for statistics in ("local", "synchronised")
    }
    norms = sum(isinstance(node.operator, BatchNorm) for _, node in graph_of(small()).nodes())
    assert forward["local"] == {}
    assert forward["synchronised"] == {"all_reduce": norms}


def small():
    return validate_data(SMALL, ModelSpec).build(None)


def test_every_convolution_wider_than_its_step_reads_a_halo():
    built = build_scenario(resnet({"rows": 2}, {"height": "rows"}))
    forward = movements(built, "forward")
    # The stem reaches 3 rows before and 2 behind, pool and halving convolutions 1 before, the others 1 and 1.
    assert forward["neighbor_exchange"] + forward["shift"] > 0
    shifts = [
        node.operator
        for _, node in built.plan.graph.nodes()
        if isinstance(node.operator, Movement)
        and node.operator.kind is MovementKind.SHIFT
        and node.phase == "forward"
    ]
    assert {(each.halo, each.to_halo) for each in shifts} == {((2, 2), (3, 2)), ((0, 0), (1, 0))}


def test_narrow_convolutions_read_none():
    built = build_scenario(resnet({"rows": 2}, {"height": "rows"}))
    names = {
        node.origin
        for _, node in built.plan.graph.nodes()
        if isinstance(node.operator, Movement)
        and node.operator.kind in (MovementKind.SHIFT, MovementKind.NEIGHBOR_EXCHANGE)
    }
    assert "layers.0.conv3" not in names
    assert not any("relu2" in name for name in names), "what the last 1 x 1 convolution reads"


BOTH = {"height": "rows", "width": "columns"}


PLANS = [
    ({"pipeline": 2, "data": 2}, {}, {"schedule": {"kind": "1f1b"}}),
    ({"pipeline": 2, "rows": 2}, {"height": "rows"}, {"recompute": {"layers": "all"}}),
    ({"data": 2, "rows": 2}, {"height": "rows"}, {"optimizer_sharding": {"zero": 1}}),
    ({"rows": 2, "columns": 2}, BOTH, {"recompute": {"operators": ["*.conv2", "*.norm"]}}),
    ({"data": 2}, {}, {"optimizer_sharding": "fsdp"}),
]


@pytest.mark.parametrize(("mesh", "split", "plan"), quick(PLANS, *PLANS[1::2]), ids=str)
def test_pictures_go_with_everything_else(mesh, split, plan):
    found = verify(resnet(mesh, split, micro_batches=3, plan=plan))
    assert found.agrees, found


def test_ranks_with_more_pictures_update_their_statistics_more_often():
    wanted = resnet({"data": 2}, {}, micro_batches=3, training={"batch_shares": {"data": [1, 2]}})
    found = verify(wanted)
    assert found.agrees, found
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update", "state"}


def test_running_statistics_are_states_of_every_norm_and_no_parameters():
    found = verify(resnet({"data": 2}, {}))
    states = [each.name for each in found.comparisons if each.what == "state" and each.step == 0]
    norms = [name for name, _ in graph_of(small()).parameters() if name.endswith(".norm.weight")]
    assert sorted(states) == sorted(name.replace(".weight", ".running") for name in norms)
    graph = build_scenario(resnet({"data": 4}, {})).plan.graph
    stem = graph.blocks["stem"]
    assert stem.values["conv.norm.running"].type.shape == (4, 2, 4)
    assert str(stem.values["conv.norm.running"].layout) == "(data, -, -)"


def test_a_norm_its_running_statistics_and_its_activation_are_one_kernel():
    stem = build_scenario(resnet({"data": 2}, {})).plan.graph.blocks["stem"]
    kernels = {node.name: node.kernel for node in stem.phase(Phase.FORWARD)}
    assert kernels["conv.norm.sums"] == kernels["conv"]
    assert kernels["conv.norm.running"] == kernels["relu"] == kernels["conv.norm.normalise"]
    assert kernels["relu"] != kernels["conv"]


def test_a_cut_picture_is_simulated_once_for_every_class_exactly():
    assert_folded_is_unfolded(resnet({"rows": 4, "columns": 2}, BOTH, micro_batch=1))


# -- programs that are broken ----------------------------------------------------------------------------


@cache
def split():
    """A plan that agrees unless its program is changed."""
    which = resnet({"rows": 2}, {"height": "rows"}, statistics="synchronised")
    plan = make_plan(which.model, which.spec.training, which.spec.parallel, which.framework, which.cluster)
    assert all(each.agrees for each in compare_values(plan, which.cluster, "float64", 0)[0])
    return plan, which


def is_caught(mutate):
    plan, which = split()
    comparisons, fault = compare_values(plan, which.cluster, "float64", 0, mutate(build(plan)))
    return bool(fault) or any(not each.agrees for each in comparisons)


def with_halos(change):
    """A mutation of the first exchange with neighbours that ``change`` gives something else for."""

    def mutate(program):
        codes = list(program.codes)
        for number, code in enumerate(codes):
            for index, each in enumerate(code.instructions):
                movement = each.calls[0].operator if each.calls else None
                if not isinstance(movement, Movement):
                    continue
                if movement.kind not in (MovementKind.NEIGHBOR_EXCHANGE, MovementKind.SHIFT):
                    continue
                other = change(movement)
                if other != movement:
                    calls = (replace(each.calls[0], operator=other), *each.calls[1:])
                    changed = list(code.instructions)
                    changed[index] = replace(each, calls=calls)
                    codes[number] = replace(code, instructions=tuple(changed))
                    return replace(program, codes=tuple(codes))
        raise AssertionError("nothing to change")

    return mutate


def grows(movement):
    return sum(movement.to_halo) > sum(movement.halo)


@pytest.mark.parametrize(
    "change",
    [
        lambda each: replace(each, fill=1.0) if grows(each) and each.fill == 0 else each,
        lambda each: replace(each, fill=9.0) if each.fill < 0 else each,
        lambda each: (
            replace(each, to_halo=each.to_halo[::-1]) if grows(each) and each.to_halo == (3, 2) else each
        ),
        lambda each: (
            replace(each, halo=each.halo[::-1], to_halo=each.to_halo[::-1])
            if not grows(each) and each.kind is MovementKind.SHIFT
            else each
        ),
    ],
    ids=["padding", "padding of a maximum", "the wrong side", "owed to the wrong side"],
)
def test_a_wrong_exchange_with_neighbours_is_caught(change):
    assert is_caught(with_halos(change))


# -- what is refused -------------------------------------------------------------------------------------


def problem_of(wanted):
    with pytest.raises(PlanError) as caught:
        build_scenario(wanted)
    return caught.value.problems[0]


def test_parts_that_windows_straddle_are_refused_with_the_arithmetic():
    found = problem_of(resnet({"rows": 16}, {"height": "rows"}, image=32, statistics="synchronised"))
    assert found.path == "parallel.strategies.0"
    assert "height 32" in found.message


def test_an_odd_picture_is_not_split():
    with pytest.raises(PlanError) as caught:
        build_scenario(resnet({"rows": 2}, {"height": "rows"}, image=66))
    messages = [problem.message for problem in caught.value.problems]
    (pool,) = [message for message in messages if message.startswith("stem.pool")]
    assert messages[0] == "stem.conv: height 66 in steps of 2 into 2 parts: 33 / 2 = 16.5"
    assert "dim 'height' cannot be split: parts would have unequal windows: " in pool
    assert "windows of 3, less padding 2 x 1, and 0 left behind the last are 1, not the step 2" in pool


def test_statistics_of_a_rank_are_not_split_over_others():
    """A strategy may not split the samples of a group; they may be synchronised instead."""
    wanted = resnet({"rows": 2}, {"batch": "rows"}, micro_batch=2)
    found = problem_of(wanted)
    assert found.message.startswith("stem.conv.norm")
    assert "batch 2 in steps of 2 into 2 parts: 1 / 2 = 0.5" in found.message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": 4}, "an image of 4 pixels is halved to less than one: 8 at least"),
        ({"hidden": 5}, "a model of the family 'resnet' has no 'hidden'"),
        ({"classes": None}, "'classes' is missing"),
        ({"blocks": []}, "blocks"),
    ],
)
def test_an_impossible_one_says_why(changes, message):
    with pytest.raises(ScenarioError, match=message):
        validate_data({name: v for name, v in {**SMALL, **changes}.items() if v is not None}, ModelSpec)


def test_another_length_is_refused():
    wanted = scenario({"data": 2}, model=SMALL, training={"seq_len": 8})
    found = problem_of(wanted)
    assert found.path == "training.seq_len"
    assert found.message == "a picture counts as one token: write seq_len: 1, not 8"


def test_a_run_says_that_it_knows_no_speed_of_convolutions():
    pictures = simulate(resnet({"data": 2}, {})).documents
    assumed = {entry["name"]: entry for entry in pictures["summary"]["assumptions"]}
    assert assumed["convolutions"]["value"] == "as fast as the matmuls that they are"
    text = simulate(scenario({"data": 2})).documents
    assert "convolutions" not in {entry["name"] for entry in text["summary"]["assumptions"]}
    # Nor does it know of attention, or of tokens.
    shares = {"mfu_full_attention", "hfu_full_attention"}
    assert not shares & pictures["summary"].keys()
    assert shares <= text["summary"].keys()
    assert pictures["plan"]["throughput_unit"] == "samples"
    assert "throughput_unit" not in text["plan"]


def test_an_axis_called_tensor_does_not_bring_the_recipe_of_transformers():
    assert build_scenario(resnet({"tensor": 2}, {"channels": "tensor"})).plan.recipe == "data"
    assert build_scenario(scenario({"tensor": 2})).plan.recipe == "megatron"
