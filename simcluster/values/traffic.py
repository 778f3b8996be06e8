"""Bytes that cross between ranks, counted on arrays, against those of the instructions.

Arrays are those of the replay; their elements count as many bytes as the Program's formats say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from simcluster.collectives import Operation, UnequalParts
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimulationError
from simcluster.layout import Movement, MovementKind
from simcluster.model import Array, TensorSlice


def crossing_elements(movement: Movement, arrays: Sequence[Array], results: Sequence[Array]) -> int:
    """Elements that cross from one rank to another in an exchange, all members together.

    ``arrays`` are what the members bring, ``results`` what they end with. What is reduced crosses once per
    term but the owner's, and an all-reduce is a reduce-scatter and an all-gather.
    """
    others = len(arrays) - 1
    match movement.kind:
        case MovementKind.ALL_GATHER:
            return others * sum(array.size for array in arrays)
        case MovementKind.REDUCE_SCATTER:
            return others * sum(result.size for result in results)
        case MovementKind.ALL_REDUCE:
            # Equal arrays, whose n parts are each sent to the owner n - 1 times and come back as often.
            return others * (arrays[0].size + results[0].size)
        case MovementKind.BROADCAST | MovementKind.REDUCE:
            return others * arrays[0].size
        case MovementKind.ALL_TO_ALL:
            # Each sends every other one a part of equal length, padded where it does not divide.
            part = int(results[0].shape[movement.to_dim])
            rows = sum(int(array.size) // int(array.shape[movement.to_dim]) for array in arrays)
            return others * rows * part
        case MovementKind.ROTATE:
            return sum(array.size for array in arrays)
        case MovementKind.NEIGHBOR_EXCHANGE | MovementKind.SHIFT:
            return sum(_beside(movement, array) for array in arrays[:-1])
        case _:
            raise ValueError(f"nothing crosses in a {movement.kind}")


def _beside(movement: Movement, array: Array) -> int:
    """Elements that cross the border between a member and the next one, both ways together."""
    deep = sum(abs(to - now) for now, to in zip(movement.halo, movement.to_halo, strict=True))
    return deep * int(array.size // array.shape[movement.dim])


def check_collective(
    label: str, operation: Operation, num_bytes: int, ways: int, moved: int, parts: UnequalParts | None = None
) -> None:
    """SimulationError if ``moved`` bytes are not what a collective of ``num_bytes`` among ``ways`` moves.

    With ``parts`` of different sizes, ``num_bytes`` is a mean, and so no more exact than half a byte a rank.
    """
    due, exact = operation.copies(ways) * num_bytes, 0
    if parts is not None:
        away = int(parts.counts.sum()) - int(np.trace(parts.counts))
        due, exact = away * parts.share * num_bytes, ways
    if abs(due - moved) > exact:
        raise SimulationError(
            f"{label} counts {num_bytes:,} bytes, of which {due:,.0f} cross between its {ways} ranks, but "
            f"{moved:,} do"
        )


@dataclass
class InputBytes:
    """The bytes of the batch that every rank reads in every micro-batch, and those copied to it for one."""

    read: dict[tuple[int, int, int], dict[tuple[str, TensorSlice | None], int]] = field(default_factory=dict)
    copied: dict[int, int] = field(default_factory=dict)

    def check(self) -> None:
        """SimulationError if a rank with an input pipeline reads other than what is copied."""
        for (rank, step, micro_batch), feeds in self.read.items():
            read = sum(feeds.values())
            if self.copied.get(rank, read) != read:
                listed = ", ".join(f"{size:,} of {name}" for (name, _), size in feeds.items())
                raise SimulationError(
                    f"{self.copied[rank]:,} bytes of every micro-batch are copied to rank {rank}, but it "
                    f"reads {read:,} of micro-batch {micro_batch} of step {step}: {listed}"
                )
