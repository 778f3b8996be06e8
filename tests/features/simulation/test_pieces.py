"""Mixed dispatch: pieces are launched as graphs, the rest operator by operator; values, times and traces."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import simcluster
from simcluster import MindSporeLayout, PlanError, ScenarioError
from simcluster.model import Phase
from simcluster.plan.spec import FrameworkSpec
from simcluster.program import InstructionKind
from simcluster.scenario import Scenario
from simcluster.simulation import simulate, verify
from simcluster.simulation.compose.build import build_scenario, plan_scenario
from simcluster.simulation.views.effective_strategies import effective_strategies_of
from tests.support.covering import quick_at
from tests.support.scenarios import TINY_GPT, scenario

MLP = "layers.*.mlp"
PYNATIVE = "mindspore-pynative"
DISPATCH_NS = 45_000
"""What the profile's host spends on an operator; no kernel of the tiny model takes as long."""

COLUMNS = {"up.gate.weight": [1, "tensor"]}
LAYERS, MICRO_BATCHES = 4, 3


def pynative(mesh, *, host="atlas-800t-a2", name=PYNATIVE, **options) -> Scenario:
    which = scenario(mesh, host=host, devices=8, **options)
    return Scenario(which.spec.model_copy(update={"framework": FrameworkSpec.load(name)}), None, which.folder)


def alone(**options):
    """Eight ranks that do the same, with nothing to communicate but gradients."""
    return pynative({"data": 8}, micro_batches=MICRO_BATCHES, **options)


def figures(which):
    return simulate(which).documents["summary"]


def closed_form(which):
    """Operators by themselves, kernels in graphs and launches of a step, and nanoseconds of the kernels.

    Kernels of the tiny model are short, so that those of a code take as long as the host does for it, unless
    all are in one graph and take longer than its launch.
    """
    built = build_scenario(which)
    device = built.cluster.device(0)
    alone, inside, launches, spent = 0, 0, 0, 0
    for run in built.program.parts[0].executions:
        kernels = [
            each
            for each in built.program.codes[run.code].instructions
            if each.action is InstructionKind.COMPUTE
        ]
        working = [each for each in kernels if each.works]
        graphs = {each.piece for each in working if each.piece}
        by_itself = sum(not each.piece for each in working)
        own = sum(device.price(each.works, 0.0).total_ns for each in working)
        spent += max(own, DISPATCH_NS * (by_itself + len(graphs))) + len(kernels) - len(working)
        alone, inside = alone + by_itself, inside + len(working) - by_itself
        launches += len(graphs)
    return alone, inside, launches, spent


def test_a_piece_costs_one_launch_forward_and_one_backward():
    which = alone(shard=[{"piece": MLP, "in": [["data", 1, 1]]}])
    one_by_one, in_graphs, launches, spent = closed_form(which)
    found = figures(which)
    assert launches == 2 * LAYERS * MICRO_BATCHES
    assert found["dispatch"] == {
        "alone": one_by_one,
        "in_graphs": in_graphs,
        "launches": launches,
        "busy_s": pytest.approx((one_by_one + launches) * DISPATCH_NS * 1e-9, rel=1e-12),
    }
    assert found["compute_s"] + found["host_s"] == pytest.approx(spent * 1e-9, abs=1e-15)
    assert spent >= (one_by_one + launches) * DISPATCH_NS


def test_without_pieces_every_operator_is_dispatched_by_itself():
    one_by_one, in_graphs, launches, spent = closed_form(alone())
    found = figures(alone())
    assert "dispatch" not in found
    assert in_graphs == launches == 0
    assert found["compute_s"] + found["host_s"] == pytest.approx(spent * 1e-9, abs=1e-15)
    assert one_by_one > closed_form(alone(shard=[{"piece": MLP, "in": [["data", 1, 1]]}]))[0]


