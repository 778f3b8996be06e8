"""simcluster's own cost model: seconds of kernels and collectives on the nominal cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Movement, MovementKind, Strategy
from simcluster.model import TensorType
from simcluster.plan.auto.candidates import SearchMesh
from simcluster.plan.auto.cost_model import CostModel
from simcluster.plan.auto.movement_sequences import MovementSequences
from simcluster.plan.auto.operator_collectives import (
    PendingReduction,
    forward_reductions,
    gradient_reductions,
    local_inputs,
    local_outputs,
)
from simcluster.plan.auto.operator_graph import OperatorKind
from simcluster.plan.auto.strategy_cost import FREE, CostWeights, StrategyCost
from simcluster.plan.redistribution import MovementCost
from simcluster.work import Work

_BACKWARD_PASSES = 2
"""Kernels of a backward, counted in forwards."""

_TRAINED_BYTES = 16
"""Bytes per element of a parameter with its gradient and Adam's states, in fp32 as in mixed precision (ZeRO,
arXiv 1910.02054)."""


@dataclass(frozen=True, slots=True)
class ClusterCostModel(CostModel):
    """Prices kernels on the slowest device and collectives on the slowest group, without overlap.

    Redistributions are priced by MindSpore's sequence of movements, though a Program takes the cheapest. A
    sum that is due is priced as an all-reduce right behind its operator; the Program may do it cheaper, by a
    reduce-scatter or together with another one. Gradients of parameters are summed once for the ``terms``
    micro-batches of a step; everything else is of one micro-batch. Memory is that of parameters with their
    optimizer states, and of results for ``in_flight`` micro-batches.
    """

    search_mesh: SearchMesh
    """The ranks of a stage."""
    sequences: MovementSequences
    """Redistributions."""
    weights: CostWeights
    """How computation and communication are added."""
    price: Callable[[Sequence[Work]], float]
    """Seconds of kernels."""
    movement: MovementCost
    """Seconds of a movement."""
    terms: int = 1
    """Micro-batches of a step."""
    in_flight: int = 1
    """Micro-batches whose results a stage keeps at once."""
    prices: dict[tuple[MovementKind, tuple[str, ...], int], float] = field(default_factory=dict)
    """Seconds of movements that were priced already."""

    kind: ClassVar[str] = "simcluster"
    unit: ClassVar[str] = "s"

    def operator(self, kind: OperatorKind, strategy: Strategy) -> StrategyCost:
        """Seconds of its kernels and of the sums of results and gradients."""
        mesh, training = self.search_mesh.mesh, self.weights.training
        inputs, outputs = local_inputs(kind, strategy, mesh), local_outputs(kind, strategy, mesh)
        passes = 1 + _BACKWARD_PASSES * (training and bool(kind.trained))
        compute = passes * self.price(kind.operator.work(inputs, outputs))
        sent = self._all_reduces(forward_reductions(kind, strategy, mesh))
        memory = 0.0
        if training:
            sent += self._all_reduces(gradient_reductions(kind, strategy, mesh, parameters=False))
            gradients = self._all_reduces(gradient_reductions(kind, strategy, mesh, parameters=True))
            sent += self.weights.gamma * gradients / self.terms
            kept = sum(tensor.num_bytes for tensor in outputs) if kind.trained else 0
            memory = float(kept * self.in_flight)
        for index in kind.parameters:
            tensor = inputs[index]
            memory += _TRAINED_BYTES * tensor.num_elements if training else tensor.num_bytes
        return StrategyCost(compute, sent, memory)

    def redistribution(
        self, tensor: TensorType, made: Layout, need: Layout, *, trained: bool
    ) -> StrategyCost:
        """Seconds of the movements there, and of the gradient back."""
        if made == need:
            return FREE
        seconds = self._moved(tensor, made, need)
        if trained and self.weights.training:
            seconds += self._moved(tensor, need, made)
        return StrategyCost(0.0, seconds)

    def _moved(self, tensor: TensorType, made: Layout, need: Layout) -> float:
        """Seconds of the movements from one layout to another."""
        seconds = 0.0
        for step in self.sequences.between(made, need):
            movement = Movement(step.kind, step.axes)
            held, reached = round(tensor.num_bytes * step.before), round(tensor.num_bytes * step.after)
            seconds += self._price(movement, movement.num_bytes(held, reached, step.ways))
        return seconds

    def collective(self, unit: str, num_bytes: float) -> float:
        """Seconds of an all-reduce over the unit."""
        return self._all_reduce((unit,), round(num_bytes))

    def _all_reduces(self, pending: Iterable[PendingReduction]) -> float:
        return sum(self._all_reduce(due.axes, due.part.num_bytes) for due in pending)

    def _all_reduce(self, axes: tuple[str, ...], num_bytes: int) -> float:
        return self._price(Movement(MovementKind.ALL_REDUCE, axes), num_bytes)

    def _price(self, movement: Movement, num_bytes: int) -> float:
        key = (movement.kind, movement.axes, num_bytes)
        if key not in self.prices:
            self.prices[key] = self.movement(movement, num_bytes)
        return self.prices[key]
