"""Which algorithm each operation uses: the fastest, or the one that somebody named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simcluster.collectives.algorithm import all_algorithms
from simcluster.collectives.cost import AUTO
from simcluster.collectives.operation import Operation


@dataclass(frozen=True, slots=True)
class Selection:
    """The named algorithms by operation; an operation that is absent uses the fastest."""

    named: tuple[tuple[Operation, str], ...] = ()

    @classmethod
    def by(cls, algorithm: str, named: Mapping[Operation, str]) -> Selection:
        """``named`` where an operation has a name there, else ``algorithm`` where it can do the operation."""
        known = all_algorithms()
        able = known[algorithm].operations if algorithm != AUTO else frozenset()
        wanted = {each: algorithm for each in Operation if each in able} | dict(named)
        return cls(tuple((each, wanted[each]) for each in Operation if wanted.get(each, AUTO) != AUTO))

    def of(self, operation: Operation) -> str:
        """The algorithm of an operation, or ``auto``."""
        return dict(self.named).get(operation, AUTO)

    def __str__(self) -> str:
        return ", ".join(f"{operation} by {kind}" for operation, kind in self.named)


AUTOMATIC = Selection()
"""Every operation uses its fastest algorithm."""
