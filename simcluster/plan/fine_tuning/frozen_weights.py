"""Pass: weights that are not trained: no gradient, no state, no master copy; and the FLOPs that are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simcluster.document import matches
from simcluster.errors import PlanError
from simcluster.model import Block, Flops, Graph, Instance, Operator, Phase, forward_flops, matrix_flops
from simcluster.plan.autodiff import differentiate
from simcluster.plan.rules import check_patterns
from simcluster.work import DType

PATH = "training.frozen"


def freeze(graph: Graph, patterns: Sequence[str], *, adapted: bool) -> Graph:
    """The graph in which parameters that a pattern names are frozen; of tied ones all are.

    PlanError if a pattern names none, or if none is left and the graph is not ``adapted``.
    """
    names = [
        f"{instance.name}.{name}"
        for instance in graph.instances
        for name in graph.block_of(instance).parameters
    ]
    check_patterns(patterns, names, "parameter", f"{PATH}.{{}}")
    chosen = {name for name in names if any(matches(pattern, name) for pattern in patterns)}
    for group in graph.ties:
        if not chosen.isdisjoint(group):
            chosen.update(group)
    if chosen.issuperset(names) and not adapted:
        raise PlanError("all parameters are frozen, so nothing is trained", path=PATH)
    frozen = {
        instance.name: tuple(
            name
            for name in graph.block_of(instance).parameters
            if f"{instance.known_as}.{name}" in chosen or f"{instance.name}.{name}" in chosen
        )
        for instance in graph.instances
    }

    def rewrite(block: Block, instance: Instance) -> Block:
        return replace(block, frozen=frozenset(frozen[instance.name]))

    return graph.specialised(
        frozen, rewrite, lambda key, keys: f".frozen{keys.index(key) or ''}" if key else ""
    )


def training_flops(graph: Graph, times: int = 1) -> Flops:
    """Matrix FLOPs of forward and backward passes, ``times`` those of a forward graph's micro-batch.

    Three times the forward pass where all weights are trained. Without the gradients of frozen weights a
    product takes twice its forward pass, and once where nothing in front of it is trained; adapters, three
    times. So count Megatron-Bridge and NeMo for LoRA, but for the adapters, which they leave out.
    """
    forward = forward_flops(graph)
    if not any(block.frozen for block in graph.blocks.values()):
        return forward * (3 * times)
    made = differentiate(graph, DType.FP32)
    of_block: dict[str, Flops] = {}
    for name, block in made.blocks.items():
        again = Flops()
        for node in block.phase(Phase.BACKWARD):
            assert isinstance(node.operator, Operator)
            kinds = [[block.values[value].type for value in names] for names in (node.inputs, node.outputs)]
            flops = matrix_flops(node.operator.work(*kinds))
            if not flops.attention:
                again += flops
                continue
            # The gradient of attention counts as twice its forward pass, without the scores made again.
            origin = block.node(node.origin)
            assert isinstance(origin.operator, Operator)
            kinds = [
                [block.values[value].type for value in names] for names in (origin.inputs, origin.outputs)
            ]
            again += matrix_flops(origin.operator.work(*kinds)) * 2
        of_block[name] = again
    return sum((of_block[instance.block] for instance in made.instances), forward) * times
