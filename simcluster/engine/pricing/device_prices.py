"""What instructions cost to many classes, as arrays over these: their devices may have different speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import DeviceArray
from simcluster.engine.linking import Priced
from simcluster.engine.pricing.prices import Prices, price_instructions
from simcluster.program import Instruction, InstructionBlock

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PricedCode:
    """Nanoseconds [instructions, classes] of every instruction of a code; how many of them are launches and
    dispatch, and in how many memory holds it up.
    """

    duration: Ints
    host: Ints
    memory: Ints

    def of(self, column: int) -> list[Priced]:
        """The prices of one class."""
        rows = zip(
            *(part[:, column].tolist() for part in (self.duration, self.host, self.memory)), strict=True
        )
        return [(duration, host, memory) for duration, host, memory in rows]

    def parts(self, kernels: Ints) -> Ints:
        """Nanoseconds [kernels, ``PARTS``, classes] of some kernels: those bound by the units, those bound by
        memory, those of launches and dispatch.
        """
        host, memory = self.host[kernels], self.memory[kernels]
        return np.stack([self.duration[kernels] - host - memory, memory, host], axis=1)


@dataclass(frozen=True)
class DevicePrices:
    """The prices of some classes of one part; equal, class by class, to those of ``Prices.of_code``."""

    prices: Prices
    indices: Sequence[int]
    devices: DeviceArray

    @classmethod
    def of(cls, prices: Prices, indices: Sequence[int]) -> DevicePrices:
        """The prices of classes whose devices are of one kind."""
        ranks = [prices.classes.representatives[index] for index in indices]
        return cls(prices, indices, prices.cluster.fleet(ranks))

    def of_code(self, code: InstructionBlock) -> PricedCode:
        """The prices of a code's instructions."""

        def moved(instruction: Instruction) -> tuple[Ints, Ints]:
            keys = [self.prices.way(index, instruction) for index in self.indices]
            examples, which = examples_of(keys)
            prices = [self.prices.moved(self.indices[place], code, instruction) for place in examples]
            alone, called = np.array(prices, dtype=np.int64)[which].T
            return alone, called

        launches = self.prices.launches(code, self.devices.device)
        columns = zip(*price_instructions(code, self.devices.price, launches, moved), strict=True)
        width = len(self.indices)
        return PricedCode(*(np.array([np.broadcast_to(row, width) for row in column]) for column in columns))


def examples_of(keys: Sequence[object]) -> tuple[list[int], Ints]:
    """The first place of every different key, and by place which of these it is like."""
    numbers: dict[object, int] = {}
    which = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return np.unique(which, return_index=True)[1].tolist(), which
