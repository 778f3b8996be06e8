from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import PlanError, ScenarioError
from simcluster.layout import Layout, Movement
from simcluster.model import Phase, Role
from simcluster.plan.recompute.layer_recompute import recompute
from simcluster.plan.spec.recompute_spec import RecomputeSpec
from tests.support.plan_graphs import told
from tests.support.planned import LLAMA, plan

MESH = {"data": 2, "tensor": 2}


def test_only_layers_are_recomputed():
    graph = plan(MESH, recompute={"layers": "all"}).graph
    assert [each.block for each in graph.instances] == ["embedding", *["layer.recompute"] * 4, "head"]


def test_the_whole_forward_runs_again_with_its_collectives():
    kept, again = (plan(MESH, recompute={"layers": each}).graph for each in ("none", "all"))
    plain, block = kept.blocks["layer"], again.blocks["layer.recompute"]
    forward = [node.name for node in plain.phase(Phase.FORWARD)]
    assert [node.name for node in block.phase(Phase.FORWARD)] == forward
    backward = [node.name for node in block.phase(Phase.BACKWARD)]
    assert backward[: len(forward)] == [f"{name}.recompute" for name in forward]
    assert backward[len(forward) :] == [node.name for node in plain.phase(Phase.BACKWARD)]
    assert told(block, Phase.BACKWARD) == ["all_reduce tensor"] * 4


def test_backward_reads_only_what_enters_the_layer_and_what_it_made_again():
    block = plan(MESH, recompute={"layers": "all"}).graph.blocks["layer.recompute"]
    made = {value for node in block.phase(Phase.FORWARD) for value in node.outputs}
    read = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
    assert not made & read
    known = {*block.inputs, *block.parameters, *block.gradients.values()}
    for node in block.phase(Phase.BACKWARD):
        assert set(node.inputs) <= known
        known.update(node.outputs)


def test_recomputed_values_are_laid_out_like_the_first_ones():
    block = plan(MESH, recompute={"layers": "all"}).graph.blocks["layer.recompute"]
    for node in block.phase(Phase.FORWARD):
        for value in node.outputs:
            first, again = block.values[value], block.values[f"{value}.recompute"]
            assert (first.type, first.layout) == (again.type, again.layout)
            assert again.role is Role.ACTIVATION
    copies = [node for node in block.nodes if node.name.endswith(".recompute")]
    for node in copies:
        first = block.node(node.name.removesuffix(".recompute"))
        assert (node.operator, node.strategy, node.masked) == (first.operator, first.strategy, first.masked)
        assert node.source == first.source or isinstance(node.operator, Movement)


def test_a_recomputed_loss_is_not_added_again():
    graph = recompute(plan({"data": 2}).graph, {"head"})
    head = graph.blocks["head.recompute"]
    assert head.values[head.loss].role is Role.ACCUMULATOR
    assert head.values[f"{head.loss}.recompute"].role is Role.ACTIVATION


def test_no_layers_change_nothing():
    graph = plan({"data": 2}).graph
    assert recompute(graph, set()) == graph


PIPELINE = {"pipeline": 2, "data": 2}


def recomputed(layers, mesh=PIPELINE):
    """The numbers of the layers that are recomputed, of four."""
    graph = plan(mesh, recompute=layers).graph
    return [
        int(each.name.removeprefix("layers.")) for each in graph.instances if graph.block_of(each).recomputed
    ]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("none", []),
        (False, []),
        (True, [0, 1, 2, 3]),
        ("all", [0, 1, 2, 3]),
        (1, [0, 2]),
        (2, [0, 1, 2, 3]),
        ([2, 0], [0, 1]),
        ([1, 2], [0, 2, 3]),
        ([[0, 1]], [2]),
        (["layers.{0,3}", "layers.1"], [0, 1, 3]),
        ({"layers": [0, 2]}, [2, 3]),
    ],
)
def test_which_layers_are_recomputed(written, found):
    assert recomputed(written) == found


@pytest.mark.parametrize(
    ("written", "message", "path"),
    [
        (3, "no stage has more than 2", "layers"),
        ([1, 1, 1], "for 3 stages, but the mesh has 2", "layers"),
        ([1, 3], "stage 1 has 2 layers, so 3", "layers"),
        ([[1, 1], [1, 1]], "one chunk of layers", "layers"),
        (["layers.1", "layer.2"], "'layer.2' matches no layer", "layers.1"),
    ],
)
def test_layers_that_are_not_there(written, message, path):
    with pytest.raises(PlanError, match=message) as error:
        recomputed(written)
    assert error.value.problems[0].path == f"parallel.recompute.{path}"


@pytest.mark.parametrize(
    ("written", "path", "message"),
    [
        ({"slice": True}, "slice", "none is recomputed"),
        ({"gathers": True}, "gathers", "none is recomputed"),
        ({"collectives": False}, "collectives", "so no collective is"),
        ({"layers": "auto", "operators": ["layers.*.mlp.*"]}, "operators", "chooses operators"),
        ({"layers": "some"}, "layers", "'none', 'all' or 'auto'"),
        ({"layers": -1}, "layers", "1"),
    ],
)
def test_what_says_nothing_is_refused(written, path, message):
    with pytest.raises(ScenarioError, match=message) as error:
        validate_data(written, RecomputeSpec)
    assert error.value.problems[0].path.startswith(path)


