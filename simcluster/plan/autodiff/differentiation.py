"""Pass: gives every block its backward operators, by the gradient that each operator defines.

It runs before sharding, so that no collective is ever differentiated.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.model import (
    ONE,
    Add,
    Block,
    Gradient,
    Graph,
    Instance,
    Node,
    Operator,
    Phase,
    Role,
    TensorType,
    Value,
)
from simcluster.work import DType

LOSS_KEY = "model.graph.loss"
"""The key of the loss of a model that is written operator by operator."""


def differentiate(graph: Graph, gradient_dtype: DType) -> Graph:
    """The graph with backward nodes; parameter gradients are accumulated in ``gradient_dtype``.

    A value that several instances read has a gradient to which each of them adds a term. So has a value that
    is computed from parameters alone: its gradient only leads on into accumulators. A value that no trained
    parameter takes part in has none: backward ends behind the first of them.
    """
    shared = _shared(graph)
    if not any(block.frozen for block in graph.blocks.values()):
        return graph.with_blocks(
            {
                name: _differentiated(block, gradient_dtype, shared[name], block.inputs)
                for name, block in graph.blocks.items()
            }
        )
    needed = _inputs_needing_gradients(graph)

    def rewrite(block: Block, instance: Instance) -> Block:
        inputs = needed[instance.name]
        own = [name for name in shared[block.name] if name in inputs]
        return _differentiated(block, gradient_dtype, own, inputs)

    def suffix(key: tuple[str, ...], keys: Sequence[tuple[str, ...]]) -> str:
        """Blocks where backward ends have names of their own."""
        return "" if key == max(keys, key=len) else f".front{keys.index(key) or ''}"

    return graph.specialised(needed, rewrite, suffix)


def _inputs_needing_gradients(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Instance -> its inputs that some trained parameter takes part in."""
    needing: set[str] = set()
    inputs: dict[str, tuple[str, ...]] = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        pairs = zip(block.inputs, instance.inputs, strict=True)
        inputs[instance.name] = tuple(inner for inner, outer in pairs if outer in needing)
        inside = values_needing_gradients(block, inputs[instance.name])
        needing.update(instance.output(value) for value in block.outputs if value in inside)
    return inputs


