"""Matrix FLOPs, in both conventions of counting causal attention."""

from __future__ import annotations

from collections.abc import Iterable

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import Graph, Operator, Phase
from simcluster.work import Kernel, Work

_MATRIX = (Kernel.GEMM, Kernel.ATTENTION, Kernel.CONV)


@dataclass(frozen=True, slots=True)
class Flops:
    """FLOPs of matrix products, a multiply-add counted as two.

    ``counted``: of attention what is not masked, half of a causal square (Megatron-Core since 2024).
    ``square``: the whole square (Megatron-LM 2021 and 2022, PaLM, llm-foundry, torchtitan).
    ``attention``: those of ``square`` that are attention's.
    """

    counted: float = 0
    square: float = 0
    attention: float = 0

    def __add__(self, other: Flops) -> Flops:
        """The sum, by convention."""
        return Flops(
            self.counted + other.counted, self.square + other.square, self.attention + other.attention
        )

    def __mul__(self, times: float) -> Flops:
        """The same work ``times`` over."""
        return Flops(self.counted * times, self.square * times, self.attention * times)


def matrix_flops(works: Iterable[Work]) -> Flops:
    """The matrix FLOPs of kernels; elementwise work and reductions do not count."""
    return sum((_of(work) for work in works if work.kernel in _MATRIX), Flops())


def _of(work: Work) -> Flops:
    size = dict(work.sizes)
    if work.kernel is not Kernel.ATTENTION:
        # By its sizes: the FLOPs of a fused kernel hold biases and activations too.
        product = 2 * size.get("b", 1) * size["m"] * size["n"] * size["k"]
        return Flops(product, product)
    keys, values = size["d"], size.get("dv", size["d"])
    products = 3 * keys + 2 * values if size["backward"] else keys + values
    scores = 2 * size["sq"] * (size["skv"] + size.get("hidden", 0))
    if "before" in size:
        # The squares of slices of sequences make up that of the whole.
        scores = 2 * (scores - size["sq"] ** 2)
    square = products * size["b"] * size["h"] * scores
    return Flops(work.flops, square, square)


def forward_flops(graph: Graph) -> Flops:
    """Matrix FLOPs of the forward pass of one micro-batch.

    Three times this are the model FLOPs of a step (forward, and twice as much backward); recomputation
    counts only towards the hardware FLOPs.
    """
    per_block: dict[str, Flops] = {}
    for name, block in graph.blocks.items():
        works: list[Work] = []
        for node in block.phase(Phase.FORWARD):
            assert isinstance(node.operator, Operator)
            inputs = [block.values[value].type for value in node.inputs]
            outputs = [block.values[value].type for value in node.outputs]
            works += node.operator.work(inputs, outputs)
        per_block[name] = matrix_flops(works)
    return sum((per_block[instance.block] for instance in graph.instances), Flops())


def prefill_flops(graph: Graph) -> Flops:
    """The matrix FLOPs of the prefill of one micro-batch, of a graph with passes for several tokens."""
    first = tuple(instance for instance in graph.instances if not instance.repeats)
    return forward_flops(Graph({instance.block: graph.block_of(instance) for instance in first}, first))
