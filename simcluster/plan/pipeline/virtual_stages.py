"""Virtual stages of a pipeline: which stage holds which chunk of the model.

A stage may hold several chunks. In the order of the forward pass the chunks of all stages are *virtual
stages*; a micro-batch goes through all of them, and so several times through every stage.

    round robin   4 stages, 2 chunks: virtual stages 0 4 | 1 5 | 2 6 | 3 7   (arXiv 2104.04473)
    V-shape       4 stages, 2 chunks: virtual stages 0 7 | 1 6 | 2 5 | 3 4   (arXiv 2405.15362)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

from simcluster.deferred_dataclass import dataclass

Item = TypeVar("Item")


@dataclass(frozen=True)
class VirtualStages:
    """The virtual stages of a pipeline, in the order of the forward pass."""

    places: tuple[tuple[int, int], ...]
    """(stage, chunk) of every virtual stage."""

    @classmethod
    def round_robin(cls, num_stages: int, num_chunks: int = 1) -> VirtualStages:
        """Chunk c of stage s is virtual stage c x stages + s: after the last stage comes the first."""
        return cls(tuple((stage, chunk) for chunk in range(num_chunks) for stage in range(num_stages)))

    @classmethod
    def v_shape(cls, num_stages: int) -> VirtualStages:
        """To the last stage and back again: the first stage has both ends of the model (arXiv 2405.15362)."""
        there = [(stage, 0) for stage in range(num_stages)]
        return cls((*there, *((stage, 1) for stage in reversed(range(num_stages)))))

    def __len__(self) -> int:
        return len(self.places)

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return max(stage for stage, _ in self.places) + 1

    @property
    def num_chunks(self) -> int:
        """Chunks of the model on each stage."""
        return max(chunk for _, chunk in self.places) + 1

    @cached_property
    def virtual(self) -> dict[tuple[int, int], int]:
        """(stage, chunk) -> virtual stage."""
        return {place: number for number, place in enumerate(self.places)}

    @property
    def is_v_shape(self) -> bool:
        """Whether the order returns from the last stage to the first, so that activations go both ways at
        once.
        """
        return self.places[-1][0] < self.num_stages - 1

    def step(self, virtual: int) -> int:
        """Where the next virtual stage is: on the next stage (1), the previous one (-1), or the same (0).

        After the last stage comes the first.
        """
        here, there = self.places[virtual][0], self.places[virtual + 1][0]
        step = there - here
        return step if abs(step) < 2 else -1 if step > 0 else 1

    def arrival(self, virtual: int) -> int:
        """The virtual stage with which a micro-batch arrived at the stage of this one."""
        while virtual and not self.step(virtual - 1):
            virtual -= 1
        return virtual

    def by_chunk(self, items: Sequence[Item]) -> tuple[tuple[Item, ...], ...]:
        """Items of virtual stages as [chunk][stage]."""
        return tuple(
            tuple(items[self.virtual[stage, chunk]] for stage in range(self.num_stages))
            for chunk in range(self.num_chunks)
        )

    def by_virtual(self, items: Sequence[Sequence[Item]]) -> tuple[Item, ...]:
        """Items given as [chunk][stage], by virtual stage."""
        return tuple(items[chunk][stage] for stage, chunk in self.places)
