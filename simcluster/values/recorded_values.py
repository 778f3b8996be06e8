"""What ranks had in a replay, as it is compared with one device: losses, gradients, weights and states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout
from simcluster.model import Array, MemoryPlace, OptimizerOperator, TensorType
from simcluster.program import FORWARD, REDUCE, Call, Category, Program, Scope, ServerUpdateCall
from simcluster.values.buffers import Buffers
from simcluster.values.events import Event
from simcluster.values.exchange import without_padding
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class RankTensor:
    """A rank's part of a tensor of type ``whole``, as the layout cuts it."""

    rank: int
    part: Array
    layout: Layout
    whole: TensorType


@dataclass
class RecordedValues:
    """What ranks had, while a Program is replayed."""

    program: Program
    """What is replayed."""
    buffers: Buffers
    """What ranks hold."""
    losses: dict[int, dict[int, RankTensor]] = field(default_factory=lambda: defaultdict(dict))
    """By step and rank."""
    gradients: dict[tuple[int, str], list[RankTensor]] = field(default_factory=lambda: defaultdict(list))
    """By step and parameter."""
    weights: dict[tuple[int, str], list[RankTensor]] = field(default_factory=lambda: defaultdict(list))
    """By step and parameter."""
    states: dict[tuple[int, str], dict[int, RankTensor]] = field(default_factory=lambda: defaultdict(dict))
    """By step and state: those that the forward pass updates."""
    generated: dict[tuple[int, str], list[tuple[RankTensor, RankTensor]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """What tokens were made of, and which ones, by micro-batch and instance."""
    _terms: dict[tuple[int, int], dict[tuple[int, str], Array]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _on_servers: dict[tuple[int, str], dict[int, tuple[Array, Array]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def __post_init__(self) -> None:
        self._origins = [
            {resident.name: resident.origin for resident in part.residents if resident.origin}
            for part in self.program.parts
        ]

    def record_written(self, event: Event, index: int, array: Array) -> None:
        """Keeps what was written if it is a loss or a state that the forward pass updates."""
        slot, step = event.code.slots[index], event.step
        if slot.category is Category.OPTIMIZER and event.code.phase == FORWARD:
            # What stands in the padding of a state is nobody's.
            own = without_padding(array, slot.layout, slot.whole.shape, self.program.mesh, event.rank)
            held = RankTensor(event.rank, own, slot.layout, slot.whole)
            self.states[step, f"{event.execution.instance}.{slot.name}"][event.rank] = held
        once = slot.scope is Scope.STEP and event.code.phase in (FORWARD, REDUCE)
        apart = bool(self.program.mesh.off_axes)
        if once and slot.whole.shape == () and (apart or not slot.layout.partial):
            # Workers of servers add up their losses for rank 0; multi-token prediction has several losses.
            reader = 0 if apart else event.rank
            terms = self._terms[step, reader]
            terms[event.rank, event.part.buffer(event.execution.instance, slot.name)] = array
            total = np.asarray(sum(terms.values(), np.zeros((), array.dtype)))
            self.losses[step][reader] = RankTensor(reader, total, Layout.replicated(0), slot.whole)

    def record_token(self, event: Event, call: Call) -> None:
        """Keeps what a token was made of, and which one it is."""
        run = event.execution
        read, made = (self._held(event, slots[0]) for slots in (call.inputs, call.outputs))
        self.generated[run.micro_batch, run.instance].append((read, made))

    def record_served(self, event: Event, call: ServerUpdateCall, gradient: Array, weights: Array) -> None:
        """Keeps an update of a parameter on a server; where several have its rows, once all have updated."""
        if self.program.apart:
            # With the gradients of one worker: their sum, and the weights behind the last of the step.
            sums = self._on_servers[event.step, call.parameter]
            before, _ = sums.get(call.first, (np.zeros_like(gradient), weights))
            sums[call.first] = before + gradient, weights
            return
        parts = self._on_servers[event.step, call.parameter]
        parts[call.first] = gradient, weights
        rows = [len(part) if part.ndim else 1 for part, _ in parts.values()]
        if sum(rows) < call.of:
            return
        self._keep_whole(event.rank, event.step, call.parameter, parts)
        parts.clear()

    def record_update(
        self, event: Event, call: Call, operator: OptimizerOperator, place: MemoryPlace
    ) -> None:
        """Keeps the gradient that an optimizer has read, and the weights that it has made."""
        parameter = call.name.rpartition(".update")[0]
        buffer = event.part.buffer(event.execution.instance, parameter)
        origins = self._origins[self.program.part_of(event.rank)]
        name = origins.get(buffer, f"{event.execution.instance}.{parameter}")
        for operands, position, into in (
            (call.inputs, operator.gradient_input, self.gradients),
            (call.outputs, operator.weights_output, self.weights),
        ):
            if position is not None:
                into[event.step, name].append(self._held(event, operands[position], place))

    def finish(self) -> None:
        """Keeps what servers that update for each worker have at the end of every step."""
        for (step, name), parts in self._on_servers.items() if self.program.apart else ():
            self._keep_whole(0, step, name, parts)

    def _held(self, event: Event, index: int, place: MemoryPlace = MemoryPlace.DEVICE) -> RankTensor:
        slot = event.code.slots[index]
        return RankTensor(event.rank, self.buffers.read(event, index, place), slot.layout, slot.whole)

    def _keep_whole(self, rank: int, step: int, name: str, parts: Mapping[int, tuple[Array, Array]]) -> None:
        """Keeps the gradient and the weights of a parameter, put together from those of its rows."""
        ordered = [parts[first] for first in sorted(parts)]
        for into, arrays in zip((self.gradients, self.weights), zip(*ordered, strict=True), strict=True):
            whole = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
            kind = TensorType(whole.shape, DType.FP32)
            into[step, name].append(RankTensor(rank, whole, Layout.replicated(whole.ndim), kind))
