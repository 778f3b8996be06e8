"""The oracle: the same mathematics on one device.

It evaluates the differentiated graph on whole tensors, micro-batch by micro-batch, and applies the same
optimizer: no mesh, no layout, no collective, no schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model import (
    Array,
    Block,
    Graph,
    Instance,
    Node,
    Operator,
    Phase,
    Region,
    Role,
    Rules,
    SparseUpdate,
    clip_factor,
)
from simcluster.values.source import SeededData

BATCH = "batch"
"""What operators call the dim of samples."""


@dataclass(frozen=True, slots=True)
class StepValues:
    """What one training step gives: the loss, and by trained parameter the gradient and the new weights.

    ``states`` are those that the forward pass updates, such as running statistics.
    """

    loss: float
    gradients: Mapping[str, Array]
    weights: Mapping[str, Array]
    states: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerGradients:
    """Loss and gradients that one device computes for some samples with given weights; by parameter also the
    gradients of single rows, with their ids.
    """

    loss: float
    gradients: Mapping[str, Array]
    rows: Mapping[str, tuple[Array, Array]]


@dataclass(frozen=True)
class _Pass:
    """One micro-batch, or one run of its samples, on its way through the graph.

    ``crossing`` are the values between instances, ``forwards`` the instances that it went through with their
    values.
    """

    micro_batch: int
    run: tuple[int, int] | None
    crossing: dict[str, Array] = field(default_factory=dict)
    forwards: list[tuple[Instance, Block, dict[str, Array]]] = field(default_factory=list)

    def region(self, instance: Instance, step: int, seed: int) -> Region:
        """What the operators of an instance are told about where they work."""
        starts = {BATCH: self.run[0]} if self.run else {}
        sizes = {BATCH: self.run[1] - self.run[0]} if self.run else {}
        return Region(starts, step + 1, seed, instance.name, self.micro_batch, sizes)


@dataclass
class Oracle:
    """Trains a differentiated graph on one device."""

    graph: Graph
    """What is trained, differentiated."""
    update: Rules
    """How parameters are updated."""
    source: SeededData
    """Initial weights and batches."""
    num_micro_batches: int
    """Micro-batches of a step."""
    clip: float | None = None
    """A bound on the norm of all gradients together."""
    rows: Sequence[Sequence[tuple[int, int]]] | None = None
    """Per micro-batch the runs (first, behind the last) of its samples that are trained; None: all."""
    orders: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By instance the micro-batches as they go forward, 0, 1, ... unless told otherwise: in that order they
    update states, such as running statistics."""
    first_step: int = 0
    """The number of the first step."""
    start: Mapping[str, Array] = field(default_factory=dict)
    """Tensors that it begins with in place of initial ones, called as in a checkpoint."""
    _weights: dict[str, Array] = field(default_factory=dict)
    _states: dict[str, tuple[Array, ...]] = field(default_factory=dict)
    _running: dict[str, Array] = field(default_factory=dict)
    _rows: dict[str, tuple[Array, Array]] = field(default_factory=dict)

    def run(self, num_steps: int) -> list[StepValues]:
        """The values of the first ``num_steps`` steps."""
        self._begin()
        return [self._step(step) for step in range(self.first_step, self.first_step + num_steps)]

    def initial(self, name: str) -> Array:
        """A parameter as training begins with it."""
        if name in self.start:
            return self.start[name]
        return self.source.parameter(name, dict(self.graph.parameters())[name])

    def gradients(self, step: int, weights: Mapping[str, Array]) -> WorkerGradients:
        """The gradients of a step with some weights, which are not updated."""
        if not self._weights:
            self._begin()
        self._weights.update(weights)
        loss, gradients = self._differentiate(step)
        return WorkerGradients(loss, gradients, dict(self._rows))

    def _begin(self) -> None:
        self._weights = {
            name: self.start[name] if name in self.start else self.source.parameter(name, kind)
            for name, kind in self.graph.parameters()
        }
        self._states = {
            name: tuple(
                self.start.get(f"{name}.{state}", np.zeros_like(self._weights[name]))
                for state in self.update.of(name).states
            )
            for name in self._trained()
        }
        self._running = {
            f"{instance.name}.{name}": np.array(
                self.start.get(f"{instance.name}.{name}", np.zeros(kind.type.shape, self.source.dtype))
            )
            for instance in self.graph.instances
            for name, kind in self.graph.block_of(instance).values.items()
            if kind.role is Role.STATE
        }

    def saved(self) -> dict[str, Array]:
        """What there is behind the last step, called as in a checkpoint."""
        states = {
            f"{name}.{state}": array
            for name, arrays in self._states.items()
            for state, array in zip(self.update.of(name).states, arrays, strict=True)
        }
        return {**self._weights, **states, **self._running}

    def _differentiate(self, step: int) -> tuple[float, dict[str, Array]]:
        """The loss and the gradients of a step, without those that go by rows."""
        by_rows = set(self._by_rows())
        gradients = {name: np.zeros_like(self._weights[name]) for name in self._states if name not in by_rows}
        passes = [
            _Pass(micro_batch, run)
            for micro_batch in range(self.num_micro_batches)
            for run in ((None,) if self.rows is None else self.rows[micro_batch])
        ]
        loss = sum(self._forward(instance, one_pass, step) for instance, one_pass in self._forwards(passes))
        for one_pass in passes:
            self._backwards(one_pass, step, gradients)
        return loss, gradients

    def _step(self, step: int) -> StepValues:
        by_rows = set(self._by_rows())
        loss, gradients = self._differentiate(step)
        if self.clip is not None:
            squares = np.asarray(sum((gradient * gradient).sum() for gradient in gradients.values()))
            factor = clip_factor(squares, self.clip)
            gradients = {name: gradient * factor for name, gradient in gradients.items()}
        for name, states in self._states.items():
            weights, update = self._weights[name], self.update.of(name)
            if name in by_rows:
                rows, ids = self._rows[name]
                operator = SparseUpdate(update, len(weights), ids.ndim)
                made = operator.evaluate((weights, rows, ids, *states), Region({}, step + 1))
            else:
                made = update.step(weights, gradients[name], states, step + 1)
            self._weights[name], self._states[name] = made[0], tuple(made[1:])
        running = {name: array.copy() for name, array in self._running.items()}
        trained = {name: self._weights[name] for name in self._states}
        return StepValues(loss, gradients, trained, running)

    def _trained(self) -> Iterator[str]:
        """The parameters that have gradients; what only decides something, as a router's bias, has none."""
        owners = {
            f"{instance.name}.{name}": name in self.graph.block_of(instance).gradients
            or name in self.graph.block_of(instance).row_gradients
            for instance in self.graph.instances
            for name in self.graph.block_of(instance).parameters
        }
        return (name for name in self._weights if owners[name])

    def _by_rows(self) -> Iterator[str]:
        """The parameters of which only rows change that were looked up."""
        for instance in self.graph.instances:
            for name in self.graph.block_of(instance).row_gradients:
                yield self.graph.canonical(f"{instance.name}.{name}")

    def _forwards(self, passes: Sequence[_Pass]) -> Iterator[tuple[Instance, _Pass]]:
        """Every instance with every pass, in its order."""
        for instance in self.graph.instances:
            order = self.orders.get(instance.name) or range(self.num_micro_batches)
            for one_pass in sorted(passes, key=lambda one_pass: order.index(one_pass.micro_batch)):
                yield instance, one_pass

    def _forward(self, instance: Instance, one_pass: _Pass, step: int) -> float:
        """What an instance adds to the loss; updates its states."""
        block = self.graph.block_of(instance)
        values = self._inputs(instance, block, one_pass.crossing, step, one_pass.micro_batch, one_pass.run)
        nodes = [node for node in block.nodes if node.phase is Phase.FORWARD]
        _evaluate(nodes, values, one_pass.region(instance, step, self.source.seed))
        self._keep(instance, block, values, one_pass.run)
        one_pass.crossing.update({instance.output(name): values[name] for name in block.outputs})
        one_pass.forwards.append((instance, block, values))
        return float(values[block.loss]) if block.loss is not None else 0.0

    def _backwards(self, one_pass: _Pass, step: int, gradients: dict[str, Array]) -> None:
        """Adds what a pass gives to the gradients; its values are let go."""
        returned: dict[str, Array] = {}
        while one_pass.forwards:
            instance, block, values = one_pass.forwards.pop()
            for name in block.outputs:
                if name in block.gradients:
                    values[block.gradients[name]] = returned[instance.output(name)]
            region = one_pass.region(instance, step, self.source.seed)
            self._backward(instance, block, values, gradients, region)
            for inner, outer in zip(block.inputs, instance.inputs, strict=True):
                if inner in block.gradients:
                    term = values[block.gradients[inner]]
                    returned[outer] = returned[outer] + term if outer in returned else term
        one_pass.crossing.clear()

    def _inputs(
        self,
        instance: Instance,
        block: Block,
        crossing: Mapping[str, Array],
        step: int,
        micro_batch: int,
        run: tuple[int, int] | None,
    ) -> dict[str, Array]:
        values = {inner: crossing[outer] for inner, outer in zip(block.inputs, instance.inputs, strict=True)}
        for name in block.parameters:
            values[name] = self._weights[self.graph.canonical(f"{instance.name}.{name}")]
        for name in block.feeds:
            kind = block.values[name]
            whole = self.source.feed(name, kind.type, step, micro_batch, kind.num_ids)
            values[name] = whole if run is None else whole[_rows(block, name, run)]
        for name in block.states:
            whole = self._running[f"{instance.name}.{name}"]
            values[name] = whole if run is None else whole[_rows(block, name, run)]
        return values

    def _keep(
        self,
        instance: Instance,
        block: Block,
        values: Mapping[str, Array],
        run: tuple[int, int] | None,
    ) -> None:
        """Puts what a micro-batch, or a run of its samples, made of the states back."""
        for name in block.states:
            whole = self._running[f"{instance.name}.{name}"]
            whole[... if run is None else _rows(block, name, run)] = values[name]

    def _backward(
        self,
        instance: Instance,
        block: Block,
        values: dict[str, Array],
        gradients: dict[str, Array],
        region: Region,
    ) -> None:
        accumulators = {
            block.gradients[name]: self.graph.canonical(f"{instance.name}.{name}")
            for name in block.parameters
            if name in block.gradients
        }
        for node in block.nodes:
            if node.phase is not Phase.BACKWARD:
                continue
            # One by one: an operator that reads a parameter twice gives two terms of its gradient.
            for out, array in zip(node.outputs, _results(node, values, region), strict=True):
                role = block.values[out].role
                values[out] = values[out] + array if role is Role.SUM and out in values else array
                if role is Role.ACCUMULATOR and out in accumulators:
                    gradients[accumulators[out]] = gradients[accumulators[out]] + array
        for name, (rows, ids) in block.row_gradients.items():
            self._rows[self.graph.canonical(f"{instance.name}.{name}")] = values[rows], values[ids]


def _rows(block: Block, value: str, run: tuple[int, int]) -> tuple[slice, ...]:
    """Where a run of samples lies in a feed or a state, whose dims are called as who reads it calls them."""
    for node in block.nodes:
        if isinstance(node.operator, Operator) and value in node.inputs:
            dims, operand = node.operator.dims(), node.inputs.index(value)
            if BATCH in dims.inputs[operand]:
                window = dims.window(operand, BATCH)
                place = dims.inputs[operand].index(BATCH)
                return (slice(None),) * place + (slice(run[0] // window.step, run[1] // window.step),)
    raise ValueError(f"no operator of {block.name} reads {value} by the batch")


def _evaluate(nodes: Sequence[Node], values: dict[str, Array], region: Region) -> None:
    for node in nodes:
        values.update(zip(node.outputs, _results(node, values, region), strict=True))


def _results(node: Node, values: Mapping[str, Array], region: Region) -> tuple[Array, ...]:
    assert isinstance(node.operator, Operator)
    return node.operator.evaluate([values[name] for name in node.inputs], region)
