"""MindSpore's device matrix: the split factors of one operator, and which ranks each of them separates.

A digit is the general form of such a factor: rank numbers of a stage are counted in mixed radix, and a digit
of ``size`` values whose neighbours are ``stride`` ranks apart is what one dim is split over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from simcluster.deferred_dataclass import dataclass

Side = Literal["left", "right"]
"""Where the replicas of a repeated calculation stand: as the outermost factor or as the innermost."""

REPEATED = ""
"""The name of the factor over which an operator is repeated."""


@dataclass(frozen=True, slots=True, order=True)
class SubAxis:
    """``size`` ranks of a stage, ``stride`` apart."""

    stride: int
    size: int

    def __str__(self) -> str:
        return f"{self.size} ranks, {self.stride} apart" if self.stride > 1 else f"{self.size} neighbours"


@dataclass(frozen=True, slots=True)
class DeviceMatrix:
    """Split factors, outermost first; ``names`` are the iteration dims they split."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, factors: Mapping[str, int], devices: int, repeated_on: Side = "left") -> DeviceMatrix:
        """The matrix of an operator with these factors on ``devices`` ranks, which their product divides.

        Where fewer ranks are used, the calculation is repeated: one more factor, on the left or the right.
        """
        used = math.prod(factors.values())
        assert devices % used == 0, f"{used} does not divide {devices}"
        names, sizes = tuple(factors), tuple(factors.values())
        if used == devices:
            return cls(names, sizes)
        if repeated_on == "left":
            return cls((REPEATED, *names), (devices // used, *sizes))
        return cls((*names, REPEATED), (*sizes, devices // used))

    def digit(self, name: str) -> SubAxis:
        """The ranks that the factor of a dim separates."""
        index = self.names.index(name)
        return SubAxis(math.prod(self.sizes[index + 1 :]), self.sizes[index])

    def tensor_map(self, dims: Sequence[str]) -> tuple[int, ...]:
        """For each dim of a tensor the place of its factor, counted from the right; -1 where it has none."""
        last = len(self.names) - 1
        return tuple(last - self.names.index(dim) if dim in self.names else -1 for dim in dims)

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.sizes))}]"
