"""Whether a timetable can run: complete, without deadlock, and with equal orders on both ends
of a transfer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.number_arrays import Ints
from simcluster.plan.pipeline.action import BACKWARD, FORWARD, INPUTS, RECOMPUTE, WEIGHTS, Action, Timetable
from simcluster.plan.pipeline.virtual_stages import VirtualStages

PATH = "parallel.schedule"


_KINDS = (FORWARD, BACKWARD, INPUTS, WEIGHTS, RECOMPUTE)
_F, _B, _I, _W, _R = range(len(_KINDS))
_NUMBERS = np.zeros(128, dtype=np.int64)
_NUMBERS[[ord(kind) for kind in _KINDS]] = range(len(_KINDS))


def validate_schedule(
    timetable: Timetable, num_micro_batches: int, chain: VirtualStages | None = None, num_slices: int = 1
) -> None:
    """PlanError unless the timetable can run.

    Every slice of every micro-batch has to go once forward and once backward through every virtual stage, in
    an order without deadlock. Without a ``chain`` stages have one chunk each.
    """
    chain = chain or VirtualStages.round_robin(len(timetable))
    rows = []
    for stage, actions in enumerate(timetable):
        row = _Halves(stage, actions, num_micro_batches, chain, num_slices)
        if not row.is_complete:
            _refuse(stage, actions, num_micro_batches, chain.num_chunks, num_slices)
        rows.append(row)
    stuck = _run(rows)
    if stuck:
        listed = "; ".join(f"stage {stage} at {action}" for stage, action in stuck)
        raise PlanError(f"the schedule cannot run to its end: {listed}", path=PATH)
    _agree(rows, chain)


@dataclass(frozen=True)
class _Halves:
    """The halves of all actions of a stage in order, as columns."""

    stage: int
    actions: tuple[Action, ...]
    num_micro_batches: int
    chain: VirtualStages
    num_slices: int

    @cached_property
    def halves(self) -> list[Action]:
        """Every action apart from what it is overlapped with."""
        if any(action.overlapped_with for action in self.actions):
            return [half for action in self.actions for half in action.parts]
        return list(self.actions)

    @cached_property
    def kind(self) -> Ints:
        """Indices of ``_KINDS``."""
        letters = "".join([half.kind for half in self.halves]).encode()
        return np.asarray(_NUMBERS[np.frombuffer(letters, dtype=np.uint8)])

    @cached_property
    def units(self) -> Ints:
        """Micro-batch, chunk and slice [3, halves]."""
        units = [half.unit for half in self.halves]
        return np.array(units, dtype=np.int64).reshape(-1, 3).T

    @cached_property
    def unit(self) -> Ints:
        """A number for each unit."""
        return self._numbered(self.units[1])

    @cached_property
    def virtual(self) -> Ints:
        """The virtual stage of each."""
        virtual = [self.chain.virtual[self.stage, chunk] for chunk in range(self.chain.num_chunks)]
        return np.asarray(np.array(virtual, dtype=np.int64)[self.units[1]])

    @cached_property
    def work(self) -> Ints:
        """A number for the unit of each among those of all stages."""
        return self._numbered(self.virtual)

    @cached_property
    def is_complete(self) -> bool:
        """Whether every unit runs as often as it has to."""
        most = (self.num_micro_batches, self.chain.num_chunks, self.num_slices)
        if (self.units >= np.array(most)[:, None]).any():
            return False
        count = int(np.prod(most))
        times = np.bincount(self.kind * count + self.unit, minlength=len(_KINDS) * count)
        forward, backward, inputs, weights, again = times.reshape(len(_KINDS), count)
        return bool(
            (forward == 1).all()
            and (backward + weights == 1).all()
            and (inputs == weights).all()
            and (again <= 1).all()
        )

    def by_action(self, columns: Ints, nothing: int) -> list[list[int]]:
        """Columns [columns, halves] by action: those of all its halves, filled up with ``nothing``."""
        if len(self.halves) == len(self.actions):
            alone: list[list[int]] = columns.T.tolist()
            return alone
        halves = [len(action.parts) if action.overlapped_with else 1 for action in self.actions]
        action = np.repeat(np.arange(len(halves)), halves)
        number = np.arange(len(action)) - (np.cumsum(halves) - halves)[action]
        table = np.full((len(halves), max(halves), len(columns)), nothing, dtype=np.int64)
        table[action, number] = columns.T
        by_action: list[list[int]] = table.reshape(len(halves), -1).tolist()
        return by_action

    def transfers(self, *, out: bool) -> dict[tuple[int, bool], tuple[Ints, Ints]]:
        """By other stage and direction (forward or not), in the order of their first: the halves that send to
        it, or receive from it, and the chunk of the stage that makes what travels.
        """
        stages, chunks = np.array(self.chain.places, dtype=np.int64).T
        forward = self.kind == _F
        step = np.where(forward == out, 1, -1)
        there = self.virtual + step
        moves = (self.kind != _W) & (self.kind != _R) & (there >= 0) & (there < len(stages))
        which = np.flatnonzero(moves)
        which = which[stages[there[which]] != self.stage]
        key = stages[there[which]] * 2 + forward[which]
        keys, first = np.unique(key, return_index=True)
        maker = self.virtual if out else there
        by_key = {}
        for number in keys[np.argsort(first)].tolist():
            moved = which[key == number]
            by_key[number // 2, bool(number % 2)] = moved, chunks[maker[moved]]
        return by_key

    def _numbered(self, places: Ints) -> Ints:
        micro_batch, _, part = self.units
        return np.asarray((places * self.num_micro_batches + micro_batch) * self.num_slices + part)


def _refuse(
    stage: int, actions: tuple[Action, ...], num_micro_batches: int, num_chunks: int, num_slices: int
) -> None:
    """PlanError that says what a stage runs too often, or not often enough."""
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


def _run(rows: list[_Halves]) -> list[tuple[int, Action]]:
    """Runs the actions by their dependencies; returns where each unfinished stage is stuck."""
    ahead = rows[0].num_micro_batches * rows[0].num_slices
    count = len(rows[0].chain) * ahead
    again = np.zeros(count, dtype=np.bool_)
    for row in rows:
        again[row.work[row.kind == _R]] = True
    # The forward, backward and recomputation of every unit; what is there already, and what nobody needs.
    there, unneeded = 3 * count, 3 * count + 1
    done = bytearray(unneeded + 1)
    done[there] = True
    lines = []
    for row in rows:
        kind, work, virtual, part = row.kind, row.work, row.virtual, row.units[2]
        forward, back = kind == _F, (kind == _B) | (kind == _I)
        own = np.where(forward, there, np.where(kind == _W, work + count, work))
        near = np.where(forward & (virtual > 0), work - ahead, there)
        near = np.where(back & (virtual < len(row.chain) - 1), work + ahead + count, near)
        # Forward, the keys and values of what comes before in the sequence; backward, their gradients.
        beside = np.where(forward & (part > 0), work - 1, there)
        beside = np.where(back & (part < row.num_slices - 1), work + 1 + count, beside)
        recomputed = np.where(back & again[work], work + 2 * count, there)
        # Few schedules have more than these.
        others = [column for column in (beside, recomputed) if (column != there).any()]
        needs = row.by_action(np.stack([own, near, *others]), there)
        made = np.choose(kind, [work, work + count, work + count, unneeded, work + 2 * count])
        lines.append((needs, row.by_action(made[None], unneeded)))
    position = [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for stage, (needed, makes) in enumerate(lines):
            at = position[stage]
            while at < len(needed) and all(map(done.__getitem__, needed[at])):
                for number in makes[at]:
                    done[number] = True
                at += 1
            moved |= at > position[stage]
            position[stage] = at
    return [
        (row.stage, row.actions[at]) for row, at in zip(rows, position, strict=True) if at < len(row.actions)
    ]


def _agree(rows: list[_Halves], chain: VirtualStages) -> None:
    """PlanError unless both ends of what travels between two stages have the same order."""
    sent, taken = ([row.transfers(out=out) for row in rows] for out in (True, False))
    for stage, order in enumerate(sent):
        for (other, forward), (made, chunks) in order.items():
            wanted, theirs = taken[other][stage, forward]
            ours, coming = rows[stage].units[:, made], rows[other].units[:, wanted]
            ours[1], coming[1] = chunks, theirs
            unlike = np.flatnonzero((ours != coming).any(axis=0))
            if len(unlike):
                first = int(unlike[0])
                halves = rows[stage].halves[made[first]], rows[other].halves[wanted[first]]
                one, two = (
                    replace(half, chunk=int(chunk[first]))
                    for half, chunk in zip(halves, (chunks, theirs), strict=True)
                )
                raise PlanError(
                    f"stage {stage} sends what {one} makes when stage {other} wants what {two} makes: both "
                    "must have the same order",
                    path=PATH,
                )
