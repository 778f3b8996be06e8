"""How a group of ranks lies on the hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ranks: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A group's shape on the cluster: all that a collective's time depends on beside its bytes.

    ``ranks_per_host`` and ``fewest_per_host`` are the most and the fewest ranks on any of its hosts;
    ``rails`` is the number of network cards that the group can use on every one of its hosts.
    """

    num_ranks: int
    num_hosts: int
    ranks_per_host: int
    fewest_per_host: int
    rails: int

    @classmethod
    def even(cls, num_hosts: int, ranks_per_host: int, rails: int | None = None) -> Span:
        """A group with equally many ranks on each of its hosts, one rail per rank unless told otherwise."""
        ranks = num_hosts * ranks_per_host
        return cls(
            ranks, num_hosts, ranks_per_host, ranks_per_host, ranks_per_host if rails is None else rails
        )


def spans(groups: Ranks, devices_per_host: int, nics_per_host: int) -> tuple[list[Span], NDArray[np.intp]]:
    """The different spans among ``groups`` [num_groups, size], and for each group the index of its span.

    Rank r sits on host ``r // devices_per_host``; the device at place i of a host uses network card
    ``i * nics_per_host // devices_per_host``. Spans are sorted, so the answer does not depend on the order
    in which they are met.
    """
    num_groups, size = groups.shape
    ordered = np.sort(groups, axis=1)
    hosts = ordered // devices_per_host
    nics = hosts * nics_per_host + ordered % devices_per_host * nics_per_host // devices_per_host
    host_starts = np.flatnonzero(_starts(hosts))
    ranks_on_host = np.diff(host_starts, append=num_groups * size)
    rails_on_host = np.add.reduceat(_starts(nics).ravel(), host_starts)
    group_starts = np.searchsorted(host_starts, np.arange(num_groups) * size)
    rows = np.stack(
        [
            np.diff(group_starts, append=host_starts.size),
            np.maximum.reduceat(ranks_on_host, group_starts),
            np.minimum.reduceat(ranks_on_host, group_starts),
            np.minimum.reduceat(rails_on_host, group_starts),
        ],
        axis=1,
    )
    different, index = np.unique(rows, axis=0, return_inverse=True)
    return [Span(size, *map(int, row)) for row in different], index.reshape(num_groups)


def _starts(values: Ranks) -> NDArray[np.int64]:
    """1 where a row's value differs from the one before it, and at the start of every row."""
    starts = np.ones(values.shape, dtype=np.int64)
    starts[:, 1:] = values[:, 1:] != values[:, :-1]
    return starts