def test_the_whole_network_in_pieces_spares_all_but_casts_sums_and_updates():
    shard = [{"piece": each, "in": None} for each in ("embedding", "layers.*", "head")]
    for each, inputs in zip(shard, ([["data", 1]], [["data", 1, 1]], [["data", 1, 1], None]), strict=True):
        each["in"] = inputs
    found = figures(alone(shard=shard))["dispatch"]
    assert found["launches"] == 2 * (LAYERS + 2) * MICRO_BATCHES
    assert found["in_graphs"] > 4 * found["launches"]


def test_a_piece_is_faster_than_the_same_strategies_operator_by_operator():
    mesh, roles = {"data": 2, "tensor": 4}, {"batch": ["data", "tensor"]}
    options = {"roles": roles, "micro_batches": 8}
    piece = {"piece": MLP, "in": [["data", 1, 1]], "parameter_plan": COLUMNS}
    written = [
        {"match": f"{MLP}.*", "split": {"batch": "data"}},
        {"match": f"{MLP}.{{up,activation,down}}", "split": {"batch": "data", "ffn": "tensor"}},
    ]
    graph = figures(pynative(mesh, shard=[piece], **options))
    apart = figures(pynative(mesh, recipe="data", strategies=written, **options))
    assert graph["communication_bytes"] == apart["communication_bytes"]
    assert graph["peak_memory_bytes_max"] == apart["peak_memory_bytes_max"]
    assert graph["step_time_s"] < apart["step_time_s"]
    # Nor does the host call for collectives inside of graphs.
    assert graph["collectives"] == apart["collectives"]
    assert graph["collective_calls"] < apart["collective_calls"]


def test_inside_a_graph_collectives_wait_for_data_only():
    """Operator by operator, kernels and collectives take turns in this profile; in a graph they do not."""
    mesh, roles = {"data": 2, "tensor": 4}, {"batch": ["data", "tensor"]}
    piece = {"piece": MLP, "in": [["data", 1, 1]], "parameter_plan": COLUMNS}
    graph = pynative(mesh, shard=[piece], roles=roles, micro_batches=8)
    effective = effective_strategies_of(plan_scenario(graph))
    apart = pynative(mesh, recipe="data", strategies=effective, roles=roles, micro_batches=8)

    def idle(which):
        """Sums of activations that wait for a kernel of which they read nothing."""
        found = []
        for code in build_scenario(which).program.codes:
            for each in code.instructions:
                read = set(each.reads)
                late = [at for at in each.after if read.isdisjoint(code.instructions[at].writes)]
                if each.operation == "all_reduce" and each.name.startswith("mlp.") and code.phase != "reduce":
                    found += [each.name for _ in late]
        return found

    assert idle(graph) == []
    assert idle(apart)


@pytest.mark.combinations
@pytest.mark.parametrize("model", [None, TINY_GPT], ids=["llama", "gpt"])
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    "entry",
    [
        {"piece": MLP, "in": [["data", 1, 1]], "parameter_plan": {"up.{gate.,}weight": [1, "tensor"]}},
        {"piece": "layers.*.attention", "in": [[["data", "tensor"], 1, 1]], "out": [[1, "data", "tensor"]]},
        {"piece": f"{MLP}.{{up,activation,down}}", "in": [["data", "tensor", 1]]},
    ],
    ids=["mlp", "attention", "products"],
)  # fmt: skip
def test_values_are_those_of_one_device(entry, level, model):
    mesh = {"data": 2, "tensor": 2}
    roles = {"batch": ["data", "tensor"]}
    which = scenario(
        mesh, devices=4, model=model, micro_batches=4, shard=[{**entry, "level": level}], roles=roles,
        training={"optimizer": "sgd"},
    )  # fmt: skip
    found = verify(which)
    assert found.agrees, (found.fault, found.first_difference)


