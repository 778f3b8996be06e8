"""How a search goes on: by halves, step by step while that improves, or in order until something fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from simcluster.deferred_dataclass import dataclass

Choice = TypeVar("Choice")


class _Fitting(Protocol):
    """What became of a trial."""

    @property
    def fits(self) -> bool: ...


Tried = TypeVar("Tried", bound=_Fitting)


@dataclass
class Bisection:
    """The first position that fits, between ``low``, which does not, and ``high``, which does.

    A ``guess`` is tried first, then the position next to it, then the middle of what is left.
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
        if self.low < tried < self.high:
            self.low, self.high = (self.low, tried) if fits else (tried, self.high)
        neighbour = self.guess is not None and not self.guessed
        self.guess, self.guessed = (tried + (-1 if fits else 1) if neighbour else None), True


def bisect(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The first position above ``low`` that fits; ``high`` is known to."""
    search = Bisection(low, high)
    while not search.done:
        search.tell(fits(search.position))
    return search.high


def climb(choice: Choice, step: Callable[[Choice], Choice]) -> Choice:
    """Where steps lead that each improve a choice: ``step`` gives a better one, or the same at the end."""
    while (better := step(choice)) != choice:
        choice = better
    return choice


def try_in_order(trials: Iterable[Tried], watch: Callable[[Tried], None] | None = None) -> list[Tried]:
    """Trials up to the first that fits, all of them if none does; ``watch`` is told of each."""
    tried: list[Tried] = []
    for trial in trials:
        tried.append(trial)
        if watch is not None:
            watch(trial)
        if trial.fits:
            break
    return tried
