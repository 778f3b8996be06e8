"""Classes that run one part of the Program, beside each other, and what that costs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.linking import PARTS, LinkedPart
from simcluster.number_arrays import Ints


@dataclass(frozen=True, eq=False)
class PricedCode:
    """Nanoseconds [instructions, classes] of every instruction of a code; how many of them are launches and
    dispatch, and in how many memory holds it up. In one column if they are the same for all classes.
    """

    duration: Ints
    host: Ints
    memory: Ints

    def parts(self, kernels: Ints) -> Ints:
        """Nanoseconds [kernels, ``PARTS``, classes] of some kernels: those bound by the units, those bound by
        memory, those of launches and dispatch.
        """
        host, memory = self.host[kernels], self.memory[kernels]
        return np.stack([self.duration[kernels] - host - memory, memory, host], axis=1)


@dataclass(frozen=True)
class PricedGroup:
    """The classes ``indices``, which run a part on devices of one kind; the columns of all arrays.

    ``codes`` is what its codes cost them; ``many`` says that each may have its own prices.
    """

    part: LinkedPart
    indices: Sequence[int]
    codes: Mapping[int, PricedCode]
    many: bool

    def durations(self, code: int, instruction: int) -> Ints:
        """Nanoseconds [classes] of an instruction."""
        return np.broadcast_to(self.codes[code].duration[instruction], len(self.indices))

    def kernels(self) -> tuple[Ints, Ints]:
        """The different nanoseconds [prices, kernels, ``PARTS``] of the kernels of the part's segments, and
        which of them each class has.
        """
        parts = [self.codes[code].parts(own) for code, own in self.part.segments.kernels]
        columns = max((kernels.shape[2] for kernels in parts), default=1)
        every = np.concatenate([np.zeros((0, PARTS, columns), dtype=np.int64), *parts])
        return every.transpose(2, 0, 1), np.arange(len(self.indices)) % columns
