"""Which entries of a hand-written program each rank runs, and which ranks run the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simcluster.cluster import parse_index_list
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, Problem
from simcluster.model import Entry

RANKS = "ranks"
"""The key with the ranks that run an entry."""


@dataclass(frozen=True, slots=True)
class EntriesByRank:
    """The entries of a program with the ranks that run them."""

    entries: tuple[Entry, ...]
    """All entries, without the key for ranks."""
    of_rank: tuple[tuple[int, ...], ...]
    """For every rank the positions of its entries."""

    @classmethod
    def of(cls, entries: Sequence[Entry], num_ranks: int) -> EntriesByRank:
        """Reads who runs what; PlanError for ranks that do not exist, and for ranks that run nothing."""
        problems: list[Problem] = []
        runs: list[frozenset[int]] = []
        for entry in entries:
            ranks_of_entry = _ranks(entry, num_ranks)
            if isinstance(ranks_of_entry, Problem):
                problems.append(ranks_of_entry)
                ranks_of_entry = frozenset()
            runs.append(ranks_of_entry)
        if problems:
            raise PlanError(*problems)
        of_rank = tuple(
            tuple(place for place, ranks in enumerate(runs) if rank in ranks) for rank in range(num_ranks)
        )
        idle = [rank for rank, places in enumerate(of_rank) if not places]
        if idle:
            raise PlanError(
                f"rank {idle[0]} runs nothing, as do {len(idle) - 1} more"
                if idle[1:]
                else f"rank {idle[0]} runs nothing",
                path="operators",
                hint="let some operator run on it, or use a smaller mesh",
            )
        told = tuple(
            Entry(
                entry.path,
                entry.name,
                entry.op,
                entry.inputs,
                {key: value for key, value in entry.attributes.items() if key != RANKS},
            )
            for entry in entries
        )
        return cls(told, of_rank)

    def parts(self, details: Mapping[tuple[int, int], object]) -> list[list[int]]:
        """Lists of ranks that run the same, by the first rank of each.

        ``details``: (rank, position of an entry) -> arguments that differ between ranks.
        """
        ranks_by_key: dict[object, list[int]] = {}
        for rank, places in enumerate(self.of_rank):
            key = tuple((place, details.get((rank, place))) for place in places)
            ranks_by_key.setdefault(key, []).append(rank)
        return list(ranks_by_key.values())


def _ranks(entry: Entry, num_ranks: int) -> frozenset[int] | Problem:
    """The ranks that run an entry."""
    if RANKS not in entry.attributes:
        return frozenset(range(num_ranks))
    path, written = f"{entry.path}.{RANKS}", entry.attributes[RANKS]
    whole = isinstance(written, (list, tuple)) and all(type(item) is int for item in written)
    if not (type(written) is int or isinstance(written, str) or whole):
        return Problem(f"'{written}' are not ranks", path, "write for example 0-3, or [0, 2]")
    try:
        listed = parse_index_list(written)
    except ValueError as error:
        return Problem(str(error), path)
    absent = [rank for rank in listed if not 0 <= rank < num_ranks]
    if absent:
        return Problem(f"there is no rank {absent[0]}: the last is {num_ranks - 1}", path)
    return frozenset(listed)
