"""1F1B with the vocabulary on all stages: when a stage runs its slices of the embedding and the output layer.

Every micro-batch does the same some time later, a building block repeated (arXiv 2411.05288). Times here are
in forwards of a stage; a backward lasts two. They fix the order of actions only: passes of the vocabulary
stand between two others, wherever their time falls into one.
"""

from __future__ import annotations

from collections.abc import Iterator

from simcluster.model import INPUT_LAYER, OUTPUT_LAYER
from simcluster.plan.pipeline.action import BACKWARD, FORWARD, Action
from simcluster.plan.pipeline.vocabulary import VocabularyMethod

PERIOD = 3
"""From one micro-batch to the next: a forward and a backward."""

AHEAD = 3
"""How long before its first forward an embedding is looked up, and behind its last backward its gradient is
added: within this time every stage ends a pass of another micro-batch.
"""


def vocabulary_actions(
    stage: int, num_stages: int, num_micro_batches: int, method: str
) -> tuple[Action, ...]:
    """The actions of a stage, in order."""
    block = list(_building_block(num_stages - 1 - stage, num_stages, method))
    timed = sorted(
        (begin + PERIOD * index, place, Action(kind, index, chunk))
        for place, (begin, kind, chunk) in enumerate(block)
        for index in range(num_micro_batches)
    )
    return tuple(action for _, _, action in timed)


def _building_block(behind: int, num_stages: int, method: str) -> Iterator[tuple[float, str, int]]:
    """When a micro-batch begins which pass, from its forward on the last stage on, on the stage that has so
    many stages behind it.
    """
    times = _interlaced if method == VocabularyMethod.INTERLACED else _two_barriers
    forward, logits, gradients, backward = times(behind)
    first, _, _, last = times(num_stages - 1)
    yield forward, FORWARD, 0
    yield logits, FORWARD, OUTPUT_LAYER
    yield gradients, BACKWARD, OUTPUT_LAYER
    yield backward, BACKWARD, 0
    yield first - AHEAD + 0.5, FORWARD, INPUT_LAYER
    yield last + AHEAD + 0.5, BACKWARD, INPUT_LAYER


def _two_barriers(behind: int) -> tuple[float, float, float, float]:
    """Every collective has time to overlap with a pass: hidden states after the forward, statistics after the
    logits, gradients after those of the logits. So a stage holds two micro-batches more than in 1F1B.
    """
    return -behind, 1.5, 3.5, 7 + 2 * behind


def _interlaced(behind: int) -> tuple[float, float, float, float]:
    """All stages are between two passes at once: forward and backward on one stage, backward and forward on
    the next. So a stage holds one and a half times as many micro-batches as in 1F1B.
    """
    pairs, odd = divmod(behind, 2)
    return -3 * pairs - 2 * odd, 0.5, 0.6, 1 + 6 * pairs + 4 * odd
