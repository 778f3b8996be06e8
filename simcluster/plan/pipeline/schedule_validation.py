"""Whether a timetable can run: complete, without deadlock, and with equal orders on both ends
of a transfer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

from simcluster.errors import PlanError
from simcluster.plan.pipeline.action import BACKWARD, FORWARD, INPUTS, RECOMPUTE, WEIGHTS, Action, Timetable
from simcluster.plan.pipeline.virtual_stages import VirtualStages

PATH = "parallel.schedule"

_Done = tuple[str, int, int, int]
"""Kind of action, virtual stage, micro-batch and slice."""


def validate_schedule(
    timetable: Timetable, num_micro_batches: int, chain: VirtualStages | None = None, num_slices: int = 1
) -> None:
    """PlanError unless the timetable can run.

    Every slice of every micro-batch has to go once forward and once backward through every virtual stage, in
    an order without deadlock. Without a ``chain`` stages have one chunk each.
    """
    chain = chain or VirtualStages.round_robin(len(timetable))
    for stage, actions in enumerate(timetable):
        _complete(stage, actions, num_micro_batches, chain.num_chunks, num_slices)
    stuck = _run(timetable, chain, num_slices)
    if stuck:
        listed = "; ".join(f"stage {stage} at {action}" for stage, action in stuck)
        raise PlanError(f"the schedule cannot run to its end: {listed}", path=PATH)
    _agree(timetable, chain)


def _complete(
    stage: int, actions: tuple[Action, ...], num_micro_batches: int, num_chunks: int, num_slices: int
) -> None:
    done = Counter(half for action in actions for half in action.parts)
    both = {half.unit for half in done if half.kind == WEIGHTS}
    again = {half.unit for half in done if half.kind == RECOMPUTE}
    wanted: Counter[Action] = Counter()
    for chunk in range(num_chunks):
        for index in range(num_micro_batches):
            for part in range(num_slices):
                unit = (index, chunk, part)
                backward = (INPUTS, WEIGHTS) if unit in both else (BACKWARD,)
                kinds = (FORWARD, *(RECOMPUTE,) * (unit in again), *backward)
                wanted.update(Action(kind, *unit) for kind in kinds)
    if done != wanted:
        wrong = [f"{action} is missing" for action in (wanted - done)]
        wrong += [f"{action} is too much" for action in (done - wanted)]
        chunks = f" and {num_chunks} chunks" if num_chunks > 1 else ""
        slices = f" of {num_slices} slices" if num_slices > 1 else ""
        raise PlanError(
            f"stage {stage} must run F and B once for each of {num_micro_batches} micro-batches{slices}"
            f"{chunks}, but runs {_shown(actions)}: {_listed(wrong)}",
            path=PATH,
            hint="B3 may be written as I3 and W3, its two halves",
        )


def _shown(actions: tuple[Action, ...], most: int = 40) -> str:
    text = " ".join(map(str, actions[:most]))
    return text if len(actions) <= most else f"{text} ... ({len(actions)} actions)"


def _listed(wrong: list[str], most: int = 4) -> str:
    rest = len(wrong) - most
    return ", ".join([*wrong[:most], f"and {rest} more"] if rest > 0 else wrong)


def _run(timetable: Timetable, chain: VirtualStages, num_slices: int) -> list[tuple[int, Action]]:
    """Runs the actions by their dependencies; returns where each unfinished stage is stuck."""
    last = len(chain) - 1
    done: set[_Done] = set()
    position = [0] * len(timetable)
    again = {
        (chain.virtual[stage, half.chunk], half.micro_batch, half.slice)
        for stage, actions in enumerate(timetable)
        for action in actions
        for half in action.parts
        if half.kind == RECOMPUTE
    }

    def needs(half: Action, virtual: int) -> Iterator[_Done]:
        index, part = half.micro_batch, half.slice
        if half.kind == FORWARD:
            if virtual:
                yield FORWARD, virtual - 1, index, part
            if part:
                # The keys and values of what comes before in the sequence.
                yield FORWARD, virtual, index, part - 1
        elif half.kind == WEIGHTS:
            yield BACKWARD, virtual, index, part
        else:
            yield FORWARD, virtual, index, part
            if half.kind == RECOMPUTE:
                return
            if virtual < last:
                yield BACKWARD, virtual + 1, index, part
            if part + 1 < num_slices:
                yield BACKWARD, virtual, index, part + 1
            if (virtual, index, part) in again:
                yield RECOMPUTE, virtual, index, part

    moved = True
    while moved:
        moved = False
        for stage, actions in enumerate(timetable):
            while position[stage] < len(actions):
                halves = [(half, chain.virtual[stage, half.chunk]) for half in actions[position[stage]].parts]
                if not all(need in done for half, virtual in halves for need in needs(half, virtual)):
                    break
                for half, virtual in halves:
                    kind = BACKWARD if half.kind == INPUTS else half.kind
                    done.add((kind, virtual, half.micro_batch, half.slice))
                position[stage] += 1
                moved = True
    return [
        (stage, actions[position[stage]])
        for stage, actions in enumerate(timetable)
        if position[stage] < len(actions)
    ]


def _agree(timetable: Timetable, chain: VirtualStages) -> None:
    """PlanError unless both ends of what travels between two stages have the same order."""
    # Each with the chunk of the stage that makes it.
    sent: dict[tuple[int, int, bool], list[tuple[Action, int]]] = defaultdict(list)
    taken: dict[tuple[int, int, bool], list[tuple[Action, int]]] = defaultdict(list)
    last = len(chain) - 1
    for stage, actions in enumerate(timetable):
        for half in (half for action in actions for half in action.parts):
            if half.kind in (WEIGHTS, RECOMPUTE):
                continue
            forward, virtual = half.kind == FORWARD, chain.virtual[stage, half.chunk]
            after, before = (virtual + 1, virtual - 1) if forward else (virtual - 1, virtual + 1)
            for there, transfers, out in ((after, sent, True), (before, taken, False)):
                if 0 <= there <= last and chain.places[there][0] != stage:
                    other = chain.places[there][0]
                    ends = (stage, other) if out else (other, stage)
                    transfers[(*ends, forward)].append((half, chain.places[virtual if out else there][1]))
    for (one, other, forward), order in sent.items():
        got = taken[one, other, forward]
        for (half, chunk), (coming, its_chunk) in zip(order, got, strict=True):
            if (half.micro_batch, chunk, half.slice) != (coming.micro_batch, its_chunk, coming.slice):
                made, wanted = replace(half, chunk=chunk), replace(coming, chunk=its_chunk)
                raise PlanError(
                    f"stage {one} sends what {made} makes when stage {other} wants what {wanted} makes: both "
                    "must have the same order",
                    path=PATH,
                )
