"""A list of three passes over a small transformer."""

from __future__ import annotations

from functools import partial

from simcluster.plan import Pass, PassList
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.plan.execution.kernel_fusion import fuse
from simcluster.plan.pipeline.placement import place
from simcluster.work import DType
from tests.support.plan_graphs import LLAMA

NO_PAIRS: frozenset[tuple[str, str]] = frozenset()


def listed(pairs: frozenset[tuple[str, str]] = NO_PAIRS, gradients: DType = DType.FP32) -> PassList:
    """It places, differentiates and fuses."""
    return PassList.of(LLAMA.graph(2, 4, DType.BF16, 8)).then(
        Pass("place", partial(place, layers=(1, 1))),
        Pass("differentiate", partial(differentiate, gradient_dtype=gradients)),
        Pass("fuse", partial(fuse, pairs=pairs, together=False)),
    )
