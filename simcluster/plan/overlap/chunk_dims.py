"""The dims along which values are divided where kernels and collectives run in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simcluster.layout import Layout, Mesh, Movement, MovementKind
from simcluster.model import Block, Node, Operator, Role

Cut = dict[str, int]
"""Value -> the dim along which it is divided."""

GATHERS, REDUCES = (MovementKind.ALL_GATHER,), (MovementKind.REDUCE_SCATTER, MovementKind.ALL_REDUCE)
_ROLES = (Role.ACTIVATION, Role.GRADIENT)


def chunked_dims(block: Block, kernel: Sequence[Node], known: Mapping[str, int]) -> Cut | None:
    """Value -> dim, of all operands of a kernel that are divided if those ``known`` are.

    None if the kernel cannot run in chunks: an operator depends on the position of elements, or a result
    neither has the dim nor is an accumulator to which every chunk may add.
    """
    cut = dict(known)
    left = list(kernel)
    while left:
        node = next(
            (
                candidate
                for candidate in left
                if not cut.keys().isdisjoint((*candidate.inputs, *candidate.outputs))
            ),
            None,
        )
        if node is None or not _extend(block, node, cut):
            return None
        left.remove(node)
    operands = {value for node in kernel for value in (*node.inputs, *node.outputs)}
    operand_dims = {value: dim for value, dim in cut.items() if value in operands}
    return operand_dims if any(value in operand_dims for node in kernel for value in node.outputs) else None


def _extend(block: Block, node: Node, cut: Cut) -> bool:
    """Adds what a node reads and makes to what is cut; whether it can be cut so."""
    if not isinstance(node.operator, Operator):
        return _moved(node, cut)
    dims = node.operator.dims()
    reads, makes = (
        [*zip(node.inputs, dims.inputs, strict=True)],
        [*zip(node.outputs, dims.outputs, strict=True)],
    )
    along = {names[cut[value]] for value, names in (*reads, *makes) if value in cut}
    if len(along) != 1 or not node.operator.anywhere:
        return False
    (name,) = along
    if name not in dims.splittable or any(window.dim == name for window in dims.windows):
        return False
    for value, names in makes:
        role = block.values[value].role
        adds = name not in names and role is Role.ACCUMULATOR and dims.reduction == "sum"
        if not adds and (name not in names or role not in _ROLES):
            return False
    for value, names in (*reads, *makes):
        place = names.index(name) if name in names else None
        if cut.get(value, place) != place:
            return False
        if place is not None:
            cut[value] = place
    return True


def _moved(node: Node, cut: Cut) -> bool:
    """The same of a collective, which leaves the dims as they are."""
    movement = node.operator
    assert isinstance(movement, Movement)
    (read,), (made,) = node.inputs, node.outputs
    dims = {cut[value] for value in (read, made) if value in cut}
    if len(dims) != 1 or movement.kind not in (*GATHERS, *REDUCES):
        return False
    (dim,) = dims
    if movement.kind is not MovementKind.ALL_REDUCE and movement.dim != dim:
        return False
    cut |= {read: dim, made: dim}
    return True


def ranks_in_sequence(layout: Layout, dim: int, axes: tuple[str, ...], mesh: Mesh) -> int:
    """How many ranks' parts of a dim, split over ``axes``, a rank holds one after another; 0 if it cannot be
    divided into chunks.

    Without axes, nothing is split.
    """
    if layout.halos or layout.flat:
        return 0
    have = layout.dims[dim]
    if not axes or have[-len(axes) :] == axes:
        return 1
    return mesh.product(axes) if set(axes).isdisjoint(have) else 0


def divides_into_chunks(
    block: Block, value: str, dim: int, axes: tuple[str, ...], count: int, mesh: Mesh
) -> bool:
    """Whether a rank's part of a value divides into ``count`` equal chunks, aligned with those
    of all ranks.
    """
    kind = block.values[value]
    assert kind.layout is not None
    runs = ranks_in_sequence(kind.layout, dim, axes, mesh)
    length, left = divmod(kind.type.shape[dim], mesh.product(kind.layout.dims[dim]))
    return runs > 0 and not left and length % (runs * count) == 0
