"""Which parameters are used as matrices, and in how many blocks ranks hold them."""

from __future__ import annotations

from simcluster.layout import Layout, Mesh
from simcluster.model import Block, Graph, Operator, Phase, WeightMatrix


def matrices_of(logical: Graph, sharded: Graph, mesh: Mesh) -> dict[str, WeightMatrix]:
    """Full name -> how a parameter is a matrix, for those that are.

    ``logical`` is what one device computes; ``sharded`` has the layouts, whose splits are the blocks. Of a
    parameter with several uses all have to be that of a matrix: a tied embedding is none.
    """
    layouts = _layouts(sharded)
    uses = {name: _uses(block) for name, block in logical.blocks.items()}
    matrices: dict[str, WeightMatrix | None] = {}
    for instance in logical.instances:
        for name, matrix in uses[instance.block].items():
            full = logical.canonical(f"{instance.weight_owner}.{name}")
            matrices[full] = matrix if matrices.get(full, matrix) == matrix else None
    return {
        name: matrix.in_blocks([mesh.product(axes) for axes in layouts[name].dims])
        for name, matrix in matrices.items()
        if matrix is not None
    }


def _layouts(graph: Graph) -> dict[str, Layout]:
    """The layouts in which parameters are used."""
    layouts: dict[str, Layout] = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        for name in block.parameters:
            layout = block.values[name].layout
            assert layout is not None, "strategies are assigned"
            layouts.setdefault(graph.canonical(f"{instance.weight_owner}.{name}"), layout)
    return layouts


def _uses(block: Block) -> dict[str, WeightMatrix | None]:
    """How a block's forward uses its parameters; None for what is no matrix to somebody."""
    uses: dict[str, WeightMatrix | None] = {}
    for name in block.parameters:
        shape = block.values[name].type.shape
        matrices = [
            WeightMatrix.of(node.operator, node.inputs.index(name), shape)
            for node in block.phase(Phase.FORWARD)
            if name in node.inputs and isinstance(node.operator, Operator)
        ]
        uses[name] = matrices[0] if matrices and matrices.count(matrices[0]) == len(matrices) else None
    return uses
