"""What streams wait for between executions, and which of these waits they know to be over already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Flags, Ints, offsets


class Waits(NamedTuple):
    """What streams wait for, in the order in which they come to it: arrays [waits].

    Before its entries of an ``execution``, a ``stream`` waits until another has ended ``position`` entries of
    an earlier execution, ``awaited``; where that is the same one, all that was posted on it up to there.
    """

    execution: Ints
    stream: Ints
    other: Ints
    awaited: Ints
    position: Ints

    @classmethod
    def for_all_before(cls, execution: Ints, stream: Ints, other: Ints) -> Waits:
        """Waits for everything that was posted before."""
        return cls(execution, stream, other, execution, np.zeros_like(execution))

    @classmethod
    def in_order(cls, kinds: Sequence[Waits]) -> Waits:
        """Waits of several kinds, each in order: execution by execution, the first kind first."""
        keys = np.concatenate([waits.execution * len(kinds) + kind for kind, waits in enumerate(kinds)])
        order = np.argsort(keys, kind="stable")
        return cls(*(np.concatenate(column)[order] for column in zip(*kinds, strict=True)))

    def chosen(self, which: Flags) -> Waits:
        """Some of them."""
        return Waits(*(column[which] for column in self))


@dataclass(frozen=True, slots=True)
class NeededWaits:
    """Waits for what their stream does not know to be over, each an entry of that stream.

    ``ended`` [waits] says how many entries of the other stream must have ended; ``bases`` [executions,
    streams] is the position of the first entry of an execution on a stream that is no wait.
    """

    waits: Waits
    ended: Ints
    bases: Ints

    @classmethod
    def of(cls, waits: Waits, lengths: Ints) -> NeededWaits:
        """Those of some waits; ``lengths`` [executions, streams] counts the entries that are no waits."""
        waits = waits.chosen(waits.stream != waits.other)
        positions = _Positions(waits, lengths)
        needed = np.zeros(len(waits.stream), dtype=np.bool_)
        # What is needed depends on positions, and they on the waits before: the first ones are right at once,
        # those that depend on them only in the next round.
        while True:
            bases, ended = positions.of(needed)
            unknown = positions.unknown(ended)
            if np.array_equal(unknown, needed):
                return cls(waits.chosen(needed), ended[needed], bases)
            needed = unknown


class _Positions:
    """The positions of entries if some of the ``waits`` are entries."""

    def __init__(self, waits: Waits, lengths: Ints) -> None:
        self.shape = lengths.shape
        self.waits = waits
        self.before = np.cumsum(lengths, axis=0) - lengths
        num_streams = lengths.shape[1]
        self.own = waits.execution * num_streams + waits.stream
        self.awaited = waits.awaited * num_streams + waits.other
        # Of waits for all before: which waits of the other stream come before them.
        self.latest = np.flatnonzero(waits.awaited == waits.execution)
        self.by_stream = _grouped(waits.stream)
        stream, other, count = waits.stream[self.by_stream], waits.other[self.latest], len(waits.stream)
        self.first = np.searchsorted(stream, other)
        self.last = np.searchsorted(stream * count + self.by_stream, other * count + self.latest)
        # Positions on one pair of streams are apart from those of another.
        pair = waits.stream * num_streams + waits.other
        self.by_pair = _grouped(pair)
        self.floor = pair[self.by_pair] * (int(lengths.sum()) + count + 1)

    def of(self, needed: Flags) -> tuple[Ints, Ints]:
        """``bases`` and ``ended`` as in ``NeededWaits``, of all waits, if these are needed."""
        added = np.bincount(self.own[needed], minlength=self.before.size).reshape(self.shape)
        bases = self.before + np.cumsum(added, axis=0)
        ended = bases.ravel()[self.awaited] + self.waits.position
        among = offsets(needed[self.by_stream])
        tracks = self.before.ravel()[self.awaited[self.latest]]
        ended[self.latest] = tracks + among[self.last] - among[self.first]
        return bases, ended

    def unknown(self, ended: Ints) -> Flags:
        """Which waits are for more than all waits of the stream for the same other one before."""
        position = ended[self.by_pair] + self.floor
        known = self.floor.copy()
        known[1:] = np.maximum(known[1:], np.maximum.accumulate(position)[:-1])
        unknown = np.empty(len(ended), dtype=np.bool_)
        unknown[self.by_pair] = position > known
        return unknown


def _grouped(numbers: Ints) -> NDArray[np.intp]:
    """The order that brings equal numbers together and keeps it among them; small ones are sorted fast."""
    return np.argsort(numbers.astype(np.min_scalar_type(int(numbers.max(initial=0)))), kind="stable")
