"""The collectives inside an operator with a strategy: sums of results, and of gradients."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh, Strategy
from simcluster.model import Operator, TensorType
from simcluster.plan.auto.operator_graph import OperatorKind
from simcluster.plan.redistribution import part_type


@dataclass(frozen=True, slots=True)
class PendingReduction:
    """A sum over ranks that a strategy makes necessary."""

    part: TensorType
    """What one rank has of the tensor."""
    axes: tuple[str, ...]
    """The axes over which it is summed."""


def local_inputs(kind: OperatorKind, strategy: Strategy, mesh: Mesh) -> list[TensorType]:
    """What one rank has of an operator's inputs, without halos."""
    return _local(kind.inputs, kind.dims.inputs, strategy, mesh)


def local_outputs(kind: OperatorKind, strategy: Strategy, mesh: Mesh) -> list[TensorType]:
    """What one rank has of an operator's outputs, without halos."""
    return _local(kind.outputs, kind.dims.outputs, strategy, mesh)


def _local(
    types: tuple[TensorType, ...], names: tuple[tuple[str, ...], ...], strategy: Strategy, mesh: Mesh
) -> list[TensorType]:
    return [part_type(kind, strategy.layout(dims), mesh) for kind, dims in zip(types, names, strict=True)]


def output_layout(kind: OperatorKind, strategy: Strategy, index: int) -> Layout:
    """The layout of a result behind its operator, sums done and without halos."""
    after = dict(strategy.outputs)
    layout = after.get(index) or kind.dims.output_layouts(strategy)[index]
    return layout.with_halos(()).reduced


def input_layout(kind: OperatorKind, strategy: Strategy, index: int) -> Layout:
    """The layout that an input has to have, without halos."""
    return strategy.layout(kind.dims.inputs[index])


def forward_reductions(kind: OperatorKind, strategy: Strategy, mesh: Mesh) -> Iterator[PendingReduction]:
    """The sums, maxima and minima of results that are due where reduced dims are split.

    Of a dim that the operator itself cannot split they are those of the primitives that it is made of.
    """
    barred = frozenset(dim for dim, _ in kind.dims.unsplittable if strategy.axes(dim))
    parts = kind.operator.decompose(barred) if barred else None
    if parts is None:
        layouts = kind.dims.output_layouts(strategy)
        for layout, tensor in zip(layouts, kind.outputs, strict=True):
            if layout.partial:
                yield PendingReduction(part_type(tensor, layout.with_halos(()), mesh), layout.partial_axes)
        return
    types = {f"in{index}": tensor for index, tensor in enumerate(kind.inputs)}
    for _, operator, inputs, outputs in parts.parts:
        if not isinstance(operator, Operator) or any(name not in types for name in inputs):
            # Movements between primitives, such as turns of a ring, are not sums.
            continue
        dims = operator.dims()
        made = operator.infer([types[name] for name in inputs])
        types |= dict(zip(outputs, made, strict=True))
        splits = Strategy(tuple(split for split in strategy.splits if split[0] in dims.names))
        for layout, tensor in zip(dims.output_layouts(splits), made, strict=True):
            if layout.partial:
                yield PendingReduction(part_type(tensor, layout.with_halos(()), mesh), layout.partial_axes)


def gradient_reductions(
    kind: OperatorKind, strategy: Strategy, mesh: Mesh, *, parameters: bool
) -> Iterator[PendingReduction]:
    """The sums of the gradients of an operator's parameters, or else of its other inputs."""
    inputs = local_inputs(kind, strategy, mesh)
    for index in sorted(kind.trained):
        if (index in kind.parameters) != parameters:
            continue
        names = kind.dims.inputs[index]
        axes = tuple(axis for dim, axes in strategy.splits if dim not in names for axis in axes)
        if axes:
            yield PendingReduction(inputs[index], axes)
