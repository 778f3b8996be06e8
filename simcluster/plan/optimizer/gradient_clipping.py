"""Pass: clips gradients by their global norm.

The squares of every reduced gradient are summed locally. The sum of a stage is partial over the pipeline and
over every axis that splits some gradient; where an axis has equal replicas, one counts, and of a tied
parameter's copies on several stages the first. Reducing that sum is the only communication, but no update
starts before it: besides two more passes over the gradients that is the cost of clipping.
"""

from __future__ import annotations

from dataclasses import replace

from simcluster.layout import Layout, Mesh
from simcluster.model import (
    Block,
    ClipFactor,
    Graph,
    Instance,
    Node,
    OptimizerOperator,
    Phase,
    Role,
    ScaleGradient,
    SumOfSquares,
    TensorType,
    Value,
)
from simcluster.plan.redistribution import RedistributionPlanner
from simcluster.work import DType

CLIP = "clip"
SQUARES, FACTOR = "gradients.squares", "gradients.factor"
"""What all blocks of a stage share: the sum of squares they add to, and the factor they read."""

_SCALAR = TensorType((), DType.FP32)


def clip(graph: Graph, limit: float, mesh: Mesh, router: RedistributionPlanner, stage_axis: str) -> Graph:
    """The graph whose gradients are clipped to a global norm of ``limit``.

    Every stage gets an instance ``clip.STAGE`` that reduces the sum of squares and computes the factor.
    """
    used = {axis for block in graph.blocks.values() for axis in _splitting(block)}
    axes = tuple(axis for axis in mesh.names if axis in used and axis != stage_axis and mesh.size(axis) > 1)
    across = (stage_axis,) if mesh.size(stage_axis) > 1 else ()
    partial = Layout(()).with_partial((*across, *axes))
    repeated = _repeated(graph)
    blocks: dict[str, Block] = {CLIP: _clip_block(limit, partial, router)}
    for instance in graph.instances:
        block = graph.block_of(instance)
        if block.name not in blocks:
            skipped = {name for name in block.parameters if f"{instance.name}.{name}" in repeated}
            blocks[block.name] = _clipped(block, skipped, partial, axes)
    stages = sorted({instance.stage for instance in graph.instances})
    first = tuple(Instance(f"{CLIP}.{stage}", CLIP, stage=stage) for stage in stages)
    return Graph(blocks, (*first, *graph.instances), graph.ties)


def _gradient(node: Node) -> str | None:
    """The gradient that a node of the end phase uses."""
    operator = node.operator
    if not isinstance(operator, OptimizerOperator) or operator.gradient_input is None:
        return None
    return node.inputs[operator.gradient_input]


def _splitting(block: Block) -> set[str]:
    """The axes over which some gradient of a block lies split."""
    axes: set[str] = set()
    for node in block.phase(Phase.END):
        gradient = _gradient(node)
        if gradient is not None:
            layout = block.values[gradient].layout
            assert layout is not None
            axes.update(layout.axes)
    return axes


def _repeated(graph: Graph) -> set[str]:
    """Copies of tied parameters that must not count again."""
    return {name for group in graph.ties for name in group[1:]}


def _clip_block(limit: float, partial: Layout, router: RedistributionPlanner) -> Block:
    values = {SQUARES: Value(_SCALAR, Role.ACCUMULATOR, partial)}
    nodes = []
    name = SQUARES
    for movement, reached in router.path(_SCALAR, partial, partial.reduced):
        before, name = name, f"{name}.{movement.kind}"
        values[name] = Value(_SCALAR, Role.VIEW, reached)
        why = "the norm is that of all gradients"
        nodes.append(Node(name, movement, (before,), (name,), Phase.END, why=why))
    values[FACTOR] = Value(_SCALAR, Role.VIEW, partial.reduced)
    nodes.append(Node("factor", ClipFactor(limit), (name,), (FACTOR,), Phase.END))
    return Block(CLIP, (), (), (), (), values, tuple(nodes), shared=(SQUARES, FACTOR))


def _clipped(block: Block, skipped: set[str], partial: Layout, axes: tuple[str, ...]) -> Block:
    """The block with the squares of its gradients taken, and the gradients scaled before they are used."""
    values = dict(block.values)
    values[SQUARES] = Value(_SCALAR, Role.ACCUMULATOR, partial)
    values[FACTOR] = Value(_SCALAR, Role.VIEW, partial.reduced)
    squares: list[Node] = []
    scales: list[Node] = []
    others: list[Node] = []
    first = len(block.nodes)
    for index, node in enumerate(block.nodes):
        gradient = _gradient(node)
        if gradient is None:
            others.append(node)
            continue
        first = min(first, index)
        layout = values[gradient].layout
        assert layout is not None
        equal = tuple(axis for axis in axes if axis not in layout.axes)
        if node.origin not in skipped:
            masked = ((0, equal),) if equal else ()
            name = f"{gradient}.squares"
            made = Node(name, SumOfSquares(), (gradient,), (SQUARES,), Phase.END, node.origin, masked=masked)
            squares.append(made)
        clipped = f"{gradient}.clipped"
        values[clipped] = replace(values[gradient], role=Role.VIEW)
        scale = Node(clipped, ScaleGradient(), (gradient, FACTOR), (clipped,), Phase.END, node.origin)
        scales.append(scale)
        inputs = tuple(clipped if value == gradient else value for value in node.inputs)
        others.append(replace(node, inputs=inputs))
    if not scales:
        return block
    nodes = (*others[:first], *squares, *scales, *others[first:])
    return replace(block, values=values, nodes=nodes, shared=(SQUARES, FACTOR))
