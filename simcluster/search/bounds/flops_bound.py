"""The least time of a step by its FLOPs alone: for plans about whose layers nothing else is known.

No plan divides matrix products further than over all devices, and none does them faster than the peak of
the fastest one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from simcluster.cluster import NOMINAL, Cluster
from simcluster.model import Graph, Operator, Phase
from simcluster.plan import Numerics
from simcluster.work import DType, Kernel, Work

_MATRIX = (Kernel.GEMM, Kernel.ATTENTION, Kernel.CONV)
_COMPUTED = (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS)


def matrix_work(logical: Graph) -> int:
    """FLOPs of the matrix products of a differentiated graph, as one device would do them."""
    by_block: dict[str, int] = {}
    for name, block in logical.blocks.items():
        total = 0
        for node in block.phase(*_COMPUTED):
            if isinstance(node.operator, Operator):
                inputs = [block.values[value].type for value in node.inputs]
                outputs = [block.values[value].type for value in node.outputs]
                works = node.operator.work(inputs, outputs)
                total += sum(
                    _product(dict(work.sizes), work.flops) for work in works if work.kernel in _MATRIX
                )
        by_block[name] = total
    return sum(by_block[instance.block] for instance in logical.instances)


def _product(sizes: dict[str, int], flops: int) -> int:
    """The FLOPs of a product without what is fused with it; those of attention as they are."""
    if not {"m", "n", "k"} <= sizes.keys():
        return flops
    return min(flops, 2 * sizes.get("b", 1) * sizes["m"] * sizes["n"] * sizes["k"])


def least_kernel_time(works: Iterable[Work], cluster: Cluster) -> int:
    """Nanoseconds that the matrix products of a kernel take at least on the fastest device."""
    products = [work for work in works if work.kernel in _MATRIX]
    seconds = sum(_product(dict(work.sizes), work.flops) / _peak(cluster, work.dtype) for work in products)
    return int(seconds * 1e9)


def _peak(cluster: Cluster, dtype: DType, *, or_wider: bool = False) -> float:
    """FLOP/s of the fastest device in a format, or in the fastest of those with no fewer bits."""
    fastest = max((speed.compute for speed in cluster.speeds.values()), default=NOMINAL.compute)
    rates = []
    for host in cluster.kinds:
        peak = host.device.peak
        wider = [rate for known, rate in peak.items() if or_wider and known.bits >= dtype.bits]
        rates.append(max([peak.get(dtype, math.inf), *wider]))
    ratios = [max(1.0, host.device.convolution or 1.0) for host in cluster.kinds]
    return max(rates) * max(ratios) * max(NOMINAL.compute, fastest)


def least_time_of_flops(flops: float, cluster: Cluster, numerics: Numerics) -> int:
    """Nanoseconds that so many FLOPs of matrix products take at least on all devices together."""
    # Some of what is asked for in fp8 is done in wider formats: the fastest of them is a bound on all.
    rate = _peak(cluster, numerics.matmul, or_wider=numerics.fp8 is not None)
    return int(flops / (rate * cluster.num_devices) * 1e9)
