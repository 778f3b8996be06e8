"""Where something begins to fit: found with as few trials as halving takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Bisection:
    """The first position that fits, between ``low``, which does not, and ``high``, which does.

    A ``guess`` is tried first, then what is beside it, then the middle of what is left.
    """

    low: int
    high: int
    guess: int | None = None
    guessed: bool = False

    @property
    def done(self) -> bool:
        """Whether ``high`` is the first that fits."""
        return self.high - self.low < 2

    @property
    def position(self) -> int:
        """What to try next; the answer, once it is known."""
        wanted = (self.low + self.high) // 2 if self.guess is None else self.guess
        return self.high if self.done else min(max(wanted, self.low + 1), self.high - 1)

    def tell(self, fits: bool) -> None:
        """Whether that position fits."""
        tried = self.position
        if self.low < tried < self.high and fits:
            self.high = tried
        elif self.low < tried < self.high:
            self.low = tried
        beside = self.guess is not None and not self.guessed
        self.guess, self.guessed = (tried + (-1 if fits else 1) if beside else None), True


def bisect(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The first position above ``low`` that fits; ``high`` is known to."""
    search = Bisection(low, high)
    while not search.done:
        search.tell(fits(search.position))
    return search.high