def _shared(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Block -> its inputs that some instance binds to a value which others read, or made of parameters."""
    readers = Counter(value for instance in graph.instances for value in instance.inputs)
    for instance in graph.instances:
        block = graph.block_of(instance)
        if not instance.inputs and not block.feeds:
            readers.update(instance.output(value) for value in block.outputs)
    shared: dict[str, dict[str, None]] = {name: {} for name in graph.blocks}
    for instance in graph.instances:
        for inner, outer in zip(graph.block_of(instance).inputs, instance.inputs, strict=True):
            if readers[outer] > 1:
                shared[instance.block][inner] = None
    return {name: tuple(inputs) for name, inputs in shared.items()}


GRADIENT_SUM = ".grad_sum"
"""Suffix of the node that sums the gradients of a value with several readers."""


def gradient_name(value: str) -> str:
    """The name of the gradient of a block's input or output, or of a parameter's accumulator."""
    return f"{value}.grad"


@dataclass(slots=True)
class _Tape:
    """Collects the backward nodes of one block."""

    values: dict[str, Value]
    needed: set[str]
    nodes: list[Node] = field(default_factory=list)
    current: Node | None = None

    def needs_gradient(self, value: str) -> bool:
        return value in self.needed

    def emit(self, suffix: str, operator: Operator, inputs: Sequence[Gradient]) -> tuple[str, ...]:
        assert self.current is not None
        assert isinstance(self.current.operator, Operator)
        name = f"{self.current.name}.{suffix}"
        inputs = _values(inputs, f"'{self.current.name}' ({self.current.operator.kind})")
        kinds = operator.infer([self.values[value].type for value in inputs])
        outputs = tuple(f"{name}.out{index}" if index else f"{name}.out" for index in range(len(kinds)))
        self.values.update(
            (out, Value(kind, Role.GRADIENT)) for out, kind in zip(outputs, kinds, strict=True)
        )
        self.nodes.append(
            Node(name, operator, tuple(inputs), outputs, Phase.BACKWARD, origin=self.current.name)
        )
        return outputs

    def add(self, value: str, terms: Sequence[str]) -> str:
        """The sum of the gradients that meet at a value used more than once."""
        kind = self.values[value].type
        labels = tuple(f"dim{index}" for index in range(len(kind.shape)))
        name = f"{value}{GRADIENT_SUM}"
        self.values[name] = Value(kind, Role.GRADIENT)
        self.nodes.append(Node(name, Add(labels, len(terms)), tuple(terms), (name,), Phase.BACKWARD))
        return name


def _differentiated(
    block: Block, gradient_dtype: DType, shared: Sequence[str], inputs: Sequence[str]
) -> Block:
    """The block with its backward; of its ``inputs`` those that need gradients."""
    values = dict(block.values)
    tape = _Tape(values, values_needing_gradients(block, inputs))
    terms: defaultdict[str, list[Gradient]] = defaultdict(list)
    gradients: dict[str, str] = {}
    if block.loss is not None:
        terms[block.loss].append(ONE)
        values[block.loss] = replace(values[block.loss], role=Role.ACCUMULATOR)
    for out in block.outputs:
        if block.frozen and out not in tape.needed:
            continue
        gradients[out] = gradient_name(out)
        values[gradients[out]] = Value(values[out].type, Role.GRADIENT)
        terms[out].append(gradients[out])
    for node in reversed(block.nodes):
        grads = [_gathered(tape, out, terms[out]) for out in node.outputs]
        if all(grad is None for grad in grads):
            continue
        assert isinstance(node.operator, Operator)
        tape.current = node
        try:
            made = node.operator.gradient(tape, node.inputs, node.outputs, grads)
        except NotImplementedError as error:
            raise PlanError(f"'{node.name}' cannot be differentiated: {error}") from None
        for value, grad in zip(node.inputs, made, strict=True):
            if grad is not None and value in tape.needed:
                terms[value].append(grad)
    for value in inputs:
        if value in shared:
            continue
        gradient = _gathered(tape, value, terms[value])
        if gradient is not None:
            (gradients[value],) = _values([gradient], f"'{value}'")
    added = {
        name: Value(_of_type(values[name], gradient_dtype), Role.ACCUMULATOR)
        for name in block.parameters
        if name not in block.frozen
    }
    added |= {name: Value(values[name].type, Role.SUM) for name in shared}
    nodes = _accumulating(added, tape, terms, gradients)
    return replace(block, values=values, nodes=(*block.nodes, *nodes), gradients=gradients)


def values_needing_gradients(block: Block, inputs: Sequence[str]) -> set[str]:
    """The values of a block that depend on a trained parameter or on one of these inputs."""
    needed = {*block.parameters, *inputs} - block.frozen
    for node in block.nodes:
        detached = node.operator.detached_inputs if isinstance(node.operator, Operator) else ()
        if any(value in needed for index, value in enumerate(node.inputs) if index not in detached):
            needed.update(out for out in node.outputs if block.values[out].type.dtype.is_float)
    return needed


def _gathered(tape: _Tape, value: str, terms: Sequence[Gradient]) -> Gradient | None:
    if len(terms) < 2:
        return terms[0] if terms else None
    numbers = [term for term in terms if isinstance(term, float)]
    if len(numbers) == len(terms):
        return sum(numbers)
    return tape.add(value, _values(terms, f"'{value}'"))


def _values(gradients: Sequence[Gradient], owner: str) -> list[str]:
    """Gradients that values hold; PlanError, which names their ``owner``, where one is a number."""
    named = [gradient for gradient in gradients if isinstance(gradient, str)]
    if len(named) < len(gradients):
        raise PlanError(
            f"{owner} cannot follow the loss, or be it",
            path=LOSS_KEY,
            hint="cross entropy makes losses; only sums over ranks, and products with numbers, may follow it",
        )
    return named


def _of_type(value: Value, dtype: DType) -> TensorType:
    return TensorType(value.type.shape, dtype)


def _accumulating(
    added: Mapping[str, Value],
    tape: _Tape,
    terms: Mapping[str, Sequence[Gradient]],
    gradients: dict[str, str],
) -> list[Node]:
    """The backward nodes with the gradients of what is ``added`` renamed to what they add to.

    A gradient that somebody else needs too is not renamed but added.
    """
    renamed: dict[str, str] = {}
    to_add = {name: _values(terms[name], f"'{name}'") for name in added}
    uses = Counter(value for node in tape.nodes for value in node.inputs)
    uses.update(gradients.values())
    uses.update(term for terms_of_value in to_add.values() for term in terms_of_value)
    for name, gradient in added.items():
        if not to_add[name]:
            continue
        gradients[name] = gradient_name(name)
        own = [term for term in to_add[name] if uses[term] == 1]
        elsewhere = [term for term in to_add[name] if uses[term] > 1]
        for term in [*own, tape.add(name, elsewhere)] if elsewhere else own:
            renamed[term] = gradients[name]
            del tape.values[term]
        tape.values[gradients[name]] = gradient
    return [
        replace(node, outputs=tuple(renamed.get(out, out) for out in node.outputs)) for node in tape.nodes
    ]
