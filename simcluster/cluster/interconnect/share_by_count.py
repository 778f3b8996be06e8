"""What collectives reach of a rate by how many ranks or hosts take part, as measured."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter


@dataclass(frozen=True, slots=True)
class ShareByCount:
    """Shares of a rate at some numbers of participants, which rise; all of it where there are none."""

    entries: tuple[tuple[int, float], ...] = ()

    def at(self, count: int) -> float:
        """The share at ``count``: a power law between two entries, beyond them that of the nearest."""
        if not self.entries:
            return 1.0
        behind = bisect_right(self.entries, count, key=itemgetter(0))
        if behind in (0, len(self.entries)):
            return self.entries[max(behind - 1, 0)][1]
        (fewer, share), (more, other) = self.entries[behind - 1 : behind + 1]
        exponent = math.log(count / fewer) / math.log(more / fewer)
        # Rounded, so that it is the same whatever the mathematical library.
        return round(share * math.pow(other / share, exponent), 9)


ALL = ShareByCount()
"""The whole rate, whatever their number."""
