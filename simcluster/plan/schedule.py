"""A schedule is text: per stage a list of actions (DESIGN 4.5).

    F3      forward of micro-batch 3          I3 W3   its backward in two halves: inputs, weights
    B3      backward of micro-batch 3         R3      recompute
    F3c1    chunk 1 of the stage              F3s2    sequence slice 2
    F3&B1   actions overlapped: two, or more

Text and object are inverses of each other.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from simcluster.errors import PlanError
from simcluster.plan.chain import Chain

FORWARD, BACKWARD = "F", "B"
INPUTS, WEIGHTS = "I", "W"

_ACTION = re.compile(r"([FBIWR])(\d+)(?:c(\d+))?(?:s(\d+))?")


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a stage does with one micro-batch; ``beside`` is an action that overlaps it, and may itself
    have one beside it.
    """

    kind: str
    micro_batch: int
    chunk: int = 0
    slice: int = 0
    beside: Action | None = None

    @classmethod
    def parse(cls, text: str) -> Action:
        """The action written ``text``; PlanError with the accepted form otherwise."""
        first, _, rest = text.strip().partition("&")
        match = _ACTION.fullmatch(first)
        if match is None or text.strip().endswith("&"):
            raise PlanError(
                f"'{text}' is no action",
                hint="write F3, B3, I3, W3 or R3, with c1 (chunk), s2 (slice), F3&B1",
            )
        kind, micro_batch, chunk, part = match.groups()
        beside = cls.parse(rest) if rest else None
        return cls(kind, int(micro_batch), int(chunk or 0), int(part or 0), beside)

    def __str__(self) -> str:
        chunk = f"c{self.chunk}" if self.chunk else ""
        part = f"s{self.slice}" if self.slice else ""
        beside = f"&{self.beside}" if self.beside else ""
        return f"{self.kind}{self.micro_batch}{chunk}{part}{beside}"

    @property
    def halves(self) -> tuple[Action, ...]:
        """The action alone, and what overlaps it."""
        return (self,) if self.beside is None else (replace(self, beside=None), *self.beside.halves)

    def overlapping(self, others: Sequence[Action]) -> Action:
        """The action with others beside it."""
        return replace(self, beside=others[0].overlapping(others[1:]) if others else None)


Timetable = tuple[tuple[Action, ...], ...]
"""Per stage, the actions in order."""


@dataclass(frozen=True)
class Schedule(ABC):
    """A rule that gives every stage its actions; one file in ``schedules/`` each.

    What a schedule lets the user choose are fields of its class, called as in the scenario.
    """

    kind: ClassVar[str]

    @abstractmethod
    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """The actions of one stage in order."""

    def chain(self, num_stages: int) -> Chain:
        """Where the virtual stages lie."""
        return Chain.wrapped(num_stages)

    def timetable(self, num_stages: int, num_micro_batches: int) -> Timetable:
        """The actions of every stage, checked."""
        found = tuple(self.stage(stage, num_stages, num_micro_batches) for stage in range(num_stages))
        check(found, num_micro_batches, self.chain(num_stages))
        return found


def parse(text: str) -> Timetable:
    """The timetable written one line per stage, actions apart by blanks."""
    return tuple(tuple(Action.parse(word) for word in line.split()) for line in text.strip().splitlines())


def render(timetable: Timetable) -> str:
    """The text ``parse`` reads."""
    return "\n".join(" ".join(map(str, actions)) for actions in timetable)


def forward_only(num_stages: int, num_passes: int, num_micro_batches: int) -> Timetable:
    """All micro-batches go forward, one pass behind the other; passes are chunks (``Chain.wrapped``)."""
    passes = range(num_passes)
    actions = tuple(Action(FORWARD, each, chunk) for chunk in passes for each in range(num_micro_batches))
    return (actions,) * num_stages


def splits(timetable: Timetable) -> bool:
    """Whether any backward is done in two halves."""
    return any(half.kind == WEIGHTS for actions in timetable for each in actions for half in each.halves)


def peaks(timetable: Timetable) -> list[int]:
    """Per stage the most activations alive at once: of one micro-batch and chunk each, until the last half of
    its backward.
    """
    found = []
    for actions in timetable:
        alive = most = 0
        halves = [half for action in actions for half in action.halves]
        split = {(half.micro_batch, half.chunk) for half in halves if half.kind == WEIGHTS}
        for half in halves:
            last = WEIGHTS if (half.micro_batch, half.chunk) in split else BACKWARD
            alive += (half.kind == FORWARD) - (half.kind == last)
            most = max(most, alive)
        found.append(most)
    return found


