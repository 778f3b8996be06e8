"""How far a running engine is."""

from __future__ import annotations

from collections.abc import Callable


class Progress:
    """How far a running engine is, for whoever watches from another thread."""

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self.doing = ""
        """What is done beside it, or in place of it; empty: nothing that would have to be told."""
        self._reached = 0, 0
        self._look: Callable[[], tuple[int, int]] | None = None

    def update(self, done: int, time: int) -> None:
        """Takes in how many entries have ended, and a time (ns) that has been reached."""
        self._reached = done, max(time, self._reached[1])

    def follow(self, look: Callable[[], tuple[int, int]]) -> None:
        """Asks for both from now on."""
        self._look = look

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return float((self._look() if self._look else self._reached)[1]) * 1e-9

    @property
    def done(self) -> int:
        """Entries that have ended."""
        return (self._look() if self._look else self._reached)[0]
