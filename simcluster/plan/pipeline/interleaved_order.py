"""Interleaved order: rounds of micro-batches, each of which goes through all chunks of a stage."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.plan.pipeline.action import BACKWARD, FORWARD, Action
from simcluster.plan.pipeline.schedule import Schedule
from simcluster.plan.pipeline.virtual_stages import VirtualStages


@dataclass(frozen=True)
class ChunkedSchedule(Schedule):
    """A schedule with several chunks on every stage."""

    chunks: int = 2

    def chain(self, num_stages: int) -> VirtualStages:
        """Chunk c of stage s is virtual stage c x stages + s."""
        return VirtualStages.round_robin(num_stages, self.chunks)


@dataclass(frozen=True)
class SlicedSchedule(Schedule):
    """A schedule of micro-batches in slices of the sequence."""

    slices: int = 2

    @property
    def num_slices(self) -> int:
        """As the scenario says."""
        return self.slices


def spread_rounds(num_micro_batches: int, size: int) -> list[int]:
    """Micro-batches per round: at least ``size``, if there are so many; the first rounds have one more."""
    count = max(1, num_micro_batches // size)
    round_size, left = divmod(num_micro_batches, count)
    return [round_size + (index < left) for index in range(count)]


def interleaved_actions(
    rounds: Sequence[int], chunks: int, warmup: int, slices: int = 1
) -> tuple[Action, ...]:
    """The actions of a stage: ``warmup`` forwards, then one forward one backward, then the remaining
    backwards.

    ``rounds`` are numbers of micro-batches. In each round all its micro-batches go through the first chunk,
    then all through the next; backwards in the same order of micro-batches, the last chunk first. Slices of a
    micro-batch go forward in order and backward in reverse order.
    """
    forwards: list[Action] = []
    backwards: list[Action] = []
    first = 0
    for count in rounds:
        for chunk in range(chunks):
            for index in range(first, first + count):
                forwards += [Action(FORWARD, index, chunk, part) for part in range(slices)]
                back = reversed(range(slices))
                backwards += [Action(BACKWARD, index, chunks - 1 - chunk, part) for part in back]
        first += count
    warmup = min(warmup, len(forwards))
    actions = forwards[:warmup]
    for forward, backward in zip(forwards[warmup:], backwards, strict=False):
        actions += [forward, backward]
    return (*actions, *backwards[len(forwards) - warmup :])


def sliced_interleaved_actions(
    stage: int, num_stages: int, num_micro_batches: int, chunks: int, slices: int, behind: int
) -> tuple[Action, ...]:
    """The actions of a stage in rounds that have as many slices as there are stages.

    A stage starts with ``behind`` forwards for every stage after it, besides those that fill its chunks and
    complete a sequence. PlanError if slices do not divide stages, if there are fewer slices than stages, or
    one chunk.
    """
    problem = ""
    if chunks < 2:
        problem, hint = "it interleaves chunks, but every stage has one", "write chunks: 2, or use seqpipe"
    elif num_stages % slices:
        ratio = f"{num_stages} / {slices} = {num_stages / slices:g}"
        problem = (
            f"{num_stages} stages are filled by no whole number of micro-batches of {slices} slices: {ratio}"
        )
        hint = "slices must divide the stages"
    elif slices * num_micro_batches < num_stages:
        problem = f"{num_micro_batches} micro-batches x {slices} slices are fewer than {num_stages} stages"
        hint = "increase training.global_batch or slices"
    if problem:
        raise PlanError(problem, path="parallel.schedule.kind", hint=hint)
    rounds = spread_rounds(num_micro_batches, num_stages // slices)
    warmup = behind * (num_stages - stage - 1) + (chunks - 1) * slices * rounds[0] + slices - 1
    return interleaved_actions(rounds, chunks, warmup, slices)
