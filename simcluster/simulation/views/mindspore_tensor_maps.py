"""Device matrices and tensor maps of operators, in the form in which MindSpore prints them."""

from __future__ import annotations

from typing import Any

from simcluster.layout import DeviceMatrix, Dims, Layout, Mesh, Strategy


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
    maps: list[int | list[int]] = []
    for axes in layout.dims:
        places = [len(inside) - 1 - inside.index(axis) for axis in axes]
        maps.append(-1 if not places else places[0] if len(places) == 1 else places)
    return maps
