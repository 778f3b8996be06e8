"""The FLOPs of training a model: of its forward pass, and of the gradients that trained weights need."""

from __future__ import annotations

from collections import defaultdict

from simcluster.model import Block, Flops, Graph, Node, Operator, Phase, forward_flops, matrix_flops
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.work import DType


def training_flops(graph: Graph, times: int = 1) -> Flops:
    """Matrix FLOPs of forward and backward passes, ``times`` those of a forward graph's micro-batch.

    Those that one forward and backward pass require, whatever a plan computes again (Korthikanti et al. 2022,
    appendix A): three times the forward pass where both operands of a product need a gradient, twice where
    one does not (images in front of the first convolution, frozen weights), once where nothing in front of a
    product is trained; adapters, three times. So count Megatron-Bridge and NeMo for LoRA, but for the
    adapters, which they leave out.
    """
    forward = forward_flops(graph)
    made = differentiate(graph, DType.FP32)
    of_block = {name: _gradient_flops(block) for name, block in made.blocks.items()}
    return sum((of_block[instance.block] for instance in made.instances), forward) * times


def _gradient_flops(block: Block) -> Flops:
    """Of the backward pass of a block: of each operator's gradient at most twice its forward pass.

    What is beyond that, such as the scores of attention made again, is recomputation.
    """
    by_origin: defaultdict[str, Flops] = defaultdict(Flops)
    for node in block.phase(Phase.BACKWARD):
        by_origin[node.origin] += _flops(block, node)
    sums = Flops()
    for origin, flops in by_origin.items():
        if flops.square:
            twice = _flops(block, block.node(origin)) * 2
            sums += min(flops, twice, key=lambda found: found.square)
    return sums


def _flops(block: Block, node: Node) -> Flops:
    assert isinstance(node.operator, Operator)
    inputs, outputs = ([block.values[value].type for value in names] for names in (node.inputs, node.outputs))
    return matrix_flops(node.operator.work(inputs, outputs))
