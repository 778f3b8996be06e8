"""Expert routing: the table counts[layer, micro-batch, source, expert] with which a step is timed.

Routing is an input, like the batch (DESIGN 4.4): a law and a seed give the popularity of every expert of a
layer, the same for all sources.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.collectives import Imbalance, ImbalanceLaw
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.number_arrays import Ints

ROUTING_PATH = "training.routing"
"""The key path of the section."""


@dataclass(frozen=True, slots=True)
class ExpertRouting:
    """How often experts are chosen: a law, or a histogram."""

    law: Imbalance = Imbalance(ImbalanceLaw.UNIFORM)
    """``uniform``, ``zipf:1.2`` and so on."""
    histogram: tuple[tuple[float, ...], ...] = ()
    """Tokens of every expert instead of a law: one row for all layers, or one for each."""
    each_micro_batch: bool = False
    """Popularity is drawn for each micro-batch; else once for the step."""

    @property
    def uniform(self) -> bool:
        """Whether every expert gets equally many tokens."""
        return self.law.law is ImbalanceLaw.UNIFORM and not self.histogram

    def table(self, layer: str, micro_batch: int) -> tuple[str, int]:
        """The key of the table of a layer and micro-batch: equal for those with one table."""
        return layer, micro_batch if self.each_micro_batch else -1

    def popularity(self, layer: str, place: int, micro_batch: int, experts: int) -> NDArray[np.float64]:
        """Shares of the experts of a layer, the ``place``-th with experts.

        PlanError for a histogram with another number of experts or layers.
        """
        if not self.histogram:
            key = zlib.crc32(layer.encode()), self.table(layer, micro_batch)[1] + 1
            weights = self.law.popularity(experts, *key).astype(np.float64)
        else:
            weights = np.array(self._row(place), dtype=np.float64)
            if len(weights) != experts:
                raise PlanError(
                    f"{len(weights)} numbers; {layer} has {experts} experts", path=f"{ROUTING_PATH}.histogram"
                )
        if weights.sum() <= 0:
            raise PlanError(f"no expert of {layer} is ever chosen", path=ROUTING_PATH)
        return np.asarray(weights / weights.sum())

    def _row(self, place: int) -> Sequence[float]:
        if len(self.histogram) == 1:
            return self.histogram[0]
        if place >= len(self.histogram):
            raise PlanError(
                f"{len(self.histogram)} rows, but more layers have experts",
                path=f"{ROUTING_PATH}.histogram",
                hint="give one row for all layers, or one for each that has experts",
            )
        return self.histogram[place]

    def __str__(self) -> str:
        if self.histogram:
            return "histogram"
        return "uniform" if self.uniform else f"{self.law.law}:{self.law.number:g}, seed {self.law.seed}"


BALANCED_ROUTING = ExpertRouting()


def expert_counts(shares: NDArray[np.float64], rows: int, once: int, most: int | None = None) -> Ints:
    """Tokens of each expert, of ``rows`` choices by shares, at most ``once`` each; shape [experts].

    A token chooses an expert only once; what a popular one cannot take goes to the others by their shares.
    Whole numbers by largest remainder, ties in order. What then exceeds ``most`` (the capacity) is dropped.
    """
    if rows > once * len(shares):
        raise ValueError(f"{rows} choices of {len(shares)} experts, none of them more than {once} times")
    wanted = np.zeros(len(shares))
    full = np.zeros(len(shares), dtype=np.bool_)
    while True:
        left, free = rows - once * int(full.sum()), ~full
        part = shares[free].sum()
        # Where only experts remain that nobody wants, they are as good as one another.
        by = shares[free] / part if part > 0 else np.full(int(free.sum()), 1 / max(int(free.sum()), 1))
        wanted[full], wanted[free] = once, left * by
        over = wanted > once
        if not over.any():
            break
        full |= over
    counts = np.floor(wanted).astype(np.int64)
    order = np.argsort(counts - wanted, kind="stable")
    able = order[counts[order] < once]
    counts[able[: rows - int(counts.sum())]] += 1
    return counts if most is None else np.minimum(counts, most)
