"""Into how many parts a plan splits iteration dims, as a model is told to choose small sizes."""

from __future__ import annotations

from typing import Protocol


class ShardCounts(Protocol):
    """Into how many parts a plan splits iteration dims."""

    def __call__(self, dim: str, times: int = 1) -> int:
        """A size for ``dim``: so many times its parts, or one less where the plan pads it."""
        ...
