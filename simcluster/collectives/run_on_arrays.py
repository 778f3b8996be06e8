"""A collective carried out on NumPy arrays: the same steps that are timed move real chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import AlgorithmStep, Array, ChunkLayout, Routine
from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints

_HELD_BY_ROOT = (Operation.BROADCAST, Operation.SCATTER, Operation.SEND_RECEIVE)
_HELD_BY_OWNER = (Operation.ALL_GATHER, Operation.GATHER)
_WITH_NEIGHBORS = (Operation.NEIGHBOR_EXCHANGE, Operation.SHIFT, Operation.ROTATE)
_ALL_TO_ALL = (Operation.ALL_TO_ALL, Operation.ALL_TO_ALL_V)
_BY_RANK = (Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.GATHER, Operation.SCATTER)


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """What every rank of the group holds (None: nothing of its own), and how long the longest wait was.

    ``depth``: the most sends of which each needs what the one before it brought.
    """

    arrays: list[Array | None]
    depth: int


def run_on_rank_arrays(
    operation: Operation,
    routine: Routine,
    site: GroupSite,
    arrays: Sequence[Array],
    reduction: np.ufunc = np.add,
    counts: Ints | None = None,
) -> CollectiveResult:
    """What the group holds after a routine on ``arrays``, one per rank in the group's order, equal shapes.

    ``reduction`` is ``np.add`` or ``np.maximum``. ``counts`` [n, n] are the elements that each rank has for
    each, for the all-to-all with counts; its arrays are flat. What nobody sends, beyond the ends of a line of
    neighbours, is the reduction's neutral element. Raises ValueError if a first dim must divide by
    the ranks and does not, AssertionError if a step sends what its sender does not have.
    """
    run = _Run(operation, routine.cut, site, [np.asarray(array) for array in arrays], reduction, counts)
    for step in routine.steps:
        run.play(step)
    return CollectiveResult(run.results(), int(run.depth.max(initial=0)))


class _Run:
    """Elements of all chunks side by side for every node [nodes, elements], and which are there."""

    def __init__(
        self,
        operation: Operation,
        cut: ChunkLayout,
        site: GroupSite,
        arrays: list[Array],
        reduction: np.ufunc,
        counts: Ints | None,
    ) -> None:
        self.operation, self.cut, self.site, self.reduction = operation, cut, site, reduction
        self.ranks, self.counts = site.num_ranks, counts
        # From here on by the site's numbering; blocks too.
        self.arrays = [arrays[place] for place in site.order]
        self.lengths = self._lengths()
        whole = np.bincount(self.block_of_chunk, self.lengths, minlength=cut.blocks)
        self.block_sizes = whole.astype(np.int64)
        self.ends = np.cumsum(self.lengths)
        kind = np.result_type(*self.arrays)
        self.neutral = 0 if reduction is np.add else _least(kind)
        self.state = np.full((site.num_nodes, int(self.lengths.sum())), self.neutral, dtype=kind)
        self.have = np.zeros((site.num_nodes, cut.num_chunks), dtype=bool)
        self.depth = np.zeros((site.num_nodes, cut.num_chunks), dtype=np.int64)
        for rank in range(self.ranks):
            self._fill(rank)

    @property
    def block_of_chunk(self) -> Ints:
        return self.cut.block(np.arange(self.cut.num_chunks))

    def _lengths(self) -> Ints:
        """Elements of every chunk: its block's, shared out over the parts."""
        cut, size = self.cut, self.arrays[0].size
        if self.operation in _ALL_TO_ALL:
            if self.counts is None:
                self._must_divide()
                blocks = np.full(cut.blocks, size // self.ranks)
            else:
                blocks = self.counts[np.ix_(self.site.order, self.site.order)].ravel()
        elif self.operation in _HELD_BY_OWNER:
            blocks = np.full(cut.blocks, size)
        elif self.operation in _WITH_NEIGHBORS:
            blocks = _shared(np.array([size]), cut.blocks // self.ranks)[:, 0]
            blocks = np.tile(blocks, self.ranks)
        elif self.operation in _BY_RANK:
            self._must_divide()
            blocks = np.full(cut.blocks, size // self.ranks)
        else:
            blocks = _shared(np.array([size]), cut.blocks)[:, 0]
        parts = _shared(blocks, cut.parts)
        block = self.block_of_chunk
        return np.asarray(parts[np.arange(block.size) // cut.blocks, block], dtype=np.int64)

    def _must_divide(self) -> None:
        shape = self.arrays[0].shape
        if not shape or shape[0] % self.ranks:
            raise ValueError(f"a first dim that divides by {self.ranks} is needed, not the shape {shape}")

    def _fill(self, rank: int) -> None:
        """Puts in what a rank holds at the beginning."""
        flat, ranks = self.arrays[rank].ravel(), self.ranks
        if self.operation in _ALL_TO_ALL:
            begins = self._begins(self.counts[self.site.order[rank]]) if self.counts is not None else None
            for there in range(ranks):
                place = int(self.site.order[there])
                size = int(self.block_sizes[rank * ranks + there])
                begin = int(begins[place]) if begins is not None else place * size
                self._put(rank, rank * ranks + there, flat[begin : begin + size])
        elif self.operation in _HELD_BY_OWNER:
            self._put(rank, rank, flat)
        elif self.operation in _WITH_NEIGHBORS:
            halves = self.cut.blocks // ranks
            for half, part in enumerate(np.split(flat, np.cumsum(self.block_sizes[: halves - 1]))):
                self._put(rank, rank * halves + half, part)
        elif self.operation not in _HELD_BY_ROOT or rank == 0:
            begin = 0
            by_place = self.operation in _BY_RANK
            for block in range(self.cut.blocks):
                size = int(self.block_sizes[block])
                if by_place:
                    begin = int(self.site.order[block]) * size
                self._put(rank, block, flat[begin : begin + size])
                begin += size

    @staticmethod
    def _begins(counts: Ints) -> Ints:
        return np.asarray(np.cumsum(counts) - counts, dtype=np.int64)

    def _put(self, rank: int, block: int, data: Array) -> None:
        begin = 0
        for chunk in self._chunks_of(block):
            size = int(self.lengths[chunk])
            self.state[rank, self.ends[chunk] - size : self.ends[chunk]] = data[begin : begin + size]
            self.have[rank, chunk] = True
            begin += size

    def _chunks_of(self, block: int) -> list[int]:
        """The chunks of a block, part by part."""
        return np.flatnonzero(self.block_of_chunk == block).tolist()

    def play(self, step: AlgorithmStep) -> None:
        """All rounds of a step; each sends what was there when the round began."""
        src, dst = step.sends()
        turns = step.order()
        for number in range(step.repeat):
            chunks = step.chunks(number)
            if turns is None:
                self._send(step, src, dst, chunks)
                continue
            for turn in np.unique(turns):
                now = turns == turn
                self._send(step, src[now], dst[now], chunks[now])

    def _send(self, step: AlgorithmStep, src: Ints, dst: Ints, chunks: Ints) -> None:
        here, there = np.repeat(src, chunks.shape[1]), np.repeat(dst, chunks.shape[1])
        moved = chunks.ravel()
        assert self.have[here, moved].all(), "a step sends a chunk that its sender does not have"
        length = self.lengths[moved]
        within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        places = np.repeat(self.ends[moved] - length, length) + within
        sent = self.state[np.repeat(here, length), places]
        waits = self.depth[here, moved] + 1
        if step.combine:
            self.reduction.at(self.state, (np.repeat(there, length), places), sent)
        else:
            self.state[np.repeat(there, length), places] = sent
            self.depth[there, moved] = 0
        np.maximum.at(self.depth, (there, moved), waits)
        self.have[there, moved] = True

    def results(self) -> list[Array | None]:
        """What every rank of the group ends with, in the group's order."""
        results: list[Array | None] = [None] * self.ranks
        for rank in range(self.ranks):
            results[int(self.site.order[rank])] = self._result(rank)
        return results

    def _result(self, rank: int) -> Array | None:
        operation, ranks = self.operation, self.ranks
        inverse = np.argsort(self.site.order)
        if operation in _ALL_TO_ALL:
            shape = self.arrays[0].shape if self.counts is None else (-1,)
            return self._taken(rank, [int(src) * ranks + rank for src in inverse]).reshape(shape)
        first = self.arrays[0].shape
        if operation in _WITH_NEIGHBORS:
            return self._from_neighbors(rank, inverse).reshape(first)
        if operation in (Operation.GATHER, Operation.REDUCE) and rank:
            return None
        if operation in _HELD_BY_OWNER:
            taken = self._taken(rank, inverse.tolist())
            return taken.reshape(ranks * first[0], *first[1:]) if first else taken
        if operation in _BY_RANK:
            return self._taken(rank, [rank]).reshape(first[0] // ranks, *first[1:])
        return self._taken(rank, range(self.cut.blocks)).reshape(first)

    def _from_neighbors(self, rank: int, line: Ints) -> Array:
        """What a rank has of the one before it and, in an exchange, of the one behind it."""
        place, halves = int(self.site.order[rank]), self.cut.blocks // self.ranks
        around = self.operation is Operation.ROTATE
        blocks = [line[place - 1] * halves + halves - 1 if place or around else None]
        if halves == 2:
            blocks.append(line[place + 1] * halves if place + 1 < self.ranks else None)
        parts = []
        for half, block in enumerate(blocks):
            size = int(self.block_sizes[halves - 1 - half])
            parts.append(np.full(size, self.neutral) if block is None else self._taken(rank, [int(block)]))
        return np.concatenate(parts).astype(self.state.dtype)

    def _taken(self, rank: int, blocks: Sequence[int]) -> Array:
        parts = []
        for block in blocks:
            for chunk in self._chunks_of(block):
                assert self.have[rank, chunk], f"rank {rank} lacks chunk {chunk}"
                end = self.ends[chunk]
                parts.append(self.state[rank, end - self.lengths[chunk] : end])
        return np.concatenate(parts)


def _shared(sizes: Ints, parts: int) -> Ints:
    """Sizes shared out as equally as can be [parts, sizes]."""
    whole, more = np.divmod(sizes, parts)
    return np.asarray(whole + (np.arange(parts)[:, None] < more), dtype=np.int64)


def _least(kind: np.dtype) -> float | int:
    return int(np.iinfo(kind).min) if kind.kind in "iu" else -np.inf
