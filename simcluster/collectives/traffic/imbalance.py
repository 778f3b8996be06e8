"""Laws of unequal parts: how much more some ranks get than others, drawn from a seed."""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

from simcluster.collectives.traffic.unequal_parts import UnequalParts
from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints

UNIT = 2**20
"""What a part of average size counts; drawn numbers are rounded to it, the same on every machine."""

MOST_RANKS = 4096
"""Of a group with unequal parts, of which there are ranks squared."""


class ImbalanceLaw(enum.StrEnum):
    """What is drawn, with one number that says how unequal it is.

    ``uniform``: all parts are equal; the number is 0. ``zipf``: all ranks send alike, and the k-th favourite
    of them all gets ``k ** -number`` as much as the first. ``normal``: each part by itself is drawn around
    the mean with this relative deviation; below zero is nothing.
    """

    UNIFORM = "uniform"
    ZIPF = "zipf"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class Imbalance:
    """A law, its number (at least 0) and a seed."""

    law: ImbalanceLaw
    number: float = 0.0
    seed: int = 0

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> Imbalance:
        """From ``zipf:1.2``, ``normal:0.3`` or ``uniform``; ValueError says what is wrong."""
        name, colon, number = text.partition(":")
        if name not in list(ImbalanceLaw):
            raise ValueError(f"'{name}' is not a known distribution; write zipf:1.2, normal:0.3 or uniform")
        law = ImbalanceLaw(name)
        if (law is ImbalanceLaw.UNIFORM) == bool(colon):
            raise ValueError(f"write {law}" if colon else f"{law} needs a number, such as {law}:1")
        try:
            imbalance = cls(law, float(number) if colon else 0.0, seed)
        except ValueError:
            raise ValueError(f"'{number}' is not a number") from None
        if not 0 <= imbalance.number <= 100:
            raise ValueError(f"'{number}' is not between 0 and 100")
        return imbalance

    def popularity(self, num: int, *key: int) -> Ints:
        """How often each of ``num`` is chosen, in proportion; ``key`` tells draws of one seed apart."""
        rng = np.random.default_rng((self.seed, *key))
        match self.law:
            case ImbalanceLaw.UNIFORM:
                weights = np.ones(num)
            case ImbalanceLaw.ZIPF:
                weights = _favour(rng, num, self.number)
            case ImbalanceLaw.NORMAL:
                weights = np.maximum(rng.normal(1.0, self.number, num), 0.0)
        return np.asarray(np.rint(weights * UNIT), dtype=np.int64)

    def counts(self, num_ranks: int) -> Ints:
        """The parts of a group [n, n] in proportion, a row for each sender."""
        rng = np.random.default_rng(self.seed)
        shape = (num_ranks, num_ranks)
        match self.law:
            case ImbalanceLaw.UNIFORM:
                weights = np.ones(shape)
            case ImbalanceLaw.ZIPF:
                weights = np.broadcast_to(_favour(rng, num_ranks, self.number), shape)
            case ImbalanceLaw.NORMAL:
                weights = np.maximum(rng.normal(1.0, self.number, shape), 0.0)
        return np.asarray(np.rint(weights * UNIT), dtype=np.int64)

    def parts(self, num_ranks: int) -> UnequalParts:
        """The same as parts of S."""
        return UnequalParts.of(self.counts(num_ranks))


def _favour(rng: np.random.Generator, num: int, number: float) -> NDArray[np.float64]:
    """``k ** -number`` for the k-th favourite, in an order that is drawn; one in the mean."""
    favour = (1.0 + rng.permutation(num)) ** -number
    return np.asarray(favour / favour.mean())
