"""What a collective algorithm is: the steps that time it, and the same steps performed on arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

import numpy as np

from simcluster.cluster.span import Span
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Step
from simcluster.collectives.wire import Array, Wire
from simcluster.registry import kinds


class Algorithm(ABC):
    """A collective algorithm. It has no state: the group's shape and the bytes are handed in.

    ``kind`` names it in scenarios; ``operations`` are those it can do; ``automatic`` says whether it may be
    chosen where none is named.
    """

    kind: ClassVar[str]
    operations: ClassVar[frozenset[Operation]]
    automatic: ClassVar[bool] = True

    def supports(self, operation: Operation, span: Span) -> bool:
        """Whether it can do ``operation`` for a group of this shape (at least two ranks)."""
        return operation in self.operations and span.num_ranks >= 2

    @abstractmethod
    def steps(self, operation: Operation, span: Span, num_bytes: float) -> tuple[Step, ...]:
        """The steps in order, for ``num_bytes`` as ``Operation`` counts them."""

    @abstractmethod
    def run(
        self, operation: Operation, arrays: Sequence[Array], wire: Wire, reduction: np.ufunc = np.add
    ) -> list[Array]:
        """What every rank holds after ``operation`` on ``arrays`` (one per rank, equal shapes).

        Performs the steps, each transfer through ``wire``. ``reduction`` is ``np.add`` or ``np.maximum``.
        Raises ValueError if a first dim must divide by the ranks and does not.
        """


@cache
def all_algorithms() -> dict[str, Algorithm]:
    """Every registered algorithm by its kind."""
    # mypy: `kinds` finds concrete subclasses only, so the abstract base is never called.
    found = kinds("simcluster.collectives.algorithms", Algorithm)
    return {kind: found[kind]() for kind in sorted(found)}


def pieces(array: Array, count: int) -> list[Array]:
    """``array`` cut into ``count`` equal parts along its first dim; ValueError if it does not divide."""
    if array.ndim == 0 or array.shape[0] % count:
        raise ValueError(f"a first dim that divides by {count} is needed, not the shape {array.shape}")
    return np.split(array, count)


def channels(array: Array, count: int) -> list[Array]:
    """``array``, flat, in ``count`` parts as equal as can be: what each channel carries."""
    return np.array_split(array.ravel(), count)
