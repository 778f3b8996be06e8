"""MindSpore's symbolic cost model: bytes of slices, weighted for Ascend 910 (operator_costmodel.cc,
costmodel.cc and tensor_redistribution.cc of MindSpore 1.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh, MovementKind, Strategy
from simcluster.model import TensorType
from simcluster.number_arrays import Floats
from simcluster.plan.auto.candidates import SearchMesh
from simcluster.plan.auto.cost_model import CostModel
from simcluster.plan.auto.cost_table import CostTable
from simcluster.plan.auto.movement_sequences import MovementSequences
from simcluster.plan.auto.operator_collectives import forward_reductions, local_inputs, local_outputs
from simcluster.plan.auto.operator_graph import OperatorKind
from simcluster.plan.auto.strategy_cost import CostWeights, StrategyCost

_TIE_BREAK = 1.0
"""What data parallelism is cheaper by, in each term that is not zero."""


@dataclass(frozen=True, slots=True)
class MessageCost:
    """What a message of so many bytes counts as."""

    threshold: float = 2048
    """Messages up to so many bytes cost ``const``."""
    const: float = 3072
    """The cost of a small message."""
    bias: float = 1024
    """What is added to the bytes of larger ones."""

    def __call__(self, num_bytes: float) -> float:
        """The cost; nothing if nothing is sent."""
        if num_bytes <= 0:
            return 0.0
        return self.const if num_bytes <= self.threshold else num_bytes + self.bias

    def array(self, num_bytes: Floats) -> Floats:
        """The same of many messages."""
        sent = np.where(num_bytes <= self.threshold, self.const, num_bytes + self.bias)
        return np.where(num_bytes > 0, sent, 0.0)


@dataclass(frozen=True, slots=True)
class SymbolicCostModel(CostModel):
    """Counts bytes: what an operator reads, and what is sums of split dims, and gradients of replicated
    parameters.

    Memory is what a gradient may read again: parameters, and results that depend on some. The sources say
    that it is limited, but not how it is counted.
    """

    search_mesh: SearchMesh
    """The ranks of a stage."""
    sequences: MovementSequences
    """Redistributions."""
    weights: CostWeights
    """How computation and communication are added."""
    message: MessageCost = MessageCost()
    """What messages count as."""
    volumes: dict[tuple[Layout, Layout], tuple[float, float, float, float]] = field(default_factory=dict)
    """Two layouts -> the shares of a tensor that are computed, sent there and back, and kept."""

    kind: ClassVar[str] = "mindspore"
    unit: ClassVar[str] = "weighted bytes"

    def operator(self, kind: OperatorKind, strategy: Strategy) -> StrategyCost:
        """Bytes of its inputs' slices, and of results that are summed over ranks."""
        mesh = self._mesh
        inputs = [tensor.num_bytes for tensor in local_inputs(kind, strategy, mesh)]
        forward = float(sum(due.part.num_bytes for due in forward_reductions(kind, strategy, mesh)))
        compute, gradients, memory = sum(inputs) + forward, 0.0, 0.0
        if self.weights.training:
            for index in kind.parameters:
                axes = strategy.layout(kind.dims.inputs[index]).axes
                if mesh.product(axes) < self.search_mesh.devices:
                    gradients += inputs[index]
        if kind.trained or not self.weights.training:
            outputs = local_outputs(kind, strategy, mesh)
            memory = float(sum(tensor.num_bytes for tensor in outputs) * self.weights.training)
            memory += sum(inputs[index] for index in kind.parameters)
        if self._data_parallel(kind, strategy):
            compute, forward, gradients = (
                term - _TIE_BREAK if term > 0 else term for term in (compute, forward, gradients)
            )
        return StrategyCost(compute, self.message(forward) + self.weights.gamma * gradients, memory)

    def _data_parallel(self, kind: OperatorKind, strategy: Strategy) -> bool:
        """Whether the first dim of the first input is split over all devices."""
        if not kind.dims.inputs or not kind.dims.inputs[0]:
            return False
        ways = self._mesh.product(strategy.axes(kind.dims.inputs[0][0]))
        return ways == self.search_mesh.devices > 1

    def redistribution(
        self, tensor: TensorType, made: Layout, need: Layout, *, trained: bool
    ) -> StrategyCost:
        """The sum over MindSpore's own sequence of operators, each by the slice that it is given."""
        return self.redistributions(tensor, (made,), (need,), trained=trained).cost(0, 0)

    def redistributions(
        self, tensor: TensorType, made: Sequence[Layout], need: Sequence[Layout], *, trained: bool
    ) -> CostTable:
        """The same for every pair: shares of a tensor are counted once for all tensors with these layouts."""
        known = self.volumes
        for start in made:
            for target in need:
                if (start, target) not in known:
                    known[start, target] = self._volumes(start, target)
        shares = np.array([[known[start, target] for target in need] for start in made])
        compute, forward, backward, memory = np.moveaxis(shares * tensor.num_bytes, -1, 0)
        returns = trained and self.weights.training
        sent = self.message.array(forward)
        return CostTable(compute, sent + self.message.array(backward) if returns else sent, memory * returns)

    def _volumes(self, made: Layout, need: Layout) -> tuple[float, float, float, float]:
        """Computation, communication there and back, and memory, as shares of the tensor."""
        compute = forward = backward = memory = 0.0
        for step in self.sequences.between(made, need):
            size = step.before
            if step.kind is MovementKind.SLICE:
                compute += size
            elif step.kind is MovementKind.ALL_TO_ALL:
                forward, backward = forward + 2 * size, backward + 2 * size
            else:
                forward, backward = forward + step.ways * size / 2, backward + size / 2
                compute += size if step.dim == 0 else size + 2 * step.ways * size
                memory += step.ways * size if step.dim == 0 else 0.0
        return compute, forward, backward, memory

    def collective(self, unit: str, num_bytes: float) -> float:
        """The bytes alone, whatever they travel on."""
        return num_bytes

    @property
    def _mesh(self) -> Mesh:
        return self.search_mesh.mesh
