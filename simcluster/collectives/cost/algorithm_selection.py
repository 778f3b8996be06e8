"""Which algorithm, protocol and channels a collective uses: the library's choice, or what is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from simcluster.collectives.algorithm import all_algorithms
from simcluster.collectives.operation import Operation
from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class CollectiveRequest:
    """What is written for a collective; ``auto`` and None leave it to the library.

    ``format`` is that of the numbers that it carries, where that is known: a network may not add up all.
    """

    algorithm: str = AUTO
    protocol: str = AUTO
    channels: int | None = None
    format: str = ""


@dataclass(frozen=True, slots=True)
class Override:
    """What collectives use whose name fits the pattern ``match``, if they can."""

    match: str
    wanted: CollectiveRequest


@dataclass(frozen=True, slots=True)
class Selection:
    """The named algorithms by operation; an operation that is absent uses the fastest.

    ``overrides`` are for collectives by name; of several that fit, the last counts.
    """

    named: tuple[tuple[Operation, str], ...] = ()
    overrides: tuple[Override, ...] = ()

    @classmethod
    def by(
        cls, algorithm: str, named: Mapping[Operation, str], overrides: tuple[Override, ...] = ()
    ) -> Selection:
        """``named`` where an operation has a name there, else ``algorithm`` where it can do the operation."""
        known = all_algorithms()
        able = known[algorithm].operations if algorithm != AUTO else frozenset()
        wanted = {operation: algorithm for operation in Operation if operation in able} | dict(named)
        chosen = tuple(
            (operation, wanted[operation]) for operation in Operation if wanted.get(operation, AUTO) != AUTO
        )
        return cls(chosen, overrides)

    def of(self, operation: Operation) -> str:
        """The algorithm of an operation, or ``auto``."""
        return dict(self.named).get(operation, AUTO)

    def wanted(self, operation: Operation, name: str) -> CollectiveRequest:
        """What a collective of this name uses."""
        request = CollectiveRequest(self.of(operation))
        for override in self.overrides:
            if matches(override.match, name):
                request = override.wanted
                if request.algorithm == AUTO:
                    request = replace(request, algorithm=self.of(operation))
        return request

    def unmatched(self, names: Iterable[str]) -> list[int]:
        """The indices of overrides that fit none of the names."""
        every = list(names)
        return [
            index
            for index, override in enumerate(self.overrides)
            if not any(matches(override.match, name) for name in every)
        ]

    def __str__(self) -> str:
        named = [f"{operation} by {kind}" for operation, kind in self.named]
        return ", ".join([*named, *(f"{override.match} overridden" for override in self.overrides)])


AUTOMATIC = Selection()
"""Every operation uses its fastest algorithm."""
