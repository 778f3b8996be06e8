"""V-Half (arXiv 2405.15362): folded chunks and split backwards, with half of the activations of 1F1B."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.model import INPUT_LAYER, OUTPUT_LAYER
from simcluster.plan.pipeline import BACKWARD, FORWARD, INPUTS, WEIGHTS, Action, Schedule, VirtualStages

PERIOD = 6
"""Passes of a micro-batch on every stage: forward, backward and weight gradients of two chunks."""

THERE, BACK = 2, 1
"""How many passes a stage is behind its neighbour: on the way to the last stage, and on the way back."""


@dataclass(frozen=True)
class BuildingBlock:
    """When the passes of one micro-batch begin, in multiples of one; those of the next are ``PERIOD`` later.

    ``turns`` are the gaps between the four ways through the stages: forward there and back, and backward.
    """

    num_stages: int
    turns: tuple[int, int, int]

    def of(self, stage: int) -> dict[int, tuple[str, int]]:
        """When a stage begins which pass (kind, chunk)."""
        last, ahead = self.num_stages - 1, self.num_stages - 1 - stage
        back = THERE * last + self.turns[0]
        again = back + BACK * last + self.turns[1]
        end = again + THERE * last + self.turns[2]
        return {
            THERE * stage: (FORWARD, 0),
            back + BACK * ahead: (FORWARD, 1),
            again + THERE * stage: (INPUTS, 1),
            end + BACK * ahead: (INPUTS, 0),
        }

    def with_vocabulary(self) -> BuildingBlock:
        """The block where all stages share the vocabulary: each of two barriers between the last forward and
        the first backward takes as long as a micro-batch comes behind the one before (arXiv 2411.05288).
        """
        there, loss, back = self.turns
        return replace(self, turns=(there, loss + 2 * PERIOD, back))

    @property
    def vocabulary_passes(self) -> Iterator[tuple[int, str, int]]:
        """Behind which pass all stages have those of the vocabulary: when that begins, kind and chunk.

        Passes of a stage do not take equally long. So the passes that all stages share stand as late as
        the two barriers let them, and those of the embedding a period apart: stages that are ahead at one
        time and behind at another do not wait for each other at each of them.
        """
        last = self.num_stages - 1
        there = THERE * last + self.turns[0]
        loss = there + BACK * last
        end = loss + self.turns[1] + THERE * last + self.turns[2] + BACK * last
        yield -2 - PERIOD, FORWARD, INPUT_LAYER
        yield loss - 1 + PERIOD, FORWARD, OUTPUT_LAYER
        yield loss - 1 + 2 * PERIOD, BACKWARD, OUTPUT_LAYER
        yield end + 2 + PERIOD, BACKWARD, INPUT_LAYER

    @property
    def fits(self) -> bool:
        """Whether no stage has two passes at once, of whatever micro-batches."""
        return all(len({begin % PERIOD for begin in self.of(stage)}) == 4 for stage in range(self.num_stages))


@cache
def shortest_building_block(num_stages: int) -> BuildingBlock:
    """The block with the shortest gaps that fits."""
    blocks = (
        BuildingBlock(num_stages, (there, back, total - there - back))
        for total in count(3)
        for there in range(1, total - 1)
        for back in range(1, total - there)
    )
    return next(block for block in blocks if block.fits)


@dataclass(frozen=True)
class VHalf(Schedule):
    """Of an odd number of stages p + 1 chunks alive, of an even one p + 3, where 1F1B has 2 p; the bubble is
    7 (p - 1) / 2 forwards of a chunk, rounded up, if f = i = w, where that of 1F1B is 6 (p - 1).

    Every micro-batch does the same some time later: a building block repeated. A stage takes its passes in
    the order of their times, and weight gradients whenever there is nothing else to do. The gaps at the turns
    are the shortest that fit; those of the paper are not known here, nor how it squeezes begin and end.
    """

    kind: ClassVar[str] = "v_half"

    vocabulary: str | None = None

    def chain(self, num_stages: int) -> VirtualStages:
        """To the last stage and back: the loss is on the first."""
        return VirtualStages.v_shape(num_stages)

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """What the block of every micro-batch has begin at each time; weight gradients in between."""
        whole = shortest_building_block(num_stages)
        whole = whole.with_vocabulary() if self.vocabulary else whole
        block = whole.of(stage)
        shared: dict[int, list[Action]] = {}
        if self.vocabulary:
            for index in range(num_micro_batches):
                for begin, kind, chunk in whole.vocabulary_passes:
                    shared.setdefault(begin + PERIOD * index, []).append(Action(kind, index, chunk))
        passes = {
            begin + PERIOD * index: Action(kind, index, chunk)
            for begin, (kind, chunk) in block.items()
            for index in range(num_micro_batches)
        }
        actions: list[Action] = []
        waiting: deque[Action] = deque()
        for time in range(min(shared, default=0), max(*passes, *shared) + 1):
            action = passes.get(time)
            if action is not None:
                actions.append(action)
                waiting += [action] if action.kind == INPUTS else []
            elif waiting:
                actions.append(_weights(waiting.popleft()))
            actions += shared.get(time, [])
        return (*actions, *map(_weights, waiting))


def _weights(action: Action) -> Action:
    """The weight gradients behind a backward."""
    return Action(WEIGHTS, action.micro_batch, action.chunk)