@pytest.mark.parametrize(
    "options",
    quick_at(
        [
            {"recompute": {"layers": "all"}},
            {"recompute": {"operators": ["layers.*.mlp.activation"]}},
            {"optimizer_sharding": "fsdp"},
            {"optimizer_sharding": {"mindspore": "level1", "min_bytes": "0 B"}},
            {"training": {"precision": "fp8"}, "host": "dgx-h100"},
            {"redistribution": "mindspore"},
            {"mesh": {"pipeline": 2, "data": 2, "tensor": 2}},
        ],
        6,
    ),
    ids=["recompute", "selective", "fsdp", "mindspore", "fp8", "inferred", "pipeline"],
)
def test_values_and_launches_with_everything_else(options):
    """Two pieces per layer hold all of a layer: forward and backward are two launches each, whatever else."""
    mesh = options.get("mesh", {"data": 4, "tensor": 2})
    core = {"out.weight": ["tensor", 1, 1, 1]}
    which = pynative(
        mesh,
        shard=[
            {"piece": MLP, "in": [["data", 1, 1]], "parameter_plan": COLUMNS},
            {"piece": "layers.*.attention", "in": [["data", 1, 1]], "parameter_plan": core, "level": 2},
        ],
        roles={"batch": ["data", "tensor"]},
        micro_batches=2,
        **{name: value for name, value in options.items() if name != "mesh"},
    )
    built = build_scenario(which)
    stages = built.plan.num_stages
    launches = 2 * 2 * LAYERS * built.plan.num_micro_batches / stages
    assert figures(which)["dispatch"]["launches"] == launches
    for instance in built.plan.graph.instances[1:-1]:
        nodes = built.plan.graph.block_of(instance).phase(Phase.FORWARD, Phase.BACKWARD)
        outside = [each.name for each in nodes if not each.piece]
        assert all(name.endswith("accumulate") for name in outside)
    found = verify(which)
    assert found.agrees, (found.fault, found.first_difference)


def test_numbers_of_parts_agree_in_values_too():
    piece = {"piece": MLP, "in": "((2, 1, 1),)", "parameter_plan": {"up.gate.weight": "(1, 2)"}}
    found = verify(scenario({"data": 4}, devices=4, shard=[piece], training={"precision": "bf16"}))
    assert found.agrees, found.first_difference


def test_folded_is_unfolded():
    which = pynative(
        {"pipeline": 2, "data": 2, "tensor": 2},
        shard=[{"piece": MLP, "parameter_plan": COLUMNS, "in": [["data", 1, 1]]}],
    )
    folded, unfolded = simulate(which), simulate(which, unfold=True)
    for name in ("step_time_s", "host_s", "compute_s", "dispatch"):
        assert folded.documents["summary"][name] == pytest.approx(unfolded.documents["summary"][name])
    assert folded.documents["summary"]["num_classes"] < unfolded.documents["summary"]["num_classes"]


