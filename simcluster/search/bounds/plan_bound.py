"""A lower bound on the time and the memory of a plan, without planning it.

With ``m`` micro-batches, every stage computes ``m`` forwards and backwards. Before its first kernel the first
micro-batch passes the stages before it; behind its last backward, that micro-batch's gradient passes them
again. So a step takes at least the longest, over stages, of

    fill + m x (forward + backward) + drain

where all three are sums of the least times of executions (``layer_costs``). A device holds at least its
share of parameters, gradients and optimizer states, and what all micro-batches in flight keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Phase
from simcluster.number_arrays import Ints
from simcluster.plan import BACKWARD, FORWARD, WEIGHTS, Schedule, VirtualStages
from simcluster.search.bounds.layer_costs import LayerCosts, PhaseSpans
from simcluster.search.bounds.layer_memory import LayerMemory
from simcluster.search.bounds.stage_balance import balanced_layers

_LOOKED_AT = 3
"""Stages, from the first and from the last, whose memory is bounded: those in between keep less."""


@dataclass(frozen=True, slots=True)
class PlanShape:
    """What a bound needs to know of a plan besides the costs of its layers."""

    num_stages: int
    """Pipeline stages."""
    num_micro_batches: int
    """Micro-batches of a step on every data-parallel rank."""
    schedule: Schedule
    """The order of their forwards and backwards."""
    layers: tuple[int, ...]
    """Layers of every virtual stage."""
    blocking: bool
    """Whether kernels wait for transfers between stages."""
    sharded_ways: tuple[float, float, float]
    """By how much parameters, gradients and states are divided; infinite where none is known to be held."""
    gathers: bool = False
    """Whether weights are gathered for each forward; which of them a backward needs again is not counted."""
    scatters: bool = False
    """Whether gradients are reduced for each micro-batch."""
    keeps: bool = True
    """Whether activations stay on the device from forward to backward."""


@dataclass(frozen=True, slots=True)
class LeastTimes:
    """Nanoseconds that communication of so many bytes takes at least, alone on the cluster."""

    transfer: Callable[[int], int]
    """From a stage to the next."""
    gather: Callable[[int], int]
    """All-gather of weights over the ranks that hold shards of them."""
    scatter: Callable[[int], int]
    """Reduce-scatter of gradients over the same."""


@dataclass(frozen=True, slots=True)
class PlanBound:
    """What a plan takes at least."""

    time_ns: int
    """Of a step; 0 where nothing is known of it."""
    memory: int
    """Bytes of the fullest device."""


def least_time(
    costs: LayerCosts,
    memory: LayerMemory,
    shape: PlanShape,
    communication: LeastTimes,
    chain: VirtualStages,
) -> int:
    """Nanoseconds that a step of a plan takes at least, whose virtual stages are those of ``chain``."""
    return _time(costs, memory, shape, _virtual_starts(memory, shape.layers), communication, chain)


def least_memory(memory: LayerMemory, shape: PlanShape, chain: VirtualStages) -> int:
    """Bytes that the fullest device of a plan holds at least."""
    return _memory(memory, shape, _virtual_starts(memory, shape.layers), chain)


def _virtual_starts(memory: LayerMemory, layers: Sequence[int]) -> Ints:
    """The first instance of every virtual stage, and the number of instances: [virtual stages + 1].

    What stands before the first layer is on the first stage, what stands behind the last on the last.
    """
    firsts = np.concatenate([[0], np.cumsum(layers)[:-1]])
    # Behind the last layer begins a last stage that has none.
    starts = np.append(memory.layer_places, memory.layer_places[-1] + 1)[firsts]
    starts[0] = 0
    return np.append(starts, len(memory.names))


@dataclass(frozen=True, slots=True)
class _StageTimes:
    """Times of virtual stages [virtual stages] for one micro-batch; ``end``: the last that it passes."""

    busy: Ints
    """From the first kernel to the last."""
    input_busy: Ints
    """From the first kernel that reads what came in to the last."""
    leaving: Ints
    """From the first kernel to where the next virtual stage reads what goes out; to the last at the end."""
    passing: Ints
    """The same from the first kernel that reads what came in."""
    sent: Ints
    """Bytes that go out; 0 at the end."""

    @classmethod
    def of(cls, spans: PhaseSpans, starts: Ints, *, back: bool) -> _StageTimes:
        """Times of a phase; ``back``: its executions go from the last instance to the first."""
        begin, end = starts[:-1], starts[1:]
        entry, exit_ = (end - 1, begin) if back else (begin, end - 1)
        total = np.concatenate([[0], np.cumsum(spans.until_next)])
        before_exit = total[end] - total[begin] - spans.until_next[exit_]
        alone = entry == exit_
        later = np.where(alone, 0, spans.input_until_next[entry] - spans.until_next[entry])
        last = np.arange(len(begin)) == (0 if back else len(begin) - 1)
        whole, handed = spans.whole[exit_], spans.handed_over[exit_]
        input_whole = np.where(alone, spans.input_whole[exit_], whole)
        input_handed = np.where(alone, spans.input_handed_over[exit_], handed)
        return cls(
            before_exit + whole,
            before_exit + later + input_whole,
            before_exit + np.where(last, whole, handed),
            before_exit + later + np.where(last, input_whole, input_handed),
            np.where(last, 0, spans.handed_bytes[exit_]),
        )


@dataclass(frozen=True, slots=True)
class _Transfers:
    """Least times of what a micro-batch sends from virtual stages to the next [virtual stages]."""

    forward: Ints
    backward: Ints

    @classmethod
    def of(
        cls, forward: Ints, backward: Ints, stage_of: Ints, transfer_ns: Callable[[int], int]
    ) -> _Transfers:
        """The times for bytes; what stays on its stage takes none."""
        moves = stage_of[:-1] != stage_of[1:]

        def times(sent: Ints, moved: NDArray[np.bool_]) -> Ints:
            pairs = zip(sent.tolist(), moved.tolist(), strict=True)
            return np.array([transfer_ns(size) if size and goes else 0 for size, goes in pairs])

        return cls(times(forward, np.append(moves, False)), times(backward, np.append(False, moves)))


def _time(
    costs: LayerCosts,
    memory: LayerMemory,
    shape: PlanShape,
    starts: Ints,
    communication: LeastTimes,
    chain: VirtualStages,
) -> int:
    stage_of = _stages_of(chain)
    forward = _StageTimes.of(costs.phases[Phase.FORWARD], starts, back=False)
    backward = _StageTimes.of(costs.phases[Phase.BACKWARD], starts, back=True)
    weights, again = (
        _StageTimes.of(costs.phases[phase], starts, back=True).busy
        for phase in (Phase.WEIGHTS, Phase.RECOMPUTE)
    )
    sent = _Transfers.of(forward.sent, backward.sent, stage_of, communication.transfer)
    busy = forward.busy + backward.busy + again
    if shape.blocking:
        # With chunks a forward and the backward behind it are one turn: both leave at once.
        both = sent.forward + sent.backward
        busy = busy + (np.maximum(sent.forward, sent.backward) if chain.num_chunks > 1 else both)
    stages = range(shape.num_stages)
    first = np.array([int(np.flatnonzero(stage_of == stage)[0]) for stage in stages])
    later = first > 0
    passing_out, passing_back = forward.passing.copy(), backward.passing
    passing_out[0] = forward.leaving[0]
    fill = np.concatenate([[0], np.cumsum(passing_out + sent.forward)])[first]
    drain = np.concatenate([[0], np.cumsum(passing_back)])[first]
    drain = drain + np.concatenate([[0], np.cumsum(sent.backward)])[first + 1] - sent.backward[0]
    # The first forward counts from the kernel that reads what came in.
    fill = fill - np.where(later, (forward.busy - forward.input_busy)[first], 0)
    # The last backward counts to where what goes out is read; its transfer is a part of the drain.
    tail = backward.busy - backward.leaving + (sent.backward if shape.blocking else 0)
    drain = drain - np.where(later, tail[first], 0)
    # Each slice of a sequence is a turn of its own.
    count = shape.num_micro_batches * shape.schedule.num_slices
    steady = fill + count * np.bincount(stage_of, busy, shape.num_stages)
    halves = count * np.bincount(stage_of, weights, shape.num_stages)
    # Second halves of backwards may run while the gradient passes the other stages.
    least = max((steady + drain).max(), (steady + halves).max())
    parameters = np.bincount(stage_of, np.add.reduceat(memory.parameters, starts[:-1]), shape.num_stages)
    # Of frozen weights there are none.
    gradients = np.minimum(memory.parameters, memory.gradients)
    reduced = np.bincount(stage_of, np.add.reduceat(gradients, starts[:-1]), shape.num_stages)
    scatter = np.array([communication.scatter(int(size)) for size in reduced])
    if shape.gathers:
        gather = np.array([communication.gather(int(size)) for size in parameters])
        least = max(least, count * gather.max())
    if shape.scatters:
        moved = np.bincount(stage_of, np.add.reduceat(costs.scattered, starts[:-1]), shape.num_stages)
        times = [communication.scatter(int(size)) for size in moved]
        least = max(least, count * max(times))
    elif chain.num_chunks == 1:
        # Gradients are complete with the last backward, and reduced then.
        last = np.bincount(stage_of, backward.busy + sent.backward, shape.num_stages)
        least = max(least, (steady - last + scatter).max())
    return int(least)


def balanced_stages(
    costs: LayerCosts,
    memory: LayerMemory,
    shape: PlanShape,
    slowness: NDArray[np.float64],
    limits: NDArray[np.float64],
) -> tuple[int, ...]:
    """Layers of the stages of a pipeline without chunks, balanced by time; () if that is impossible.

    ``slowness`` and ``limits`` [stages]: how many times longer their devices take than the fastest, and the
    bytes that they may hold.

    What stands before the first layer counts to it, what stands behind the last to that.
    """
    starts = _virtual_starts(memory, (1,) * len(memory.layer_places))
    times = sum(
        (np.add.reduceat(spans.until_next, starts[:-1]) for spans in costs.phases.values()), np.zeros(1)
    )
    held = np.add.reduceat(_held(memory, shape), starts[:-1])
    kept = np.add.reduceat(memory.kept, starts[:-1]) * shape.keeps
    count = shape.num_micro_batches
    stages = range(shape.num_stages)
    in_flight = [sum(_in_flight(shape.schedule, shape.num_stages, count, stage)) for stage in stages]
    return balanced_layers(times, held, kept, np.array(in_flight, dtype=float), slowness, limits)


def _held(memory: LayerMemory, shape: PlanShape) -> NDArray[np.float64]:
    """Bytes of parameters, gradients and states by instance."""
    parameters, gradients, states = shape.sharded_ways
    return memory.parameters / parameters + memory.gradients / gradients + memory.states / states


def _memory(memory: LayerMemory, shape: PlanShape, starts: Ints, chain: VirtualStages) -> int:
    held = np.add.reduceat(_held(memory, shape), starts[:-1])
    if shape.keeps:
        alive = _alive(shape.schedule, shape.num_stages, shape.num_micro_batches)
        held += np.add.reduceat(memory.kept, starts[:-1]) * alive
    return int(np.bincount(_stages_of(chain), held).max())


@lru_cache(maxsize=1024)
def _stages_of(chain: VirtualStages) -> Ints:
    """The stage of every virtual stage."""
    return np.array([stage for stage, _ in chain.places])


@lru_cache(maxsize=4096)
def _alive(schedule: Schedule, num_stages: int, num_micro_batches: int) -> Ints:
    """By virtual stage how many micro-batches it keeps at least, when its stage keeps most."""
    chain = schedule.chain(num_stages)
    stages = range(num_stages)
    looked_at = {
        stage: _in_flight(schedule, num_stages, num_micro_batches, stage)
        for stage in {*stages[:_LOOKED_AT], *stages[-_LOOKED_AT:]}
    }
    return np.array([looked_at[stage][chunk] if stage in looked_at else 0 for stage, chunk in chain.places])


@lru_cache(maxsize=4096)
def _in_flight(schedule: Schedule, num_stages: int, num_micro_batches: int, stage: int) -> tuple[int, ...]:
    """By chunk the micro-batches between their forward and the end of their backward, when they are most."""
    halves = [
        half for action in schedule.stage(stage, num_stages, num_micro_batches) for half in action.parts
    ]
    split = {half.unit for half in halves if half.kind == WEIGHTS}
    alive = [0] * schedule.chain(num_stages).num_chunks
    most = tuple(alive)
    for half in halves:
        last = WEIGHTS if half.unit in split else BACKWARD
        alive[half.chunk] += (half.kind == FORWARD) - (half.kind == last)
        if sum(alive) > sum(most):
            most = tuple(alive)
    return most
