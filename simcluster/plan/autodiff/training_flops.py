"""The FLOPs of training a model: of its forward pass, and of the gradients that trained weights need."""

from __future__ import annotations

from simcluster.model import Flops, Graph, Operator, Phase, forward_flops, matrix_flops
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.work import DType


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
