"""The order of schedules in rounds of micro-batches, each round through all chunks of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simcluster.errors import PlanError
from simcluster.plan.pipeline.action import BACKWARD, FORWARD, Action
from simcluster.plan.pipeline.schedule import Schedule
from simcluster.plan.pipeline.virtual_stages import VirtualStages


@dataclass(frozen=True)
class SlicedChunkSchedule(Schedule):
    """A schedule whose stages have several chunks and work on slices of sequences."""

    chunks: int = 2
    slices: int = 2

    @property
    def num_slices(self) -> int:
        """As the scenario says."""
        return self.slices

    def chain(self, num_stages: int) -> VirtualStages:
        """Chunk c of stage s is virtual stage c x stages + s."""
        return VirtualStages.round_robin(num_stages, self.chunks)


def spread_rounds(num_micro_batches: int, size: int) -> list[int]:
    """Rounds of at least ``size`` micro-batches, if there are so many; the first take one more each."""
    count = max(1, num_micro_batches // size)
    round_size, left = divmod(num_micro_batches, count)
    return [round_size + (index < left) for index in range(count)]


def interleaved_actions(
    rounds: Sequence[int], chunks: int, warmup: int, slices: int = 1
) -> tuple[Action, ...]:
    """The actions of a stage: ``warmup`` forwards, then one forward one backward, then the backwards left.

    ``rounds`` are numbers of micro-batches. In each round all its micro-batches go through the first chunk,
    then all through the next; their backwards in the same order, with the last chunk first. Of a micro-batch
    in slices the first goes first, and backward the last one.
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
    """The actions of a stage whose micro-batches go in rounds with as many slices as there are stages.

    It begins with ``behind`` forwards for every stage behind it, besides those that fill its chunks and make
    up a sequence. PlanError where slices do not divide stages, or all of them are fewer, or there is one
    chunk.
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
