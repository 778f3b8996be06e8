"""Where the virtual stages of a pipeline lie: which stage holds which piece of the model.

A stage may hold several pieces, its chunks. In the order of the forward pass the pieces are *virtual stages*;
a micro-batch goes through all of them, and so several times through every stage.

    wrapped   4 stages, 2 chunks: virtual stages 0 4 | 1 5 | 2 6 | 3 7   (arXiv 2104.04473)
    folded    4 stages, 2 chunks: virtual stages 0 7 | 1 6 | 2 5 | 3 4   (arXiv 2405.15362, "V-shape")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

Each = TypeVar("Each")


@dataclass(frozen=True)
class VirtualStages:
    """The virtual stages in the order of the forward pass, each as (stage, chunk)."""

    places: tuple[tuple[int, int], ...]

    @classmethod
    def round_robin(cls, num_stages: int, num_chunks: int = 1) -> VirtualStages:
        """From the last stage on to the first again: chunk c of stage s is virtual stage c x stages + s."""
        return cls(tuple((stage, chunk) for chunk in range(num_chunks) for stage in range(num_stages)))

    @classmethod
    def v_shape(cls, num_stages: int) -> VirtualStages:
        """To the last stage and back again: the turn, and both ends of the model, are on one stage each."""
        there = [(stage, 0) for stage in range(num_stages)]
        return cls((*there, *((stage, 1) for stage in reversed(range(num_stages)))))

    def __len__(self) -> int:
        return len(self.places)

    @property
    def num_stages(self) -> int:
        """Stages, which are devices as far as a schedule is concerned."""
        return max(stage for stage, _ in self.places) + 1

    @property
    def num_chunks(self) -> int:
        """Pieces of the model on each stage."""
        return max(chunk for _, chunk in self.places) + 1

    @cached_property
    def virtual(self) -> dict[tuple[int, int], int]:
        """(stage, chunk) -> virtual stage."""
        return {place: number for number, place in enumerate(self.places)}

    @property
    def is_v_shape(self) -> bool:
        """Whether it comes back from the last stage to the first, so that values go both ways at once."""
        return self.places[-1][0] < self.num_stages - 1

    def step(self, virtual: int) -> int:
        """Where the virtual stage behind one lies: on the next stage (1), the one before (-1), or here (0).

        Behind the last stage is the first.
        """
        here, there = self.places[virtual][0], self.places[virtual + 1][0]
        step = there - here
        return step if abs(step) < 2 else -1 if step > 0 else 1

    def arrival(self, virtual: int) -> int:
        """The virtual stage with which a micro-batch came to the stage where it is now."""
        while virtual and not self.step(virtual - 1):
            virtual -= 1
        return virtual

    def by_chunk(self, each: Sequence[Each]) -> tuple[tuple[Each, ...], ...]:
        """What every virtual stage has, [chunk][stage]."""
        return tuple(
            tuple(each[self.virtual[stage, chunk]] for stage in range(self.num_stages))
            for chunk in range(self.num_chunks)
        )

    def by_virtual(self, each: Sequence[Sequence[Each]]) -> tuple[Each, ...]:
        """What is written [chunk][stage], by virtual stage."""
        return tuple(each[chunk][stage] for stage, chunk in self.places)
