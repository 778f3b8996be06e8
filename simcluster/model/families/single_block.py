"""Base of models of one block: graphs that a scenario writes, ONNX files."""

from __future__ import annotations

from typing import Self

from simcluster.model.model import Model
from simcluster.model.shard_counts import ShardCounts


class SingleBlockModel(Model):
    """Base of models of one block, which pipeline stages cannot share, with sizes that nothing changes."""

    __slots__ = ()

    @property
    def num_layers(self) -> int:
        """One: the block."""
        return 1

    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> Self:
        """Itself: how sizes depend on each other is unknown, so its small form has only a smaller batch."""
        return self
