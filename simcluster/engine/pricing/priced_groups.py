"""Classes that run one part of the Program, beside each other: equal in all prices, or each at its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.linking import PARTS, LinkedPart
from simcluster.engine.pricing.device_prices import PricedCode
from simcluster.engine.pricing.priced_program import PricedProgram
from simcluster.engine.pricing.prices import Prices

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PricedGroup(ABC):
    """The classes ``indices``, which run a part on devices of one kind; the columns of all arrays."""

    part: LinkedPart
    indices: Sequence[int]

    @abstractmethod
    def program(self, column: int) -> PricedProgram:
        """What a class runs."""

    @abstractmethod
    def priced(self, code: int) -> PricedCode:
        """What a code's instructions cost every class; in one column if that is the same for all."""

    def durations(self, code: int, instruction: int) -> Ints:
        """Nanoseconds [classes] of an instruction."""
        return np.broadcast_to(self.priced(code).duration[instruction], len(self.indices))

    def kernels(self) -> tuple[Ints, Ints]:
        """The different nanoseconds [prices, kernels, ``PARTS``] of the kernels of the part's segments, and
        which of them each class has.
        """
        parts = [self.priced(code).parts(own) for code, own in self.part.segments.kernels]
        columns = max((kernels.shape[2] for kernels in parts), default=1)
        every = np.concatenate([np.zeros((0, PARTS, columns), dtype=np.int64), *parts])
        return every.transpose(2, 0, 1), np.arange(len(self.indices)) % columns


@dataclass(frozen=True)
class EqualClasses(PricedGroup):
    """Classes that run one program."""

    common: PricedProgram

    def program(self, column: int) -> PricedProgram:
        """The program of them all."""
        return self.common

    def priced(self, code: int) -> PricedCode:
        """Its prices."""
        timed = self.common.codes[code]
        return PricedCode(timed.duration[:, None], timed.host[:, None], timed.memory[:, None])


@dataclass(frozen=True)
class ManyClasses(PricedGroup):
    """Many classes, each at its own prices; their programs are made when they are asked for."""

    prices: Prices
    codes: Mapping[int, PricedCode]

    def program(self, column: int) -> PricedProgram:
        """The program of one of them."""
        codes = {
            code: self.prices.with_prices(code, priced.of(column)) for code, priced in self.codes.items()
        }
        return PricedProgram(codes, self.part)

    def priced(self, code: int) -> PricedCode:
        """The prices of every class."""
        return self.codes[code]
