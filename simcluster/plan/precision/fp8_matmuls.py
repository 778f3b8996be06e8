"""Pass: matmuls on operands in fp8 or nvfp4, with the casts that they need.

A chosen matmul reads narrow copies of its operands; so do the two matmuls of its gradient. Every tensor is
cast once and the copy shared: an activation's by forward and weight gradient, a gradient's by both gradient
matmuls, a weight's by all micro-batches of a step (``fp8_casts.cast_once_per_step``, after sharding).

Whether a cast comes before or after a redistribution decides what is sent. With ``gathers`` a cast has the
layout in which its operand is made, so the copy is sent; otherwise it has the layout that the matmul needs,
and the operand is sent in its own format.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.errors import PlanError
from simcluster.model import (
    E4M3,
    E5M2,
    Block,
    Fp8Cast,
    Graph,
    Narrow,
    Node,
    Nvfp4Cast,
    Operator,
    Phase,
    Role,
    TensorType,
    Value,
)
from simcluster.work import DType

_GRADIENTS = (Role.GRADIENT, Role.SUM)
_ADAPTER = "lora_"
_OF_EXPERTS = "experts"
"""The dim of tokens in the order of experts, which only operands exchanged between ranks have."""


@dataclass(frozen=True, slots=True)
class Fp8Plan:
    """Which matmuls run in a narrow format, and how copies of their operands are kept and sent."""

    format: DType
    """fp8 or nvfp4."""

    operators: tuple[str, ...]
    """Patterns of operator names."""
    gathers: bool
    """Operands are cast before they are redistributed for a matmul, but for those of experts."""
    exchanges: bool
    """Operands of experts' matmuls, too."""
    keep: bool
    """The narrow copy of an activation is saved for the weight gradient; otherwise the activation, which is
    cast again."""
    transposed: bool
    """Matmuls that contract another dim than the last of an operand need a transposed copy: fp8 on Hopper,
    nvfp4."""


def quantise(graph: Graph, plan: Fp8Plan) -> Graph:
    """The differentiated graph with matmuls on narrow copies; PlanError if a pattern matches none."""
    idle = set(plan.operators)
    chosen = {
        instance.name: frozenset(_chosen(graph.block_of(instance), instance.name, plan.operators, idle))
        for instance in graph.instances
    }
    if idle:
        pattern = next(pattern for pattern in plan.operators if pattern in idle)
        raise PlanError(
            f"'{pattern}' matches no matrix product",
            path=f"training.precision.{plan.format}.operators",
            hint="name operators as parallel.strategies does, such as layers.*.mlp.*",
        )
    return graph.specialised(
        chosen,
        lambda block, instance: (
            _Quantiser(block, chosen[instance.name], plan).run() if chosen[instance.name] else block
        ),
        lambda key, keys: f".{keys.index(key) + 1}" if key != keys[0] else "",
    )


def _chosen(block: Block, instance: str, patterns: Sequence[str], idle: set[str]) -> Iterator[str]:
    for node in block.phase(Phase.FORWARD):
        if _narrowed(node, block) is None:
            continue
        if node.name in block.follows and not any(_ADAPTER in pattern for pattern in patterns):
            # Adapters are matmuls of the framework's own beside those of the library that has fp8.
            continue
        fitting = [pattern for pattern in patterns if matches(pattern, f"{instance}.{node.name}")]
        idle.difference_update(fitting)
        if fitting:
            yield node.name


def _narrowed(node: Node, block: Block) -> Operator | None:
    """The node's operator on narrow operands, if there is such a kernel."""
    assert isinstance(node.operator, Operator)
    return node.operator.rewrite(Narrow(block.values[node.outputs[0]].type.dtype))


@dataclass(frozen=True, slots=True)
class _Copy:
    """A narrow copy: of which value, in which format, made in which phase, made ``again`` in backward, lying
    transposed.
    """

    value: str
    format: DType
    phase: Phase
    again: bool
    transposed: bool

    @property
    def name(self) -> str:
        """The name of the copy as a value."""
        return f"{self.value}.{self.format}{'.again' * self.again}{'.transposed' * self.transposed}"


