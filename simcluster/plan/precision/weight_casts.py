"""Passes: fp32 weights that are cast to the compute format in every forward pass, or before every use.

The optimizer updates fp32 weights. Under automatic mixed precision the cast of a forward pass is saved for
its backward; weights that are gathered for each use are cast for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from simcluster.model import Block, Cast, Graph, Instance, Node, Phase, Role, TensorType, Value
from simcluster.work import DType


def cast_weights(graph: Graph, to: DType = DType.FP32) -> Graph:
    """The graph whose parameters are stored in ``to`` and read through casts to their former format."""
    return graph.with_blocks(
        {name: _casting(block, block.parameters, to) for name, block in graph.blocks.items()}
    )


def cast_chosen_weights(graph: Graph, chosen: Mapping[str, frozenset[str]], to: DType = DType.FP32) -> Graph:
    """The same of chosen parameters alone; ``chosen``: instance -> names in its block."""

    def rewrite(block: Block, instance: Instance) -> Block:
        return _casting(block, chosen[instance.name], to)

    return graph.specialised(
        chosen, rewrite, lambda names, every: f" cast {' '.join(sorted(names))}" if len(every) > 1 else ""
    )


def recast_in_backward(graph: Graph) -> Graph:
    """The graph that casts weights once more in the backward instead of saving the casts.

    Layers that recompute their forward do so anyway.
    """
    return graph.with_blocks({name: _casting_again(block) for name, block in graph.blocks.items()})


def _casting(block: Block, chosen: Collection[str], to: DType) -> Block:
    values = dict(block.values)
    casts: dict[str, str] = {}
    nodes: list[Node] = []
    for parameter in block.parameters:
        kind = values[parameter]
        if parameter not in chosen or kind.type.dtype is to or parameter in block.frozen:
            continue
        stored = TensorType(kind.type.shape, to)
        values[parameter] = replace(kind, type=stored)
        if not any(parameter in node.inputs for node in block.nodes if node.phase is not Phase.BEGIN):
            continue
        name = casts[parameter] = f"{parameter}.cast"
        values[name] = Value(kind.type, Role.ACTIVATION, kind.layout)
        cast = Cast.of(stored, kind.type.dtype)
        nodes.append(Node(name, cast, (parameter,), (name,), Phase.FORWARD))
    for node in block.nodes:
        # What is made of weights once per step, such as copies in fp8, is made of them directly.
        read = {} if node.phase is Phase.BEGIN else casts
        nodes.append(replace(node, inputs=tuple(read.get(value, value) for value in node.inputs)))
    return replace(block, values=values, nodes=tuple(nodes))


def _casting_again(block: Block) -> Block:
    backward = list(block.phase(Phase.BACKWARD))
    read = {value for node in backward for value in node.inputs}
    values = dict(block.values)
    again: dict[str, str] = {}
    casts = []
    for node in block.phase(Phase.FORWARD):
        of_weight = isinstance(node.operator, Cast) and node.inputs[0] in block.parameters
        if of_weight and not read.isdisjoint(node.outputs):
            (value,) = node.outputs
            name = again[value] = f"{node.name}.again"
            values[name] = values[value]
            casts.append(replace(node, name=name, outputs=(name,), phase=Phase.BACKWARD, origin=node.source))
    nodes: list[Node] = []
    for node in block.nodes:
        if node.phase is Phase.BACKWARD:
            nodes += casts
            casts = []
            node = replace(node, inputs=tuple(again.get(value, value) for value in node.inputs))
        nodes.append(node)
    return replace(block, values=values, nodes=tuple(nodes))