def test_mindspores_names_are_known():
    names = {
        "mp_comm_recompute": False,
        "parallel_optimizer_comm_recompute": True,
        "recompute_slice_activation": True,
    }
    own = {"collectives": False, "gathers": True, "slice": True}
    found = [validate_data({"layers": "all", **each}, RecomputeSpec) for each in (names, own)]
    assert found[0] == found[1]


def layer(recipe="megatron", **parallel):
    graph = plan(MESH, recipe=recipe, **parallel).graph
    return next(graph.block_of(each) for each in graph.instances if each.name == "layers.0")


def test_kept_collectives_do_not_run_again():
    again = layer(recompute="all")
    kept = layer(recompute={"layers": "all", "collectives": False})
    assert told(again, Phase.BACKWARD) == ["all_reduce tensor"] * 4
    assert told(kept, Phase.BACKWARD) == ["all_reduce tensor"] * 2
    read = {value for node in kept.phase(Phase.BACKWARD) for value in node.inputs}
    assert "attention.out.all_reduce" in read
    # Nobody needs the products in front of a sum that is kept, nor the layer's result.
    copies = [node.name for node in kept.nodes if node.name.endswith(".recompute")]
    assert "mlp.up.recompute" in copies
    assert not {"attention.out.recompute", "mlp.down.recompute", "mlp.residual.recompute"} & {*copies}


def test_what_was_gathered_and_kept_is_not_gathered_for_weight_gradients_either():
    """Of sequence parallelism's four gathers in the backward, those of gradients are left."""
    again = layer("megatron_sp", recompute="all")
    kept = layer("megatron_sp", recompute={"layers": "all", "collectives": False})
    plain = layer("megatron_sp")
    assert told(again, Phase.BACKWARD).count("all_gather tensor") == 6
    assert told(plain, Phase.BACKWARD).count("all_gather tensor") == 4
    assert told(kept, Phase.BACKWARD).count("all_gather tensor") == 2
    assert kept.node("mlp.up.wgrad").inputs[0] == "mlp.norm.all_gather"


def test_only_what_the_backward_needs():
    """MindSpore's graph: what makes the layer's output is not made again."""
    graph = plan(MESH, recipe="megatron").graph
    made = recompute(graph, {"layers.1"}, needed=True)
    block = made.block_of(made.instances[2])
    assert [each.block for each in made.instances].count(block.name) == 1
    assert told(block, Phase.BACKWARD) == ["all_reduce tensor"] * 3
    copies = [node.name.removesuffix(".recompute") for node in block.nodes if "recompute" in node.name]
    forward = [node.name for node in block.phase(Phase.FORWARD)]
    assert copies == forward[: forward.index("mlp.down")]


@pytest.mark.parametrize(
    "form",
    [{"mindspore": "level1", "min_bytes": "8 B"}, {"fsdp": {"reshard_after_forward": False}}],
)
def test_weights_are_gathered_again_if_that_is_asked_for(form):
    for wanted in (False, True):
        graph = plan(PIPELINE, recompute={"layers": 1, "gathers": wanted}, optimizer_sharding=form).graph
        found = [any(graph.block_of(each).phase(Phase.REGATHER)) for each in graph.instances]
        assert found == [wanted and graph.block_of(each).recomputed for each in graph.instances]


def test_an_input_is_kept_in_parts():
    block = layer(recompute={"layers": "all", "slice": True})
    assert block.values["in.part"].layout == Layout((("data",), ("tensor",), ()))
    assert told(block, Phase.BACKWARD)[0] == "all_gather tensor"
    read = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
    assert "in" not in read and "in.part" in read


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            {"layers": "all", "gathers": True},
            "recompute.gathers changes nothing: weights are whole on every rank",
        ),
        ({"layers": "all", "slice": True}, "recompute.slice changes nothing"),
    ],
)
def test_what_changes_nothing_is_said(written, message):
    assert any(message in note for note in plan({"data": 2}, recompute=written).notes)
    sharded = plan(MESH, recompute=written, optimizer_sharding={"mindspore": "level1"})
    assert not any("changes nothing" in note for note in sharded.notes)


def test_weights_that_are_gathered_again_anyway():
    found = plan({"data": 2}, recompute={"layers": "all", "gathers": True}, optimizer_sharding="fsdp")
    assert any("are gathered again anyway" in note for note in found.notes)


@pytest.mark.parametrize(
    ("layers", "counted"), [("none", []), ("all", [0, 1, 2, 3]), (1, [0, 2]), ([1, 0], [0])]
)
def test_layers_that_predict_further_tokens_are_behind_the_last_one_and_recomputed_with_others(
    layers, counted
):
    """They are not among those that stages share, nor among those that are counted."""
    graph = plan({"pipeline": 2}, model=LLAMA | {"mtp_layers": 1}, recompute={"layers": layers}).graph
    again = [instance.name for instance in graph.instances if ".recompute" in instance.block]
    assert again == [*(f"layers.{index}" for index in counted), *["mtp.layers.0"] * bool(counted)]
    stages = {instance.name: instance.stage for instance in graph.instances}
    assert [stages[f"layers.{index}"] for index in range(4)] == [0, 0, 1, 1]
    assert stages["mtp.layers.0"] == stages["mtp.heads.0"] == stages["head"] == 1
