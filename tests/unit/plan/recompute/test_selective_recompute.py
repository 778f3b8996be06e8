"""Recomputation of chosen operators."""

from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import PlanError, ScenarioError
from simcluster.model import Phase
from simcluster.plan.recompute.selective_recompute import recompute_operators
from simcluster.plan.spec import RecomputeSpec
from tests.support import pass_graphs
from tests.support.plan_graphs import told
from tests.support.planned import plan

MESH = {"data": 2, "tensor": 2}


def layer(*operators, mesh=None, keep_outputs=(), **parallel):
    recompute = {"operators": list(operators), "keep_outputs": list(keep_outputs)}
    graph = plan(mesh or MESH, recompute=recompute, **parallel).graph
    return next(block for name, block in graph.blocks.items() if name.startswith("layer"))


def copies(block):
    return [node.name.removesuffix(".recompute") for node in block.nodes if node.name.endswith(".recompute")]


def test_a_chosen_operator_is_made_again_just_before_its_first_reader():
    block = layer("layers.*.mlp.activation")
    backward = [node.name for node in block.phase(Phase.BACKWARD)]
    assert copies(block) == ["mlp.activation"]
    index = backward.index("mlp.activation.recompute")
    first = block.node(backward[index + 1])
    assert any(value.endswith(".recompute") for value in first.inputs)
    assert index > 0
    read = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
    assert not set(block.node("mlp.activation").outputs) & read


def test_what_nobody_reads_in_the_backward_is_not_made_again():
    assert copies(layer("layers.*.mlp.down")) == []
    assert copies(layer("layers.*.attention.core")) == ["attention.core"]


def test_a_collective_between_chosen_operators_runs_again():
    between = layer("layers.*.attention.{out,residual}", "layers.*.mlp.norm", recipe="megatron_sp")
    assert "attention.out.reduce_scatter" in copies(between)
    plain = layer("layers.*.mlp.norm", recipe="megatron_sp")
    assert copies(plain) == ["mlp.norm"]


def test_a_collective_behind_an_operator_that_is_kept_does_not_run_again():
    """The all-reduced sum of the attention's output is kept: the partial one would take as much."""
    block = layer("layers.*.attention.residual")
    assert copies(block) == ["attention.residual"]
    forward = [each for each in told(block, Phase.FORWARD) if each.startswith("all_reduce")]
    assert len(forward) == 2


def test_what_was_gathered_for_a_chosen_operator_is_gathered_again():
    block = layer("layers.*.mlp.up*", recipe="megatron_sp")
    assert [name for name in copies(block) if "gather" in name] == ["mlp.norm.all_gather"]


def test_what_others_read_of_a_checkpoint_is_kept():
    """Megatron's core of attention: its projection has saved what it reads."""
    core = ["layers.*.attention.core"]
    block = layer(*core, keep_outputs=core)
    assert copies(block) == ["attention.core"]
    kept = block.node("attention.core").outputs[0]
    assert kept in block.node("attention.out.wgrad").inputs
    gradient = block.node("attention.core.grad").inputs
    assert f"{kept}.recompute" in gradient and kept not in gradient


def test_all_of_a_checkpoint_runs_again():
    mlp = ["layers.*.mlp.{up*,activation,down}"]
    assert "mlp.down" not in copies(layer(*mlp)) and copies(layer(*mlp, keep_outputs=mlp))[-1] == "mlp.down"


def test_only_matching_layers_get_a_block_of_their_own():
    graph = plan(
        {"data": 2}, recompute={"operators": ["layers.{0,2}.mlp.*", "layers.1.attention.core"]}
    ).graph
    blocks = [each.block for each in graph.instances]
    assert blocks[1] == blocks[3] != blocks[2] != blocks[4] == "layer"


def test_a_number_of_layers_is_the_first_ones_of_each_stage():
    graph = plan({"pipeline": 2}, recompute={"layers": 1, "operators": ["layers.*.attention.core"]}).graph
    assert [each.block for each in graph.instances] == [
        "embedding",
        "layer.recompute",
        "layer.selective",
        "layer.recompute",
        "layer.selective",
        "head",
    ]


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(PlanError, match=r"'layers\.\*\.heart' matches no operator") as error:
        layer("layers.*.mlp.*", "layers.*.heart")
    assert error.value.problems[0].path == "parallel.recompute.operators.1"
    with pytest.raises(PlanError, match=r"'\*\.heart' matches no operator") as error:
        layer("layers.*.mlp.*", keep_outputs=["*.heart"])
    assert error.value.problems[0].path == "parallel.recompute.keep_outputs.0"


def test_operators_of_layers_that_are_recomputed_whole_are_refused():
    with pytest.raises(ScenarioError, match="recomputed whole already"):
        validate_data({"layers": "all", "operators": ["layers.*.mlp.norm"]}, RecomputeSpec)


def test_the_pass_changes_the_layers_that_a_pattern_names_alone():
    before = pass_graphs.sharded()
    graph = recompute_operators(before, ["layers.1.mlp.activation"])
    assert [each.block for each in graph.instances] == ["embedding", "layer", "layer.selective", "head"]
    old, block = before.blocks["layer"], graph.blocks["layer.selective"]
    assert graph.blocks["layer"] == old
    (again,) = [node for node in block.nodes if node.name.endswith(".recompute")]
    assert (again.name, again.inputs) == ("mlp.activation.recompute", old.node("mlp.activation").inputs)
    reader = block.node("mlp.down.wgrad")
    assert block.nodes.index(again) == block.nodes.index(reader) - 1
    assert reader.inputs == (again.outputs[0], "out.grad")
    others = [node for node in block.nodes if node not in (again, reader)]
    assert others == [node for node in old.nodes if node.name != "mlp.down.wgrad"]
