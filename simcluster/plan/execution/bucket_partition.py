"""The optimal partition of consecutive gradients, or weights, into buckets: the last kernel ends first.

The model: one network stream runs the buckets in order, each from when its last gradient is ready and the
previous bucket has ended. Kernels are busy with the backward until some time and then update parameters in
order, each when its bucket has arrived. For weights that are gathered, a bucket may start as soon as its
first weight may, and the kernels that wait are those that read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints

BucketCost = Callable[[int, int], int]
"""(begin, end) -> nanoseconds of the collective of the gradients begin .. end - 1."""


@dataclass(frozen=True, slots=True)
class ReadyTimes:
    """When gradients or weights are ready, in the order of their collectives; in nanoseconds."""

    ready: Sequence[int]
    """When each is ready; ascending."""
    updates: Sequence[int]
    """Time of the kernels that have to wait for each."""
    busy: int
    """When the kernels that wait for none have ended."""
    cost: BucketCost
    """Time of a bucket's collective."""
    by_first: bool = False
    """A bucket starts when its first member is ready, not its last."""

    def finish(self, ends: Sequence[int]) -> int:
        """When the last update has ended, with buckets closed after so many gradients each (``ends``)."""
        over, done = 0, self.busy
        for begin, end in pairwise([0, *ends, len(self.ready)]):
            over = max(over, self.ready[begin if self.by_first else end - 1]) + self.cost(begin, end)
            done = max(done, over) + sum(self.updates[begin:end])
        return done

    def best_ends(self) -> tuple[int, ...]:
        """After how many gradients each bucket but the last is closed, so that the updates end first.

        Dynamic programming: of all partitions of the first j gradients only those matter that no other one
        beats in both the end of its last bucket and the end of its updates, since whatever follows ends no
        earlier if either ends later. Then buckets are joined, the first ones first, where nothing ends later
        by it.
        """
        count = len(self.ready)
        updates = np.concatenate([[0], np.cumsum(np.array(self.updates, dtype=np.int64))])
        ready = np.array(self.ready, dtype=np.int64)
        fronts = [np.array([[0, self.busy, 0, 0, 0]], dtype=np.int64)]
        for end in range(1, count + 1):
            costs = np.array([self.cost(begin, end) for begin in range(end)], dtype=np.int64)
            due = ready[:end] if self.by_first else np.full(end, ready[end - 1])
            fronts.append(_front(fronts, costs, updates[end] - updates[:end], due))
        ends = []
        place = count
        row = min(fronts[count].tolist(), key=lambda state: (state[1], state[2], state[0]))
        while place:
            place, index = row[3], row[4]
            ends.append(place)
            row = fronts[place][index].tolist()
        return self._joined(sorted(end for end in ends if end))

    def _joined(self, ends: Sequence[int]) -> tuple[int, ...]:
        """The partition without the borders that save nothing."""
        kept, least = list(ends), self.finish(ends)
        for end in ends:
            fewer = [other for other in kept if other != end]
            if self.finish(fewer) == least:
                kept = fewer
        return tuple(kept)


def _front(fronts: Sequence[Ints], costs: Ints, updates: Ints, ready: Ints) -> Ints:
    """The states [over, done, buckets, begin, index there] with one bucket more that no other one beats."""
    lengths = [len(front) for front in fronts]
    before = np.concatenate(fronts)
    begin = np.repeat(np.arange(len(fronts)), lengths)
    index = np.concatenate([np.arange(length) for length in lengths])
    over = np.maximum(before[:, 0], ready[begin]) + costs[begin]
    done = np.maximum(before[:, 1], over) + updates[begin]
    buckets = before[:, 2] + 1
    order = np.lexsort((buckets, done, over))
    least = np.minimum.accumulate(done[order])
    kept = order[np.concatenate([[True], done[order][1:] < least[:-1]])]
    states: Ints = np.stack([over, done, buckets, begin, index], axis=1)[kept]
    return states
