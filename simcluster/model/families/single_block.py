"""Models that are one piece: written operator by operator, as somebody has them."""

from __future__ import annotations

from typing import Self

from simcluster.model.model import Model
from simcluster.model.shard_counts import ShardCounts


class SingleBlockModel(Model):
    """A model of one block that pipeline stages do not share, with sizes that nothing changes."""

    __slots__ = ()

    @property
    def num_layers(self) -> int:
        """One: it is one piece."""
        return 1

    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> Self:
        """The same: what its sizes depend on is unknown, so that only the batch can shrink."""
        return self