def check(timetable: Timetable, num_micro_batches: int, chain: Chain | None = None) -> None:
    """PlanError unless every micro-batch goes once each way through every virtual stage, in an order that can
    run; without a ``chain`` stages have one chunk each.
    """
    chain = chain or Chain.wrapped(len(timetable))
    for stage, actions in enumerate(timetable):
        _complete(stage, actions, num_micro_batches, chain.num_chunks)
    stuck = _run(timetable, chain)
    if stuck:
        listed = "; ".join(f"stage {stage} at {action}" for stage, action in stuck)
        raise PlanError(f"the schedule cannot run to its end: {listed}", path=PATH)
    _agree(timetable, chain)


PATH = "parallel.schedule"


def _complete(stage: int, actions: tuple[Action, ...], num_micro_batches: int, num_chunks: int) -> None:
    done = Counter(half for action in actions for half in action.halves)
    both = {Action(INPUTS, each.micro_batch, each.chunk) for each in done if each.kind == WEIGHTS}
    wanted: Counter[Action] = Counter()
    for chunk in range(num_chunks):
        for index in range(num_micro_batches):
            inputs = Action(INPUTS, index, chunk)
            backward = (
                (inputs, replace(inputs, kind=WEIGHTS))
                if inputs in both
                else (replace(inputs, kind=BACKWARD),)
            )
            wanted.update((replace(inputs, kind=FORWARD), *backward))
    if done != wanted:
        wrong = [f"{each} is missing" for each in (wanted - done)]
        wrong += [f"{each} is too much" for each in (done - wanted)]
        chunks = f" and {num_chunks} chunks" if num_chunks > 1 else ""
        raise PlanError(
            f"stage {stage} must run F and B once for each of {num_micro_batches} micro-batches{chunks}, but "
            f"runs {_shown(actions)}: {_listed(wrong)}",
            path=PATH,
            hint="B3 may be written as I3 and W3, its two halves",
        )


def _shown(actions: tuple[Action, ...], most: int = 40) -> str:
    text = " ".join(map(str, actions[:most]))
    return text if len(actions) <= most else f"{text} ... ({len(actions)} actions)"


def _listed(wrong: list[str], most: int = 4) -> str:
    rest = len(wrong) - most
    return ", ".join([*wrong[:most], f"and {rest} more"] if rest > 0 else wrong)


def _run(timetable: Timetable, chain: Chain) -> list[tuple[int, Action]]:
    """Runs the actions by their dependencies; returns where each unfinished stage is stuck."""
    last = len(chain) - 1
    done: set[tuple[str, int, int]] = set()
    position = [0] * len(timetable)

    def needs(half: Action, virtual: int) -> Iterator[tuple[str, int, int]]:
        index = half.micro_batch
        if half.kind == FORWARD:
            if virtual:
                yield FORWARD, virtual - 1, index
        elif half.kind == WEIGHTS:
            yield BACKWARD, virtual, index
        else:
            yield FORWARD, virtual, index
            if virtual < last:
                yield BACKWARD, virtual + 1, index

    moved = True
    while moved:
        moved = False
        for stage, actions in enumerate(timetable):
            while position[stage] < len(actions):
                halves = [
                    (each, chain.virtual[stage, each.chunk]) for each in actions[position[stage]].halves
                ]
                if not all(need in done for half, virtual in halves for need in needs(half, virtual)):
                    break
                for half, virtual in halves:
                    kind = BACKWARD if half.kind == INPUTS else half.kind
                    done.add((kind, virtual, half.micro_batch))
                position[stage] += 1
                moved = True
    return [
        (stage, actions[position[stage]])
        for stage, actions in enumerate(timetable)
        if position[stage] < len(actions)
    ]


def _agree(timetable: Timetable, chain: Chain) -> None:
    """PlanError unless both ends of what travels between two stages have the same order."""
    sent: dict[tuple[int, int, bool], list[Action]] = defaultdict(list)
    taken: dict[tuple[int, int, bool], list[Action]] = defaultdict(list)
    last = len(chain) - 1
    for stage, actions in enumerate(timetable):
        for half in (half for action in actions for half in action.halves if half.kind != WEIGHTS):
            forward, virtual = half.kind == FORWARD, chain.virtual[stage, half.chunk]
            after, before = (virtual + 1, virtual - 1) if forward else (virtual - 1, virtual + 1)
            for there, found, out in ((after, sent, True), (before, taken, False)):
                if 0 <= there <= last and chain.places[there][0] != stage:
                    other = chain.places[there][0]
                    ends = (stage, other) if out else (other, stage)
                    maker = replace(half, chunk=chain.places[virtual if out else there][1])
                    found[(*ends, forward)].append(maker)
    for (one, other, forward), order in sent.items():
        got = taken[one, other, forward]
        for made, wanted in zip(order, got, strict=True):
            if (made.micro_batch, made.chunk) != (wanted.micro_batch, wanted.chunk):
                raise PlanError(
                    f"stage {one} sends what {made} makes when stage {other} wants what {wanted} makes: both "
                    "must have the same order",
                    path=PATH,
                )
