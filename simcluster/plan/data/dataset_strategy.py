"""The part of every input that a rank receives: MindSpore's ``dataset_strategy``, as layouts of the feeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import DeviceMatrix, Layout, Mesh, SplitMesh, SubAxis, axis_pieces
from simcluster.model import Graph
from simcluster.plan.rules import Entry, Operands

DATA_PARALLEL, FULL_BATCH = "data_parallel", "full_batch"

PATH = "data.strategy"

Strategy = str | Operands
"""``data_parallel`` or ``full_batch``, or for every input the axes or numbers of parts that split its dims.
"""

Shapes = Mapping[str, tuple[int, ...]]


def dataset_sub_axes(strategy: Strategy, graph: Graph, devices: int) -> Iterator[tuple[str, str, SubAxis]]:
    """(input, key path, sub-axis) of every split that is written as a number, on ``devices`` ranks of a
    stage.

    PlanError where the numbers do not fit the inputs or the ranks.
    """
    if isinstance(strategy, str):
        return
    for number, (name, entries) in enumerate(_inputs(strategy, _shapes(graph))):
        for digit in _numbered(entries, devices, f"{PATH}.{number}").values():
            yield f"input {name}", f"{PATH}.{number}", digit


def dataset_layouts(
    strategy: Strategy,
    graph: Graph,
    mesh: Mesh,
    stage_axis: str,
    cut: SplitMesh | None,
    *,
    pads: bool = False,
) -> dict[str, Layout]:
    """Feed -> the layout in which ranks receive it.

    ``cut`` maps sub-axes to axes of the split mesh. With ``pads`` dims need not divide. Raises PlanError with
    every input that does not fit the model or the mesh.
    """
    feeds = _shapes(graph)
    if strategy == FULL_BATCH:
        return {name: Layout.replicated(len(shape)) for name, shape in feeds.items()}
    if strategy == DATA_PARALLEL:
        axes = tuple(name for name, size in mesh.axes if name != stage_axis and size > 1)
        layouts = {name: Layout((axes, *((),) * (len(shape) - 1))) for name, shape in feeds.items()}
    else:
        assert not isinstance(strategy, str)
        layouts = _written(_inputs(strategy, feeds), mesh, stage_axis, cut)
    if not pads and (problems := list(_uneven(layouts, feeds, mesh))):
        raise PlanError(*problems)
    return layouts


def given_feed_layouts(graph: Graph) -> dict[str, Layout]:
    """Feed -> the layout in which ranks receive it, read from a sharded graph."""
    layouts = {name: block.values[name].layout for block in graph.blocks.values() for name in block.feeds}
    return {name: layout for name, layout in layouts.items() if layout is not None}


def _shapes(graph: Graph) -> Shapes:
    return {name: block.values[name].type.shape for block in graph.blocks.values() for name in block.feeds}


def _inputs(strategy: Operands, feeds: Shapes) -> list[tuple[str, tuple[Entry, ...]]]:
    """(input, what splits its dims) of every input; PlanError if they are not those of the model."""
    if len(strategy) != len(feeds):
        shapes = ", ".join(f"{name} of {len(shape)} dims" for name, shape in feeds.items())
        raise PlanError(
            f"{len(strategy)} inputs are listed, but the model has {len(feeds)}", path=PATH, hint=shapes
        )
    problems, inputs = [], []
    for number, ((name, shape), entries) in enumerate(zip(feeds.items(), strategy, strict=True)):
        entries = ((),) * len(shape) if entries is None else entries
        if len(entries) != len(shape):
            problems.append(Problem(f"{name} has {len(shape)} dims, not {len(entries)}", f"{PATH}.{number}"))
        inputs.append((name, entries))
    if problems:
        raise PlanError(*problems)
    return inputs


def _numbered(entries: Sequence[Entry], devices: int, path: str) -> dict[int, SubAxis]:
    """Dim -> the digit of the ranks over which numbers split it; replicas are the outermost ranks."""
    if not any(isinstance(entry, int) for entry in entries):
        return {}
    if any(isinstance(entry, tuple) and entry for entry in entries):
        raise PlanError(
            "axes and numbers are mixed", path=path, hint="write axes of the mesh or numbers of parts"
        )
    parts = [entry if isinstance(entry, int) else 1 for entry in entries]
    used = math.prod(parts)
    if devices % used:
        raise PlanError(
            f"{' x '.join(map(str, parts))} = {used} parts for the {devices} ranks of a stage: "
            f"{devices} / {used} = {devices / used:g}",
            path=path,
            hint="the parts must divide the ranks; ranks that are left over read the same",
        )
    matrix = DeviceMatrix.of({str(dim): count for dim, count in enumerate(parts)}, devices)
    return {dim: matrix.digit(str(dim)) for dim, count in enumerate(parts) if count > 1}


def _written(
    inputs: Sequence[tuple[str, tuple[Entry, ...]]], mesh: Mesh, stage_axis: str, cut: SplitMesh | None
) -> dict[str, Layout]:
    """The layouts that a scenario writes input by input."""
    problems, layouts = [], {}
    known = [name for name in mesh.names if name != stage_axis]
    devices = mesh.num_on_axes // mesh.size(stage_axis)
    for number, (name, entries) in enumerate(inputs):
        path = f"{PATH}.{number}"
        numbers = _numbered(entries, devices, path)
        dims = [
            tuple(
                part
                for axis in (entry if isinstance(entry, tuple) else ())
                for part in axis_pieces(mesh, axis)
            )
            for entry in entries
        ]
        for dim, digit in numbers.items():
            assert cut is not None, "digits need a mesh that is cut for them"
            dims[dim] = cut.axes(digit)
        used = [axis for axes in dims for axis in axes]
        problems += [
            Problem(f"no axis '{axis}' splits inputs", path, nearest(axis, known))
            for axis in used
            if axis not in known
        ]
        problems += [
            Problem(f"axis '{axis}' splits two dims of {name} at once", path)
            for axis in dict.fromkeys(used)
            if used.count(axis) > 1
        ]
        layouts[name] = Layout(tuple(tuple(axis for axis in axes if mesh.size(axis) > 1) for axes in dims))
    if problems:
        raise PlanError(*problems)
    return layouts


def _uneven(found: Mapping[str, Layout], feeds: Shapes, mesh: Mesh) -> Iterator[Problem]:
    for name, layout in found.items():
        for dim, (size, axes) in enumerate(zip(feeds[name], layout.dims, strict=True)):
            ways = mesh.product(axes)
            if size % ways:
                over = " x ".join(f"{axis} {mesh.size(axis)}" for axis in axes)
                yield Problem(
                    f"dim {dim} of {name}, {size} in a micro-batch of all, does not divide over {over}: "
                    f"{size} / {ways} = {size / ways:g}",
                    PATH,
                    "use a larger training.micro_batch, split less, or write parallel: {uneven: pad}",
                )
