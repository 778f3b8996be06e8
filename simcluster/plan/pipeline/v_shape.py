"""The actions of a stage with two chunks in a V-shaped pipeline, written kind by kind."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.pipeline.action import BACKWARD, FORWARD, INPUTS, WEIGHTS, Action


@dataclass
class StageActions:
    """The actions of a stage so far; actions of one kind and chunk take micro-batches in order."""

    actions: list[Action] = field(default_factory=list)
    """The actions, in order."""
    done: Counter[str] = field(default_factory=Counter)
    """Forwards, backwards (or their first halves) and weight gradients so far, by kind and chunk: ``F0``."""
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    """(chunk, micro-batch) of input gradients whose weight gradients have not run."""

    def do(self, text: str) -> None:
        """Appends actions: F0 and F1, B0, I1 and so on of a chunk; W0 of a chunk, W the oldest waiting one;
        F0&B1 an overlapped pair.
        """
        for word in text.split():
            first, *beside = [self._next(part) for part in word.split("&")]
            self.actions.append(first.overlapping(beside))

    def _next(self, word: str) -> Action:
        kind = word[0]
        if word == WEIGHTS:
            chunk, index = self.waiting.popleft()
            return Action(WEIGHTS, index, chunk)
        chunk = int(word[1:])
        if kind == WEIGHTS:
            index = self.done[word]
            self.waiting.remove((chunk, index))
            self.done[word] += 1
            return Action(WEIGHTS, index, chunk)
        counted = FORWARD if kind == FORWARD else BACKWARD
        index = self.done[f"{counted}{chunk}"]
        self.done[f"{counted}{chunk}"] += 1
        if kind == INPUTS:
            self.waiting.append((chunk, index))
        return Action(kind, index, chunk)

    def without(self, num_micro_batches: int) -> tuple[Action, ...]:
        """The actions without those of micro-batches from a number on."""
        kept = []
        for action in self.actions:
            halves = [half for half in action.parts if half.micro_batch < num_micro_batches]
            if len(halves) == 2:
                kept.append(action)
            else:
                kept += halves
        return tuple(kept)