@dataclass
class _Quantiser:
    block: Block
    chosen: frozenset[str]
    plan: Fp8Plan
    values: dict[str, Value] = field(default_factory=dict)
    wanted: dict[_Copy, tuple[Node, int]] = field(default_factory=dict)

    def run(self) -> Block:
        """The block with casts before its chosen products."""
        self.values = dict(self.block.values)
        nodes = [self._product(node) for node in self.block.nodes]
        casts = self._casts()
        return replace(self.block, values=self.values, nodes=tuple(self._ordered(nodes, casts)))

    def _product(self, node: Node) -> Node:
        if node.source not in self.chosen:
            return node
        operator = _narrowed(node, self.block)
        if operator is None:
            return node
        copies = [self._copy(node, index) for index in range(len(node.inputs))]
        for index, copy in enumerate(copies):
            self.wanted.setdefault(copy, (node, index))
        return replace(node, operator=operator, inputs=tuple(copy.name for copy in copies))

    def _copy(self, node: Node, index: int) -> _Copy:
        """The copy that a product reads in place of an operand."""
        value = node.inputs[index]
        role = self.block.values[value].role
        backward = node.phase is Phase.BACKWARD
        again = backward and role not in (*_GRADIENTS, Role.PARAMETER) and not self.plan.keep
        phase = Phase.BACKWARD if again or role in _GRADIENTS else Phase.FORWARD
        across = backward if role is Role.PARAMETER else _summed_across(node, index)
        return _Copy(value, self.plan.format, phase, again, self.plan.transposed and across)

    def _casts(self) -> Mapping[tuple[str, Phase], Node]:
        """(value, phase) -> the cast that makes its copies."""
        groups: defaultdict[tuple[str, Phase], list[_Copy]] = defaultdict(list)
        for copy in self.wanted:
            groups[copy.value, copy.phase].append(copy)
        return {key: self._cast(*key, copies) for key, copies in groups.items()}

    def _cast(self, value: str, phase: Phase, copies: Sequence[_Copy]) -> Node:
        kind = self.block.values[value]
        weight = kind.role is Role.PARAMETER
        gradient = kind.role in _GRADIENTS
        role = Role.COPY if weight else Role.GRADIENT if gradient else Role.ACTIVATION
        ordered = sorted(copies, key=lambda copy: copy.transposed)
        for copy in ordered:
            self.values[copy.name] = Value(TensorType(kind.type.shape, self.plan.format), role)
        reader, index = self.wanted[copies[0]]
        assert isinstance(reader.operator, Operator)
        labels = reader.operator.dims().inputs[index]
        operator: Fp8Cast
        if self.plan.format is DType.NVFP4:
            operator = Nvfp4Cast(labels, copies=len(copies), transformed=not weight)
        else:
            operator = Fp8Cast(labels, E5M2 if gradient else E4M3, len(copies))
        early = self.plan.exchanges if _OF_EXPERTS in labels else self.plan.gathers
        follows = early and not weight
        name = f"{value}.{'recast' if ordered[0].again else 'cast'}"
        outputs = tuple(copy.name for copy in ordered)
        return Node(name, operator, (value,), outputs, phase, origin="" if follows else reader.source)

    def _ordered(self, nodes: Sequence[Node], casts: Mapping[tuple[str, Phase], Node]) -> Iterator[Node]:
        """The nodes with every cast right behind what makes its operand, or before its first reader."""
        left = dict(casts)
        for node in nodes:
            for value in node.inputs:
                due = [key for key, cast in left.items() if value in cast.outputs]
                for key in due:
                    yield left.pop(key)
            yield node
            for value in node.outputs:
                if (value, node.phase) in left:
                    yield left.pop((value, node.phase))


def _summed_across(node: Node, index: int) -> bool:
    """Whether a product sums over other dims of an operand than its last one."""
    assert isinstance(node.operator, Operator)
    dims = node.operator.dims()
    kept = {name for names in dims.outputs for name in names}
    return dims.inputs[index][-1] in kept
