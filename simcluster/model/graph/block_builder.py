"""Writing a block operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph.graph import Block, Node, Role, Value
from simcluster.model.graph.operator import Operator, TensorType
from simcluster.work import DType


@dataclass(slots=True)
class BlockBuilder:
    """Writes one block: values are named after the operator that makes them."""

    name: str
    dtype: DType
    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    feeds: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    def feed(self, name: str, kind: TensorType, num_ids: int = 0) -> str:
        """A tensor that comes with the batch: numbers, or ids from 0 up to ``num_ids``."""
        self.values[name] = Value(kind, Role.FEED, num_ids=num_ids)
        self.feeds.append(name)
        return name

    def input(self, name: str, kind: TensorType) -> str:
        """An activation that another block makes."""
        self.values[name] = Value(kind)
        self.inputs.append(name)
        return name

    def parameter(self, name: str, shape: Sequence[int]) -> str:
        """A trained tensor of the block's dtype."""
        self.values[name] = Value(TensorType(tuple(shape), self.dtype), Role.PARAMETER)
        self.parameters.append(name)
        return name

    def state(self, name: str, shape: Sequence[int]) -> str:
        """A tensor that every micro-batch updates and no gradient reads, in fp32 and zero at first."""
        self.values[name] = Value(TensorType(tuple(shape), DType.FP32), Role.STATE)
        return name

    def cache(self, name: str, shape: Sequence[int], dtype: DType) -> str:
        """A KV cache, which the passes of a generation share, zero at first."""
        self.values[name] = Value(TensorType(tuple(shape), dtype), Role.CACHE)
        return name

    def update(self, name: str, operator: Operator, states: Sequence[str], *inputs: str) -> None:
        """An operator that replaces states by what it makes of them and its other inputs."""
        self.nodes.append(Node(name, operator, (*states, *inputs), tuple(states)))

    def add(self, name: str, operator: Operator, *inputs: str) -> str:
        """An operator; the name of its first output."""
        return self.adds(name, operator, *inputs)[0]

    def adds(self, name: str, operator: Operator, *inputs: str) -> tuple[str, ...]:
        """An operator; the names of all its outputs."""
        kinds = operator.infer([self.values[value].type for value in inputs])
        outputs = tuple(f"{name}.out{index}" if index else f"{name}.out" for index in range(len(kinds)))
        self.values.update(zip(outputs, map(Value, kinds), strict=True))
        self.nodes.append(Node(name, operator, inputs, outputs))
        return outputs

    def block(self, outputs: dict[str, str], loss: str | None = None) -> Block:
        """The finished block, its outgoing values renamed to their public names."""
        names = {inner: outer for outer, inner in outputs.items()}
        nodes = tuple(
            Node(
                node.name,
                node.operator,
                tuple(names.get(value, value) for value in node.inputs),
                tuple(names.get(value, value) for value in node.outputs),
            )
            for node in self.nodes
        )
        values = {names.get(name, name): value for name, value in self.values.items()}
        return Block(
            self.name,
            tuple(self.feeds),
            tuple(self.inputs),
            tuple(outputs),
            tuple(self.parameters),
            values,
            nodes,
            loss=loss,
        )
