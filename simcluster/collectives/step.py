"""The steps of an algorithm as arrays: who sends which chunks to whom, and what waits for what.

One description serves values (``run_on_arrays`` moves chunks by it), loads on links (``traffic``) and time
(``cost``). Ranks are numbered as ``GroupSite`` numbers them; ids from its ``num_ranks`` on are switches.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints

Array: TypeAlias = NDArray[Any]

NO_HOPS = (0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkLayout:
    """How the bytes S are cut: ``blocks`` equal blocks, each in ``parts`` equal parts.

    Chunk ``part * blocks + slot`` is that part of block ``slots[part, slot]``, or of block ``slot`` where
    there are no ``slots``. S is one of ``arrays`` equal shares of them: all-to-all has n x n blocks, block
    ``src * n + dst``, of which a rank holds n, its S.
    """

    blocks: int
    parts: int = 1
    slots: Ints | None = None
    arrays: int = 1

    @property
    def num_chunks(self) -> int:
        """How many chunks there are."""
        return self.blocks * self.parts

    def block(self, chunks: Ints) -> Ints:
        """The block of each chunk."""
        part, slot = np.divmod(chunks, self.blocks)
        return slot if self.slots is None else self.slots[part, slot]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AlgorithmStep:
    """``repeat`` equal rounds that follow one another, in which sends happen at the same time.

    ``combine``: what arrives is reduced into what is there, else it takes its place. ``hops``: waits that all
    rounds together add, (inside a host, between hosts). ``streams``: its bytes flow while those of the step
    before it do, not after them. ``once``: a link carries a chunk once in a round, however many sends pass
    it there (switches reduce or copy on the way).
    """

    repeat: int = 1
    combine: bool = False
    hops: tuple[int, int] = NO_HOPS
    streams: bool = False
    once: bool = False

    @abstractmethod
    def sends(self) -> tuple[Ints, Ints]:
        """Sender and receiver of every send of a round [k]; the same in each round."""

    @abstractmethod
    def chunks(self, number: int) -> Ints:
        """The chunks of every send in round ``number`` [k, chunks of a send]."""

    def order(self) -> Ints | None:
        """The turn of every send within a round [k]; None where all go at once."""
        return None

    @property
    @abstractmethod
    def size(self) -> int:
        """Chunks of one send."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sends(AlgorithmStep):
    """Sends of runs of chunks that move on from round to round.

    In round t a send carries the chunks ``base + ((first + advance t + stride j) % modulus) width + w`` for j
    below ``count`` and w below ``width``.
    """

    src: Ints
    """Who sends [k]."""
    dst: Ints
    """Who receives [k]."""
    base: Ints | int = 0
    """The number of the first chunk that a send's run is counted from."""
    first: Ints | int = 0
    """Where in the run round 0 begins."""
    modulus: int
    """Runs that ``first`` moves around in."""
    advance: int = 0
    """By how many runs a send moves on from round to round."""
    count: int = 1
    """Runs of a send."""
    stride: int = 1
    """From one run of a send to the next."""
    width: int = 1
    """Chunks of a run."""
    turns: Ints | None = None
    """Sends of a later turn [k] pass on what those of earlier turns of the round brought, while all their
    bytes flow; None: all go at once."""

    def sends(self) -> tuple[Ints, Ints]:
        """See ``AlgorithmStep.sends``."""
        return self.src, self.dst

    def order(self) -> Ints | None:
        """See ``AlgorithmStep.order``."""
        return self.turns

    def chunks(self, number: int) -> Ints:
        """See ``AlgorithmStep.chunks``."""
        first = np.broadcast_to(np.asarray(self.first, dtype=np.int64), self.src.shape)[:, None]
        base = np.broadcast_to(np.asarray(self.base, dtype=np.int64), self.src.shape)[:, None, None]
        place = (first + self.advance * number + self.stride * np.arange(self.count)) % self.modulus
        chunks = base + place[:, :, None] * self.width + np.arange(self.width)
        return chunks.reshape(self.src.size, -1)

    @property
    def size(self) -> int:
        """See ``AlgorithmStep.size``."""
        return self.count * self.width


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupExchange(AlgorithmStep):
    """Every rank of a row of ``groups`` [m, q] sends to every other rank of its row.

    From column a to column b: the chunks ``out[:, a] + into[:, b] + stride j``, j below ``count``; ``out``
    and ``into`` are [m, q]. Loads are counted without listing the q (q - 1) sends of a row.
    """

    groups: Ints
    out: Ints
    into: Ints
    count: int = 1
    stride: int = 1

    def sends(self) -> tuple[Ints, Ints]:
        """See ``AlgorithmStep.sends``."""
        here, there = self._pairs()
        return self.groups[:, here].ravel(), self.groups[:, there].ravel()

    def chunks(self, number: int) -> Ints:
        """See ``AlgorithmStep.chunks``."""
        here, there = self._pairs()
        first = (self.out[:, here] + self.into[:, there]).reshape(-1, 1)
        return np.asarray(first + self.stride * np.arange(self.count), dtype=np.int64)

    @property
    def size(self) -> int:
        """See ``AlgorithmStep.size``."""
        return self.count

    def _pairs(self) -> tuple[Ints, Ints]:
        size = self.groups.shape[1]
        here, there = np.divmod(np.arange(size * size, dtype=np.int64), size)
        apart = here != there
        return here[apart], there[apart]


@dataclass(frozen=True, slots=True, eq=False)
class Routine:
    """An algorithm's steps for one operation and one site, and how they cut the bytes.

    ``evened``: who is root and who is leaf is nobody's own choice; links of a kind count as loaded as the
    busiest of them, so that ranks that the algorithm tells apart by their numbers only are alike.
    """

    cut: ChunkLayout
    steps: tuple[AlgorithmStep, ...]
    evened: bool = False

    @property
    def way(self) -> tuple[bytes, ...] | None:
        """Who sends to whom, if that is the same in all rounds; None if steps differ.

        Routines of one way load links alike, up to how much they send.
        """
        if any(isinstance(step, GroupExchange) for step in self.steps):
            return None
        ways = {tuple(ends.tobytes() for ends in step.sends()) for step in self.steps}
        return next(iter(ways)) if len(ways) == 1 else None

    @property
    def hops(self) -> tuple[int, int]:
        """The waits of all steps: (inside a host, between hosts)."""
        return sum(step.hops[0] for step in self.steps), sum(step.hops[1] for step in self.steps)
