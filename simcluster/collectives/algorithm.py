"""A collective algorithm: one description of its steps, from which values, loads and times follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import ClassVar

from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Routine
from simcluster.registry import kinds


class Algorithm(ABC):
    """A collective algorithm. It has no state: the operation and where the group stands are handed in.

    ``kind`` names it in scenarios; ``operations`` are those it can do; ``chosen`` says, by communication
    library, for which of them the library may choose it; elsewhere it runs only where it is named.
    With ``own_protocols`` it needs a host that lists protocols for it: those of the ring say nothing of it.
    """

    kind: ClassVar[str]
    operations: ClassVar[frozenset[Operation]]
    own_protocols: ClassVar[bool] = False
    chosen: ClassVar[Mapping[str, frozenset[Operation]]] = {}

    def supports(self, operation: Operation, site: GroupSite) -> bool:
        """Whether it can do ``operation`` for such a group (of at least two ranks)."""
        return operation in self.operations and site.num_ranks >= 2

    def in_network(self, site: GroupSite) -> bool:
        """Whether switches of the network add up on the way."""
        return False

    @abstractmethod
    def steps(self, operation: Operation, site: GroupSite) -> Routine:
        """The steps in order, in parts of S as ``Operation`` counts it."""


@cache
def all_algorithms() -> dict[str, Algorithm]:
    """Every registered algorithm by its kind."""
    # mypy: `kinds` finds concrete subclasses only, so the abstract base is never called.
    algorithms = kinds("simcluster.collectives.algorithms", Algorithm)
    return {kind: algorithms[kind]() for kind in sorted(algorithms)}
