"""Cases of the operators over pictures: convolutions, pools, batch norm."""

from __future__ import annotations

from simcluster.model.attributes.batch_norm_statistics import StatisticsGroups
from simcluster.model.attributes.sliding_windows import Windows
from simcluster.model.operators.batch_norm import BatchNorm, BatchNormGrad
from simcluster.model.operators.batch_norm_passes import (
    BatchNormalise,
    BatchNormGradSums,
    BatchNormInputGrad,
    BatchNormSums,
    RunningStatistics,
)
from simcluster.model.operators.convolution import Conv2d, ConvInputGrad, ConvWeightGrad
from simcluster.model.operators.pooling import (
    AveragePool2d,
    AveragePool2dGrad,
    GlobalAveragePool,
    GlobalAveragePoolGrad,
    MaxPool2d,
    MaxPool2dGrad,
)
from tests.contracts.operator_case import WHOLE, Case, Draw, normal

_SIDE = 16


def _over(kernel: int, stride: int = 1, padding: int = 0, size: int = _SIDE) -> Windows:
    return Windows.over((size, size), kernel, stride, padding)


def _convolutions(name: str, windows: Windows, size: int = _SIDE, kernel: int = 3) -> tuple[Case, ...]:
    x, w = (8, 8, size, size), (8, 8, kernel, kernel)
    y = (8, 8, *windows.count(x))
    odd = frozenset({"kernel_height", "kernel_width"})
    return (
        Case(f"conv2d {name}", Conv2d(windows), normal(x, w), (0,), odd=odd),
        Case(f"conv2d_input_grad {name}", ConvInputGrad(windows), normal(y, w), odd=odd),
        Case(f"conv2d_weight_grad {name}", ConvWeightGrad(windows), normal(x, y), odd=odd),
    )


def _max_pool_grad(windows: Windows, size: int = _SIDE) -> Draw:
    def draw(rng):
        x = rng.standard_normal((8, 8, size, size))
        (y,) = MaxPool2d(windows).evaluate((x,), WHOLE)
        return x, y, rng.standard_normal(y.shape)

    return draw


def _pools(name: str, windows: Windows) -> tuple[Case, ...]:
    x = (8, 8, _SIDE, _SIDE)
    y = (8, 8, *windows.count(x))
    return (
        Case(f"max_pool2d {name}", MaxPool2d(windows), normal(x), (0,)),
        Case(f"max_pool2d_grad {name}", MaxPool2dGrad(windows), _max_pool_grad(windows)),
        Case(f"average_pool2d {name}", AveragePool2d(windows), normal(x), (0,)),
        Case(f"average_pool2d_grad {name}", AveragePool2dGrad(windows), normal(y)),
    )


_PICTURE = (16, 8, 8, 8)


def _kept(statistics: StatisticsGroups, *chosen: int) -> Draw:
    """What is read of (x, mean, reciprocal, w, dy, sums) by a gradient, in this order."""

    def draw(rng):
        x, weight, bias, dy = normal(_PICTURE, (8,), (8,), _PICTURE)(rng)
        _, mean, reciprocal = BatchNorm(statistics).evaluate((x, weight, bias), WHOLE)
        sums, _, _ = BatchNormGradSums(statistics).evaluate((x, mean, reciprocal, dy), WHOLE)
        every = (x, mean, reciprocal, weight, dy, sums)
        return tuple(every[index] for index in chosen)

    return draw


def _running(statistics: StatisticsGroups) -> Draw:
    def draw(rng):
        x, mean, reciprocal = _kept(statistics, 0, 1, 2)(rng)
        return (*BatchNormSums(statistics).evaluate((x,), WHOLE), mean, reciprocal)

    return draw


def _sums(statistics: StatisticsGroups) -> Draw:
    def draw(rng):
        x, weight, bias = normal(_PICTURE, (8,), (8,))(rng)
        return (x, *BatchNormSums(statistics).evaluate((x,), WHOLE), weight, bias)

    return draw


def _batch_norms(name: str, statistics: StatisticsGroups) -> tuple[Case, ...]:
    return (
        Case(
            f"batch_norm {name}",
            BatchNorm(statistics),
            normal(_PICTURE, (8,), (8,)),
            (0,),
        ),
        Case(f"batch_norm_sums {name}", BatchNormSums(statistics), normal(_PICTURE)),
        Case(
            f"batch_normalise {name}",
            BatchNormalise(statistics),
            _sums(statistics),
        ),
        Case(f"batch_norm_grad {name}", BatchNormGrad(statistics), _kept(statistics, 0, 1, 2, 3, 4)),
        Case(f"batch_norm_grad_sums {name}", BatchNormGradSums(statistics), _kept(statistics, 0, 1, 2, 4)),
        Case(f"running_statistics {name}", RunningStatistics(statistics), _running(statistics)),
        Case(
            f"batch_norm_input_grad {name}",
            BatchNormInputGrad(statistics),
            _kept(statistics, 0, 1, 2, 3, 4, 5),
        ),
    )


CASES = (
    *_convolutions("of three", _over(3, 1, 1)),
    *_convolutions("of three in steps of two", _over(3, 2, 1)),
    *_convolutions("of one in steps of two", _over(1, 2), kernel=1),
    *_convolutions("of five in steps of two", _over(5, 2, 2), kernel=5),
    *_convolutions("without padding", _over(3, size=10), size=10),
    *_pools("of three in steps of two", _over(3, 2, 1)),
    *_pools("of two", _over(2, 2)),
    Case("global_average_pool", GlobalAveragePool(8, 8), normal((8, 8, 8, 8)), (0,)),
    Case("global_average_pool_grad", GlobalAveragePoolGrad(8, 8), normal((8, 8))),
    *_batch_norms("of two samples", StatisticsGroups(2 * 64, 2)),
    *_batch_norms("of every sample", StatisticsGroups(64, 1)),
    *_batch_norms("synchronised", StatisticsGroups(16 * 64)),
)
