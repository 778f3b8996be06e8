"""The actions of a part's timetable as executions, with what its stage receives and sends for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model import OUTPUT_LAYER
from simcluster.number_arrays import Ints
from simcluster.plan import BACKWARD as B_ACTION
from simcluster.plan import FORWARD as F_ACTION
from simcluster.plan import INPUTS, Action
from simcluster.plan import RECOMPUTE as R_ACTION
from simcluster.plan import WEIGHTS as W_ACTION
from simcluster.program.isa import OF_RUN, BlockExecution, Executions
from simcluster.program.lowering import BACKWARD, FORWARD, PREPARE, RECOMPUTE, WEIGHTS
from simcluster.program.stages.stage_boundary import BoundaryTensor
from simcluster.program.stages.stage_context import ONCE, StageContext
from simcluster.program.stages.vocabulary_transfers import around_pass

Half = tuple[str, int, int, bool, bool]
"""Kind, chunk and slice of a half of an action, whether it was recomputed ahead by an action of its own, and
whether it is the first forward or the last backward of its chunk."""

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

    def executions(
        self, before: Sequence[BlockExecution] = (), after: Sequence[BlockExecution] = ()
    ) -> Executions:
        """Every action with its transfers: receives one action ahead if overlapped, else just before.

        Transfers that are waited for are posted together where a forward and a backward follow each other.
        All stand between executions ``before`` and ``after``.
        """
        actions, turn = self.part.actions, self._turns()
        count = len(actions)
        # Of every action what is received for it, what it computes and what is sent after it.
        due = np.concatenate([np.maximum(turn - self.overlapped, 0) * 3, turn * 3 + 1, turn * 3 + 2])
        order = np.argsort(due, kind="stable")
        shapes: dict[tuple[Half, ...], int] = {}
        shape = np.array(
            [shapes.setdefault(halves, len(shapes)) for halves in self._shapes()], dtype=np.int64
        )
        parts = list(shapes)
        key = order // count * len(parts) + shape[order % count]
        patterns: list[Sequence[BlockExecution]] = [before, after]
        keys, first = np.unique(key, return_index=True)
        number = np.zeros(3 * len(parts), dtype=np.int64)
        for needed in keys[np.argsort(first)].tolist():
            # Codes of transfers are lowered, and numbered, in the order in which they are needed.
            what, which = divmod(needed, len(parts))
            number[needed] = len(patterns)
            computed = what == 1
            patterns.append(
                self._compute(parts[which]) if computed else self._transfers(parts[which], sent=what == 2)
            )
        runs = np.concatenate([[0], number[key], [1]])
        action = np.concatenate([[0], order % count, [0]])
        width = max(map(len, parts), default=1)
        batches = [
            [half.micro_batch for half in one.parts] if one.overlapped_with else [one.micro_batch]
            for one in actions
        ]
        if width > 1:
            batches = [row + [ONCE] * (width - len(row)) for row in batches]
        micro_batches = np.array(batches or [[ONCE]], dtype=np.int64)[action]
        return Executions.repeated(patterns, runs, micro_batches, list(map(str, actions)), action)

    def _shapes(self) -> Iterator[tuple[Half, ...]]:
        """By action its halves."""
        halves = [half for action in self.part.actions for half in action.parts]
        ahead = {half.unit for half in halves if half.kind == R_ACTION}
        begun = {half.chunk: half.unit for half in reversed(halves) if half.kind == F_ACTION}
        over = {half.chunk: half for half in halves if half.kind in (B_ACTION, W_ACTION)}
        ends = {
            *((F_ACTION, unit) for unit in begun.values()),
            *((half.kind, half.unit) for half in over.values()),
        }

        def seen(half: Action) -> Half:
            unit = half.unit
            return half.kind, half.chunk, half.slice, unit in ahead, (half.kind, unit) in ends

        for action in self.part.actions:
            yield tuple(map(seen, action.parts)) if action.overlapped_with else (seen(action),)

    def _turns(self) -> Ints:
        """By action the number of its turn: nothing is sent or received within one.

        Each is one by itself; but where stages have chunks and wait for what they send, a forward and the
        backward behind it are one turn, as in Megatron (send_forward_backward_recv_forward_backward): with
        rounds through several chunks, a stage that waits for its gradient to be taken would hold up who takes
        it. Where all forwards come first, the last of them must be sent before anything comes back.
        """
        kinds = "".join([action.kind for action in self.part.actions])
        begins = np.ones(len(kinds), dtype=np.int64)
        if (
            not self.overlapped
            and self.part.crossings.chain.num_chunks > 1
            and kinds.count(F_ACTION + B_ACTION) > 1
        ):
            for place in range(1, len(kinds)):
                begins[place] = kinds[place] == F_ACTION or kinds[place - 1] != F_ACTION
        return np.cumsum(begins) - 1

    # -- what crosses stages ----------------------------------------------------------------------------

    @cached_property
    def _crossing(self) -> Mapping[bool, Mapping[int, Sequence[BoundaryTensor]]]:
        """By chunk: what its forward sends (True), and what comes for it (False)."""
        crossings, stage = self.part.crossings, self.part.stage
        chunks = [chunk for chunk in self.part.chunks if chunk >= 0]
        places = {chunk: crossings.chain.virtual[stage, chunk] for chunk in chunks}
        ends = {False: crossings.arrivals, True: crossings.departures}
        return {out: {chunk: list(ends[out](at)) for chunk, at in places.items()} for out in ends}

    def _transfers(self, halves: Sequence[Half], *, sent: bool) -> list[BlockExecution]:
        """What is sent after an action and what overlaps it, or else what is received for them."""
        return [
            self._transfer(tensor, OF_RUN - number, forward=kind == F_ACTION)
            for number, (kind, chunk, part, _, _) in enumerate(halves)
            if kind not in (W_ACTION, R_ACTION) and chunk >= 0
            # Gradients leave a chunk where its values come.
            for tensor in self._crossing[(kind == F_ACTION) == sent][chunk]
            if tensor.slice == part and (kind == F_ACTION or tensor.value in tensor.block.gradients)
        ]

    def _transfer(self, crossing: BoundaryTensor, micro_batch: int, *, forward: bool) -> BlockExecution:
        """The execution that moves a value, or its gradient; its instance is the buffer it is in."""
        stream = crossing.out if forward else crossing.back
        buffer = crossing.buffer if forward else f"{crossing.buffer}.grad"
        self.part.names[buffer, "value"] = buffer
        code = self.part.codes.transfer(stream, crossing.block, crossing.value, gradient=not forward)
        return BlockExecution(code, buffer, micro_batch, "")

    # -- what is computed -------------------------------------------------------------------------------

    def _compute(self, halves: Sequence[Half]) -> list[BlockExecution]:
        """What an action runs, overlapped halves in turns, each in its own order.

        Segments of layers take turns evenly, so that layers stand side by side; what is not cut, such as an
        embedding, waits for nobody's turn. Backwards come first: their gradients travel to the experts while
        the forward computes its attention, as in Megatron-Core (TransformerLayerSchedulePlan.run, from
        memory). What happens once a step stays with the code it belongs to: gradients are reduced behind the
        last of several copies, which is the last in its turn.
        """
        places: list[tuple[float, bool, list[BlockExecution]]] = []
        for number, half in enumerate(halves):
            by_instance = list(self._codes(half, OF_RUN - number))
            segments = sum(len(codes) for codes in by_instance if len(codes) > 1)
            before = 0
            for codes in by_instance:
                in_turns = len(codes) > 1 or not segments
                for code in codes:
                    place = (before + in_turns / 2) / (segments or len(by_instance))
                    places.append((place, half[0] == F_ACTION, code))
                    before += in_turns
        return [execution for _, _, code in sorted(places, key=lambda place: place[:2]) for execution in code]

    def _codes(self, half: Half, micro_batch: int) -> Iterator[list[list[BlockExecution]]]:
        """A half of an action: by instance its codes, each with what happens once a step around it."""
        part, (kind, chunk, number, ahead, at_end) = self.part, half
        forward, instances = kind == F_ACTION, part.slices[chunk, number]
        phases = [phase for phase in _PHASES[kind] if phase != RECOMPUTE or kind == R_ACTION or not ahead]
        for instance in instances if forward else instances[::-1]:
            block = part.graph.block_of(instance)
            passes = [code for phase in phases for code in part.codes.run(block, phase)]
            if instance.chunk == OUTPUT_LAYER and kind != W_ACTION:
                # What waits for the statistics of all stages runs with the backward: pass T of the paper.
                late = part.codes.behind_barrier(block)
                passes = [code for code in passes if code not in late] if forward else [*late, *passes]
            runs = [
                [BlockExecution(code, instance.name, micro_batch, "", not self.overlapped)] for code in passes
            ] or [[]]
            if instance.on_all_stages and kind != W_ACTION:
                before, behind = around_pass(part, instance, micro_batch, forward=forward)
                runs[0][:0], runs[-1][len(runs[-1]) :] = before, behind
            if forward and at_end and PREPARE in (own := part.codes_of(instance)):
                runs[0].insert(0, BlockExecution(own[PREPARE], instance.name, ONCE, ""))
            if at_end and not forward and not part.codes.policy.reduce_after_backward:
                runs[-1] += [
                    replace(run, action="")
                    for ready, run in self.reductions
                    if ready == instance.weight_owner
                ]
            yield runs
