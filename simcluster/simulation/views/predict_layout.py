"""infer_predict_layout: how every weight lies on the devices of an inference, as MindSpore tells it."""

from __future__ import annotations

from typing import Any

from simcluster.errors import ScenarioError
from simcluster.program import local_type
from simcluster.scenario import Scenario
from simcluster.simulation.compose import plan_scenario
from simcluster.simulation.views.mindspore_tensor_maps import inner_axes, places


def predict_layouts(scenario: Scenario) -> dict[str, dict[str, Any]]:
    """Weight by full name -> stages that hold it, shape, dtype, device matrix, tensor map and slice.

    The device matrix is that of the ranks of a stage, outermost first; the tensor map has for every dim its
    place in it counted from the right, -1 where it is whole, or several places. ``slice_shape`` is what one
    rank holds. Tied weights are told once. Raises ScenarioError for a scenario that trains, and what
    planning raises.
    """
    if scenario.spec.inference is None:
        raise scenario.located(
            ScenarioError(
                "the layouts of weights are predicted for inference, but this scenario trains",
                path="training",
                hint="write inference: {batch: ..., prompt: ..., tokens: ...} in its place",
            )
        )
    plan = plan_scenario(scenario)
    graph, inside = plan.graph, inner_axes(plan.mesh, plan.stage_axis)
    layouts: dict[str, dict[str, Any]] = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        for name in () if instance.repeats else block.parameters:
            value = block.values[name]
            assert value.layout is not None
            entry = layouts.setdefault(
                graph.canonical(f"{instance.name}.{name}"),
                {
                    "stages": [],
                    "shape": list(value.type.shape),
                    "dtype": str(value.type.dtype),
                    "device_matrix": [plan.mesh.size(axis) for axis in inside],
                    "tensor_map": places(value.layout, inside),
                    "slice_shape": list(local_type(value, plan.mesh).shape),
                },
            )
            if instance.stage not in entry["stages"]:
                entry["stages"].append(instance.stage)
    return layouts
