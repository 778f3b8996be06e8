"""What operators share that give elements of their inputs as they are: some of them, or in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import Labels, MemoryBound, MemoryPass, unit_dims
from simcluster.work import Kernel

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View(MemoryBound):
    """Base of these operators: ``labels`` are the dims of the larger tensor; every element is copied once."""

    labels: Labels

    family: ClassVar[str] = "copy"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.COPY)

    def part_labels(self, place: int, count: int) -> tuple[Labels, ...]:
        """The dims of ``count`` parts along the dim at ``place``, where each has a dim of its own."""
        return tuple(self.labels_with(place, f"{self.labels[place]}.{index}") for index in range(count))

    def labels_with(self, place: int, name: str) -> Labels:
        """The dims, the one at ``place`` called ``name``."""
        return resized(self.labels, place, name)

    def unsplittable(self, reason: str, *names: str) -> tuple[tuple[str, str], ...]:
        """Why these dims, and those of size 1, may not be split."""
        return (*((name, reason) for name in names), *unit_dims(self.labels))


def resized(sizes: Sequence[T], place: int, size: T) -> tuple[T, ...]:
    """A shape, or names of dims, with another one at ``place``."""
    return (*sizes[:place], size, *sizes[place + 1 :])
