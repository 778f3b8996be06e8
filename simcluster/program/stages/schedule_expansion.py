"""The actions of a part's timetable as executions, with what its stage receives and sends for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain as joined

from simcluster.plan import BACKWARD as B_ACTION
from simcluster.plan import FORWARD as F_ACTION
from simcluster.plan import INPUTS, Action
from simcluster.plan import RECOMPUTE as R_ACTION
from simcluster.plan import WEIGHTS as W_ACTION
from simcluster.program.isa import BlockExecution
from simcluster.program.lowering import BACKWARD, FORWARD, PREPARE, RECOMPUTE, WEIGHTS
from simcluster.program.stages.stage_boundary import BoundaryTensor
from simcluster.program.stages.stage_context import ONCE, StageContext

_PHASES = {
    F_ACTION: (FORWARD,),
    R_ACTION: (RECOMPUTE,),
    B_ACTION: (RECOMPUTE, BACKWARD, WEIGHTS),
    INPUTS: (RECOMPUTE, BACKWARD),
    W_ACTION: (WEIGHTS,),
}
"""The phases of each half of an action; what is computed again by an action of its own is so once."""


@dataclass(frozen=True)
class ScheduleExpansion:
    """Expands the actions of a timetable to the executions of a part, transfers included.

    ``overlapped`` posts receives one action ahead; otherwise transfers between two actions are posted
    together and waited for. ``reductions`` are those that come behind the last backward of an instance.
    """

    part: StageContext
    overlapped: bool
    reductions: Sequence[tuple[str, BlockExecution]]
    _moving: dict[tuple[int, int, bool, bool], list[tuple[int, str]]] = field(default_factory=dict)

    def executions(self) -> Iterator[BlockExecution]:
        """Every action with its transfers: receives one action ahead if overlapped, else just before.

        Transfers that are waited for are posted together where a forward and a backward follow each other.
        """
        halves = [half for action in self.part.actions for half in action.parts]
        begun = {half.chunk: half for half in reversed(halves) if half.kind == F_ACTION}
        over = {half.chunk: half for half in halves if half.kind in (B_ACTION, W_ACTION)}
        ends = {*begun.values(), *over.values()}
        turns = self._turns()
        posted = 0
        for index, turn in enumerate(turns):
            ahead = index + 2 if self.overlapped else index + 1
            for coming in (action for turn in turns[posted:ahead] for action in turn):
                yield from self._transfers(coming, sent=False)
            posted = max(posted, ahead)
            for action in turn:
                runs = [list(self._compute(half, str(action), at_end=half in ends)) for half in action.parts]
                yield from joined.from_iterable(runs[0] if len(runs) == 1 else _woven(runs))
            for action in turn:
                yield from self._transfers(action, sent=True)

    def _turns(self) -> list[tuple[Action, ...]]:
        """The actions between which nothing is sent or received.

        Each by itself; but where stages have chunks and wait for what they send, a forward and the backward
        behind it are one turn, as in Megatron (send_forward_backward_recv_forward_backward): with rounds
        through several chunks, a stage that waits for its gradient to be taken would hold up who takes it.
        Where all forwards come first, the last of them must be sent before anything comes back.
        """
        turns: list[tuple[Action, ...]] = []
        kinds = "".join(action.kind for action in self.part.actions)
        paired = not self.overlapped and len(self.part.chunks) > 1 and kinds.count(F_ACTION + B_ACTION) > 1
        for action in self.part.actions:
            if (
                paired
                and action.kind != F_ACTION
                and turns
                and [action.kind for action in turns[-1]] == [F_ACTION]
            ):
                turns[-1] = (*turns[-1], action)
            else:
                turns.append((action,))
        return turns

    # -- what crosses stages ----------------------------------------------------------------------------

    @cached_property
    def _crossing(self) -> Mapping[bool, Mapping[int, Sequence[BoundaryTensor]]]:
        """By chunk: what its forward sends (True), and what comes for it (False)."""
        crossings, stage = self.part.crossings, self.part.stage
        places = {chunk: crossings.chain.virtual[stage, chunk] for chunk in self.part.chunks}
        ends = {False: crossings.arrivals, True: crossings.departures}
        return {out: {chunk: list(ends[out](at)) for chunk, at in places.items()} for out in ends}

    def _transfers(self, action: Action, *, sent: bool) -> Iterator[BlockExecution]:
        """What is sent after an action and what overlaps it, or else what is received for them."""
        for part in action.parts:
            yield from self._moves(part, action, (part.kind == F_ACTION) == sent)

    def _moves(self, half: Action, action: Action, out: bool) -> Iterator[BlockExecution]:
        """Values or gradients at the end of a chunk at which its values go ``out``, or at the other."""
        if half.kind in (W_ACTION, R_ACTION):
            return
        key = (half.chunk, half.slice, half.kind == F_ACTION, out)
        if key not in self._moving:
            crossings = [tensor for tensor in self._crossing[out][half.chunk] if tensor.slice == half.slice]
            self._moving[key] = [self._transfer(tensor, half) for tensor in crossings]
        for code, buffer in self._moving[key]:
            yield BlockExecution(code, buffer, half.micro_batch, str(action))

    def _transfer(self, crossing: BoundaryTensor, half: Action) -> tuple[int, str]:
        """The code that moves a value, or its gradient, and the buffer it is in."""
        values = half.kind == F_ACTION
        stream = crossing.out if values else crossing.back
        buffer = crossing.buffer if values else f"{crossing.buffer}.grad"
        self.part.names[buffer, "value"] = buffer
        return self.part.codes.transfer(stream, crossing.block, crossing.value, gradient=not values), buffer

    # -- what is computed -------------------------------------------------------------------------------

    @cached_property
    def _ahead(self) -> set[tuple[int, int, int]]:
        """What an action of its own computes again."""
        halves = (half for action in self.part.actions for half in action.parts)
        return {half.unit for half in halves if half.kind == R_ACTION}

    def _compute(self, half: Action, action: str, *, at_end: bool) -> Iterator[list[BlockExecution]]:
        """A half of an action, code by code, each with what happens once a step around it; ``at_end``: it is
        the first forward or the last backward of its chunk.
        """
        part, phases = self.part, self._phases(half)
        forward, instances = half.kind == F_ACTION, part.slices[half.chunk, half.slice]
        for instance in instances if forward else instances[::-1]:
            block = part.graph.block_of(instance)
            runs = [
                [BlockExecution(code, instance.name, half.micro_batch, action, not self.overlapped)]
                for phase in phases
                for code in part.codes.run(block, phase)
            ] or [[]]
            if forward and at_end and PREPARE in (codes := part.codes_of(instance)):
                runs[0].insert(0, BlockExecution(codes[PREPARE], instance.name, ONCE, action))
            if at_end and not forward and not part.codes.policy.reduce_after_backward:
                runs[-1] += [
                    replace(run, action=action)
                    for ready, run in self.reductions
                    if ready == instance.weight_owner
                ]
            yield from runs

    def _phases(self, half: Action) -> tuple[str, ...]:
        """The phases that a half of an action runs."""
        phases = _PHASES[half.kind]
        ahead = half.kind != R_ACTION and half.unit in self._ahead
        return tuple(phase for phase in phases if phase != RECOMPUTE) if ahead else phases


def _woven(halves: Sequence[list[list[BlockExecution]]]) -> list[list[BlockExecution]]:
    """Overlapped actions: what they run in turns, evenly, each in its own order.

    What happens once a step stays with the code it belongs to: gradients are reduced behind the last of
    several copies, which is the last in its turn.
    """
    places = [((number + 0.5) / len(half), half[number]) for half in halves for number in range(len(half))]
    return [run for _, run in sorted(places, key=lambda place: place[0])]
