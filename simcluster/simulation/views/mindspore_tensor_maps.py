"""Layouts as MindSpore prints them: device matrices and tensor maps of operators, and of the weights of an
inference (``infer_predict_layout``).
"""

from __future__ import annotations

from typing import Any

from simcluster.errors import ScenarioError
from simcluster.layout import DeviceMatrix, Dims, Layout, Mesh, Strategy
from simcluster.program import local_type
from simcluster.scenario import Scenario
from simcluster.simulation.compose import plan_scenario


def tensor_maps(mesh: Mesh, stage_axis: str, dims: Dims, strategy: Strategy) -> dict[str, Any]:
    """The device matrix of an operator, outermost first, and for every operand the place of each dim in it.

    Places are counted from the right, -1 is whole. Where the ranks run through the operator's dims in order,
    the matrix is its own, with one more factor where ranks repeat it: ``[rows, contraction, columns]``.
    Otherwise it is that of the mesh, in which one dim may have several places.
    """
    inside = inner_axes(mesh, stage_axis)
    own = _own_matrix(mesh, inside, dims, strategy)
    if own is not None:
        maps = [
            [list(own.tensor_map(names)) for names in operands] for operands in (dims.inputs, dims.outputs)
        ]
        return {"device_matrix": list(own.sizes), "inputs": maps[0], "outputs": maps[1]}
    return {
        "device_matrix": [mesh.size(axis) for axis in inside],
        "inputs": [places(layout, inside) for layout in dims.input_layouts(strategy)],
        "outputs": [places(layout, inside) for layout in dims.output_layouts(strategy)],
    }


def inner_axes(mesh: Mesh, stage_axis: str) -> list[str]:
    """The axes of the ranks of a stage, outermost first."""
    return [axis for axis, size in mesh.axes if axis != stage_axis and size > 1]


def _own_matrix(mesh: Mesh, inside: list[str], dims: Dims, strategy: Strategy) -> DeviceMatrix | None:
    """The matrix over the operator's dims, if that tells which ranks hold what."""
    used = [axis for name in dims.names for axis in strategy.axes(name)]
    factors = {name: mesh.product(strategy.axes(name)) for name in dims.names}
    devices = mesh.product(inside)
    if used == inside[len(inside) - len(used) :]:
        return DeviceMatrix.of(factors, devices, "left")
    if used == inside[: len(used)]:
        return DeviceMatrix.of(factors, devices, "right")
    return None


def places(layout: Layout, inside: list[str]) -> list[int | list[int]]:
    """Per dim the place of its axis counted from the right, or of each of them."""
    maps = ([len(inside) - 1 - inside.index(axis) for axis in axes] for axes in layout.dims)
    return [-1 if not at else at[0] if len(at) == 1 else at for at in maps]


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