def test_the_trace_tells_who_is_in_a_graph(tmp_path):
    which = alone(shard=[{"piece": MLP, "in": [["data", 1, 1]]}])
    result = simcluster.simulate(which)
    spans = result.spans(frame=False)
    names = {
        str(name): {str(g) for g in spans["graph"][spans["operator"] == name]} for name in spans["operator"]
    }
    assert names["layers.2.mlp.up"] == names["layers.2.mlp.down.wgrad"] == {"mlp"}
    assert names["layers.2.attention.out"] == names["layers.2.mlp.up.gate.weight.update"] == {""}
    assert "graph" in result.transfers(frame=False).dtype.names
    result.save(tmp_path / "run")
    again = simcluster.Result.load(tmp_path / "run").spans(frame=False)
    assert np.array_equal(spans, again)
    result.to_perfetto(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    inside = {
        e["args"]["operator"]: e["args"].get("graph") for e in events if "operator" in e.get("args", {})
    }
    assert inside["layers.2.mlp.up"] == "layers.2.mlp"
    assert inside["layers.2.attention.out"] is None


def test_summary_and_layouts_tell_it():
    result = simcluster.simulate(alone(shard=[{"piece": MLP, "in": [["data", 1, 1]]}]))
    told = str(result)
    assert "launches of graphs" in told.replace("\n", " ")
    assert "shard(layers.*.mlp) runs as 4 graphs" in " ".join(told.split())
    nodes = {node["name"]: node for block in result.run.documents["layouts"] for node in block["nodes"]}
    assert nodes["mlp.up"]["graph"] == "mlp"
    assert nodes["mlp.norm"]["source"] == "shard(layers.*.mlp)"
    assert "graph" not in nodes["attention.out"]


def test_effective_strategies_give_the_same_layouts():
    border = {"in": [["data", 1, 1]], "out": [["data", 1, "tensor"]]}
    piece = {"piece": MLP, "parameter_plan": COLUMNS, **border}
    which = pynative({"data": 2, "tensor": 4}, shard=[piece], micro_batches=8)
    built = build_scenario(which)
    parallel = which.spec.parallel
    pasted = pynative(
        {"data": 2, "tensor": 4},
        micro_batches=8,
        recipe="data",
        strategies=effective_strategies_of(built.plan),
    )
    assert build_scenario(pasted).plan.strategies.by_instance == built.plan.strategies.by_instance
    kept = pynative(
        {"data": 2, "tensor": 4},
        micro_batches=8,
        strategies=effective_strategies_of(built.plan),
        shard=[each.model_dump(mode="json", exclude_unset=True) for each in parallel.shard],
    )
    assert build_scenario(kept).program.digest() == built.program.digest()


def test_python_shards_a_function():
    which = pynative({"data": 2, "tensor": 4}, micro_batches=8)
    piece = simcluster.graph(which).piece(MLP)
    assert piece.inputs == {"attention.residual.out": ("batch", "seq", "hidden")}
    assert piece.outputs == {"out": ("batch", "seq", "hidden")}
    plan = {"up.gate.weight": (1, "tensor")}
    sharded = simcluster.shard(piece, (("data", 1, 1),), None, plan)
    written = pynative(
        {"data": 2, "tensor": 4},
        micro_batches=8,
        shard=[{"piece": MLP, "in": [["data", 1, 1]], "parameter_plan": {"up.gate.weight": [1, "tensor"]}}],
    )
    assert build_scenario(sharded.scenario).program.digest() == build_scenario(written).program.digest()
    both = simcluster.shard(sharded.piece("layers.*.attention"), (("data", 1, 1),), level=2)
    assert [each.piece for each in both.scenario.spec.parallel.shard] == [MLP, "layers.*.attention"]
    assert which.spec.parallel.shard == ()


def test_what_python_refuses():
    piece = simcluster.graph(pynative({"data": 8})).piece(MLP)
    with pytest.raises(ScenarioError, match="level"):
        simcluster.shard(piece, (("data", 1, 1),), level=3)
    layout = MindSporeLayout((2, 4), ("dp", "mp"))
    with pytest.raises(ScenarioError, match="device matrix of its own"):
        simcluster.shard(piece, (layout("dp", "None", "None"),))
    with pytest.raises(PlanError, match="matches no operator"):
        _ = simcluster.graph(pynative({"data": 8})).piece("layers.*.nothing").inputs
    with pytest.raises(PlanError, match=r"to run on GPU, but the devices of the cluster are Ascend"):
        simcluster.simulate(simcluster.shard(piece, (("data", 1, 1),), device="GPU"))


def test_a_network_that_is_one_graph_has_no_pieces():
    which = alone(shard=[{"piece": MLP, "in": [["data", 1, 1]]}])
    graph = replace(
        which, spec=which.spec.model_copy(update={"framework": FrameworkSpec.load("mindspore-graph")})
    )
    with pytest.raises(PlanError, match="runs the whole network as one graph"):
        simulate(graph)
