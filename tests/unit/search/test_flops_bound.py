"""FLOPs of matrix products at the peak of the fastest device."""

from __future__ import annotations

import pytest

from simcluster.search import PlanSpace
from simcluster.search.bounds import PlanBounds
from simcluster.search.bounds.flops_bound import least_kernel_time, least_time_of_flops
from simcluster.work import DType, Kernel, Work
from tests.support.plan_spaces import small_scenario

GEMM = (("b", 1), ("m", 1024), ("n", 2048), ("k", 512))


def test_a_product_takes_as_long_as_at_the_peak_and_nothing_else_counts():
    cluster = small_scenario().cluster
    (host,) = cluster.kinds
    product = Work(Kernel.GEMM, DType.FP16, 3 * 10**9, 0, 0, GEMM)  # 2 m n k, and what is fused with it
    added = Work(Kernel.ELEMENTWISE, DType.FP16, 10**9, 10**9, 10**9)
    flops = 2 * 1024 * 2048 * 512
    assert least_kernel_time([product, added], cluster) == int(flops / host.device.peak[DType.FP16] * 1e9)
    assert least_kernel_time([product], cluster) <= 1e9 * host.device.kernel_time(product)


def test_the_flops_of_a_step_are_those_of_forward_and_backward():
    """Six times the weights of products for every token, and seven products of causal halves of squares, of
    which flash attention does five backward.
    """
    strategies = '[{match: "layers.*.mlp.up*", split: {ffn: data}}]'
    which = small_scenario(1, devices=8).changed(
        [("parallel.propagate", "true"), ("parallel.strategies", strategies)]
    )
    bounds, space = PlanBounds(which), PlanSpace.of(which, ["micro_batch"])
    model, training = which.model, which.spec.training
    weights = model.layers * (4 * model.hidden**2 + 3 * model.hidden * model.ffn) + model.hidden * model.vocab
    attended = 14 * model.layers * model.hidden * training.seq_len / 2
    wanted = training.seq_len * (6 * weights + attended)
    assert bounds.small_plans.matrix_work(space.base) == pytest.approx(wanted, rel=1e-3)
    total = wanted * training.global_batch
    (host,) = which.cluster.kinds
    peak = host.device.peak[bounds.texts.formats(space.base.optimizer_sharding).matmul]
    least = least_time_of_flops(total, which.cluster, bounds.texts.formats("{zero: 0}"))
    assert least == pytest.approx(1e9 * total / (8 * peak), rel=1e-6)
    assert bounds.of(space.base).time_ns == pytest.approx(least, rel=1e-3)
