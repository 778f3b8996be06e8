"""Errors of many predictions, put together: by hardware, operation and size class."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from simcluster import units
from simcluster.accuracy.prediction import FigurePrediction, Prediction
from simcluster.accuracy.row import MeasuredRow
from simcluster.deferred_dataclass import dataclass

LARGE_BYTES = 16 << 20


class SizeClass(enum.StrEnum):
    """Small messages, whose time is mostly latency, and large ones, whose time is mostly bandwidth."""

    BELOW = "below 16 MiB"
    FROM = "from 16 MiB"

    @classmethod
    def of(cls, prediction: Prediction) -> SizeClass:
        """The size class of a prediction's message."""
        return cls.FROM if prediction.row.size >= LARGE_BYTES else cls.BELOW


Erred = TypeVar("Erred", bound=FigurePrediction)


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors: mean, median, 90th percentile and worst of their size, and the median with sign.

    A positive ``bias`` is predicted too slow.
    """

    rows: int
    mean: float
    median: float
    p90: float
    worst: float
    bias: float

    @classmethod
    def of(cls, predictions: Iterable[FigurePrediction]) -> Errors:
        """The errors of at least one row that was predicted."""
        signed = np.array([prediction.error for prediction in predictions])
        sizes = np.abs(signed)
        return cls(
            len(signed),
            float(sizes.mean()),
            float(np.median(sizes)),
            float(np.quantile(sizes, 0.9)),
            float(sizes.max()),
            float(np.median(signed)),
        )

    @property
    def cells(self) -> list[str]:
        """The texts of a table row, one for each title of ``FIGURES``."""
        sizes = (units.percent(size) for size in (self.mean, self.median, self.p90))
        return [f"{self.rows:,}", *sizes, units.percent(self.worst, 0), units.signed_percent(self.bias)]


FIGURES = ("rows", "mean", "median", "p90", "worst", "bias")
"""The titles of what tables tell of errors."""

Key: TypeAlias = tuple[str, ...]


class CollectiveGrouping(enum.StrEnum):
    """What rows of collectives of one line of the table have in common, beside their size class."""

    HARDWARE = "hardware"
    SOURCE = "source"
    OPERATION = "operation"
    HOSTS = "hosts"
    ALGORITHM = "algorithm"

    def of(self, prediction: Prediction) -> Key:
        """The group of a row."""
        row = prediction.row
        match self:
            case CollectiveGrouping.HARDWARE:
                return row.hardware, row.operation
            case CollectiveGrouping.SOURCE:
                return (row.source.partition("@")[0].partition(" (")[0],)
            case CollectiveGrouping.OPERATION:
                return (row.operation,)
            case CollectiveGrouping.HOSTS:
                return (f"{row.num_hosts} host{'s' if row.num_hosts > 1 else ''} of {_per_host(row)}",)
            case CollectiveGrouping.ALGORITHM:
                return (prediction.how,)


def _per_host(row: MeasuredRow) -> int:
    return row.num_devices // row.num_hosts


def errors_by_key(
    predictions: Iterable[Prediction], key: Callable[[Prediction], Key]
) -> dict[Key, dict[SizeClass, Errors]]:
    """The errors of the predicted rows by key (sorted) and size class."""
    by_key: dict[Key, dict[SizeClass, list[Prediction]]] = {}
    for prediction in predictions:
        if not prediction.reason:
            by_key.setdefault(key(prediction), {}).setdefault(SizeClass.of(prediction), []).append(prediction)
    return {
        name: {size: Errors.of(by_key[name][size]) for size in SizeClass if size in by_key[name]}
        for name in sorted(by_key)
    }


def by_cluster(prediction: Prediction) -> Key:
    """Key: the host of the catalog."""
    return (prediction.cluster,)


def by_operation(prediction: Prediction) -> Key:
    """Key: the operation."""
    return (prediction.row.operation,)


def overall(prediction: Prediction) -> Key:
    """One key for all rows."""
    return ("all",)


def unsupported(predictions: Sequence[FigurePrediction]) -> list[tuple[str, int]]:
    """Why rows were not predicted and how many for each reason, most first."""
    return Counter(prediction.reason for prediction in predictions if prediction.reason).most_common()


def worst(predictions: Iterable[Erred], count: int) -> list[Erred]:
    """The ``count`` predicted rows farthest off, by the ratio of the figures."""
    done = [row for row in predictions if not row.reason]
    return sorted(done, key=lambda row: -abs(np.log(row.predicted / row.measured)))[:count]
