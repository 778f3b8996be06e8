"""Which slices of one plan's checkpoint the ranks of another plan need: ``rank_list_for_transform``."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.job.checkpoints.checkpoint_content import CheckpointContent, SavedTensor
from simcluster.job.checkpoints.tensor_slices import TensorSlices, common_elements
from simcluster.number_arrays import Ints


@dataclass(frozen=True, eq=False)
class SourceSlices:
    """What every rank of the ``target`` takes of the files of the ranks of the ``source``.

    Of source ranks with equal parts the first is read. A rank that needs a part takes what both have in
    common: the gathers and slices of the redistribution between the two layouts, done by reading.
    """

    source: CheckpointContent
    target: CheckpointContent

    def __post_init__(self) -> None:
        if lacking := self.target.missing_in(self.source):
            more = f", and {len(lacking) - 3:,} more" if len(lacking) > 3 else ""
            raise PlanError(f"the checkpoint cannot be loaded: {', '.join(lacking[:3])}{more}")

    @cached_property
    def _found(self) -> tuple[Ints, Ints]:
        """Bytes that every target rank reads, and the pairs (target rank, source rank), sorted [pairs, 2]."""
        read = np.zeros(self.target.mesh.num_ranks, dtype=np.int64)
        kinds: dict[object, tuple[SavedTensor, SavedTensor, int]] = {}
        for wanted in self.target.tensors:
            given = self.source.source_of(wanted)
            assert given is not None, "what is missing was refused"
            key = (wanted.shape, wanted.layout, id(wanted.ranks), given.layout, id(given.ranks))
            size = given.dtype.num_bytes(1) + (kinds[key][2] if key in kinds else 0)
            kinds[key] = (wanted, given, size)
        count = self.source.mesh.num_ranks
        needed = np.zeros(0, dtype=np.int64)
        # The most divided first: what has replicas is then taken from files that are read anyway.
        for wanted, given, size in sorted(
            kinds.values(), key=lambda kind: -kind[1].slices(self.source.mesh).num_parts
        ):
            target, theirs = wanted.slices(self.target.mesh), given.slices(self.source.mesh)
            part, other, elements = common_elements(theirs, target)
            per_part = np.zeros(target.num_parts, dtype=np.int64)
            np.add.at(per_part, part, elements)
            own = target.part_of_rank[wanted.ranks]
            read[wanted.ranks] += per_part[own] * size
            # Pairs of parts become pairs of a rank and a part: those of a part stand together.
            begins, ends = np.searchsorted(part, own), np.searchsorted(part, own, side="right")
            times = ends - begins
            pair = np.repeat(np.arange(len(own)), times)
            at = begins[pair] + np.arange(len(pair)) - np.repeat(np.cumsum(times) - times, times)
            ranks = wanted.ranks[pair]
            needed = np.union1d(
                needed, ranks * count + _holders(given, theirs, ranks, other[at], needed, count)
            )
        return read, np.stack([needed // count, needed % count], axis=1)

    @property
    def read_bytes(self) -> Ints:
        """Bytes that every target rank reads if it reads the slices that it needs alone, shape [ranks]."""
        return self._found[0]

    @cached_property
    def num_files(self) -> Ints:
        """Files that every target rank opens, shape [ranks]."""
        return np.bincount(self._found[1][:, 0], minlength=self.target.mesh.num_ranks)

    @cached_property
    def whole_file_bytes(self) -> Ints:
        """Bytes that every target rank reads if it reads the files that it needs whole, shape [ranks]."""
        target, theirs = self._found[1].T
        sizes = self.source.rank_bytes[theirs].astype(np.float64)
        total = np.bincount(target, weights=sizes, minlength=self.target.mesh.num_ranks)
        return np.asarray(np.rint(total), dtype=np.int64)

    def rank_list(self, rank: int) -> list[int]:
        """The source ranks whose files a target rank needs, rising."""
        pairs = self._found[1]
        low, high = np.searchsorted(pairs[:, 0], [rank, rank + 1])
        return [int(source) for source in pairs[low:high, 1]]


def _holders(
    given: SavedTensor, slices: TensorSlices, ranks: Ints, parts: Ints, needed: Ints, count: int
) -> Ints:
    """The source rank from which each of ``ranks`` takes a part of ``parts``.

    One whose file it needs already, else the one with its own number, else the first that has the part.
    ``needed`` are pairs so far, as target rank times ``count`` plus source rank, rising.
    """
    has = np.zeros(count, dtype=bool)
    has[given.ranks] = True
    held, first = np.unique(slices.part_of_rank[given.ranks], return_index=True)
    chosen = np.full(slices.num_parts, -1, dtype=np.int64)
    chosen[held] = given.ranks[first]
    same = ranks % count
    result = np.where(has[same] & (slices.part_of_rank[same] == parts), same, chosen[parts])
    source = needed % count
    there = needed[has[source]]
    # Rising pairs, so that the first of a key is the lowest source rank.
    keys, where = np.unique(
        there // count * slices.num_parts + slices.part_of_rank[there % count], return_index=True
    )
    wanted = ranks * slices.num_parts + parts
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    if len(keys):
        known = keys[place] == wanted
        result = np.where(known, (there % count)[where[place]], result)
    return result
