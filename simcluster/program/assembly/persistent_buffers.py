"""Buffers that outlive a step: weights, gradients, optimizer states, and views of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims, Mesh
from simcluster.model import (
    Block,
    Fp8Cast,
    Graph,
    Instance,
    Node,
    Operator,
    Phase,
    Role,
    TensorType,
    Value,
)
from simcluster.program.isa import Category, PersistentBuffer
from simcluster.program.lowering import PERSISTENT, Lowering, local_type

MASTER = "master"
"""What master copies are called behind their parameter."""


@dataclass(frozen=True, slots=True)
class _PersistentValue:
    """A value of a block that outlives the step, as all instances of the block have it.

    ``source`` is the parameter whose initial values it starts with. ``tensor`` is the parameter that it is,
    or that it belongs to, in a checkpoint, ``suffix`` what is behind that there; a state without one
    ``runs`` along by itself.
    """

    name: str
    category: Category
    num_bytes: int
    kind: Value
    source: str
    tensor: str
    suffix: str
    runs: bool


@dataclass(frozen=True)
class PersistentBuffers:
    """The buffers of instances that outlive the step; what instances of one block share is found once.

    Views of others take no memory but hold values, and with ``split_masters`` master copies of 16-bit weights
    take half of theirs: the upper halves of fp32 numbers are bf16 ones. With ``fp8_weights`` weights that are
    cast to fp8 take none beside what they are cast to.
    """

    graph: Graph
    mesh: Mesh
    split_masters: bool = False
    fp8_weights: bool = False

    def of(
        self, instances: Sequence[Instance], buffer: Callable[[str, str], str]
    ) -> Iterator[PersistentBuffer]:
        """Those of some instances, each once; ``buffer`` gives a value's name."""
        known: set[str] = set()
        for instance in instances:
            owner = instance.weight_owner
            for value in self._lasting[instance.block]:
                name = buffer(instance.name, value.name)
                if name in known:
                    continue
                known.add(name)
                origin = self.graph.canonical(f"{owner}.{value.source}") if value.source else ""
                if not value.tensor:
                    tensor = f"{instance.name}.{value.name}" if value.runs else ""
                elif value.tensor == value.source:
                    tensor = origin + value.suffix
                else:
                    tensor = self.graph.canonical(f"{owner}.{value.tensor}") + value.suffix
                kind = value.kind
                assert kind.layout is not None
                yield PersistentBuffer(
                    name, value.category, value.num_bytes, kind.type, kind.layout, origin, kind.place, tensor
                )

    @cached_property
    def _lasting(self) -> Mapping[str, list[_PersistentValue]]:
        return {name: list(self._of_block(block)) for name, block in self.graph.blocks.items()}

    def _of_block(self, block: Block) -> Iterator[_PersistentValue]:
        owners = _owners(block)
        for name, kind in block.values.items():
            if kind.role not in PERSISTENT and not kind.copy_of:
                continue
            parameter = kind.role is Role.PARAMETER
            size = 0 if kind.role is Role.VIEW else local_type(kind, self.mesh).num_bytes
            if self.split_masters and name in owners and name.endswith(f".{MASTER}"):
                size //= 2
            if self.fp8_weights and _is_cast_to_fp8(block, name):
                size = 0
            source = name if parameter else kind.copy_of
            if parameter or kind.role is Role.VIEW:
                tensor, suffix = source, ""
            else:
                tensor, state = owners.get(name, ("", ""))
                suffix = f".{state}"
            category = PERSISTENT.get(kind.role, Category.PARAMETERS)
            runs = kind.role is Role.STATE and name in block.states
            yield _PersistentValue(name, category, size, kind, source, tensor, suffix, runs)


def _is_cast_to_fp8(block: Block, value: str) -> bool:
    """Whether a value is a parameter of which matmuls read nothing but casts to fp8."""
    if block.values[value].role is not Role.PARAMETER:
        return False
    readers = [node for node in block.nodes if value in node.inputs and node.phase is not Phase.END]
    return bool(readers) and all(isinstance(node.operator, Fp8Cast) for node in readers)


def _owners(block: Block) -> dict[str, tuple[str, str]]:
    """Of what may belong to a parameter, as its states do: value -> parameter, and what it is of it."""
    states = [value for value, kind in block.values.items() if kind.role is Role.STATE]
    return {
        value: (parameter, value[len(parameter) + 1 :])
        for parameter in block.parameters
        for value in states
        if value.startswith(f"{parameter}.")
    }


def gradient_placeholders(
    graph: Graph, instances: Sequence[Instance], settings: Lowering
) -> Iterator[PersistentBuffer]:
    """The empty weight gradients that a framework keeps, one for every shape, where its profile says so.

    The weights of one operator are one; of a stack of matrices (experts) a single one.
    """
    families = settings.policy.storage.placeholders
    sizes: dict[tuple[tuple[int, ...], ...], int] = {}
    blocks = {instance.block: graph.block_of(instance) for instance in instances if instance.is_layer}
    for block in blocks.values() if families else ():
        for node in block.phase(Phase.FORWARD):
            if isinstance(node.operator, Operator) and node.operator.family in families:
                weights = list(_matrices(block, node, node.operator.dims(), settings.mesh))
                shapes = tuple(kind.shape for kind in weights)
                sizes.setdefault(shapes, sum(kind.num_bytes for kind in weights))
    if sizes:
        yield PersistentBuffer.reserved("gradient placeholders", Category.TEMPORARY, sum(sizes.values()))


def operand_buffers(
    graph: Graph, instances: Sequence[Instance], settings: Lowering
) -> Iterator[PersistentBuffer]:
    """The buffer that a framework keeps for operands of layers, where its profile says so."""
    families = settings.policy.storage.operand_buffers
    blocks = {instance.block: graph.block_of(instance) for instance in instances if instance.is_layer}
    sizes = [
        max(local_type(block.values[value], settings.mesh).num_bytes for value in node.inputs)
        for block in (blocks.values() if families else ())
        for node in block.phase(Phase.FORWARD)
        if isinstance(node.operator, Operator) and node.operator.family in families
    ]
    if sizes:
        yield PersistentBuffer.reserved("operand buffer", Category.TEMPORARY, max(sizes))


def _matrices(block: Block, node: Node, dims: Dims, mesh: Mesh) -> Iterator[TensorType]:
    """The weights of an operator as a rank holds them, without the dims along which they are stacked."""
    for labels, value in zip(dims.inputs, node.inputs, strict=True):
        kind = block.values[value]
        if kind.role not in (Role.PARAMETER, Role.COPY) and not kind.copy_of:
            continue
        local = local_type(kind, mesh)
        kept = [
            size
            for size, label in zip(local.shape, labels, strict=True)
            if not all(label in operand for operand in (*dims.inputs, *dims.outputs))
        ]
        yield TensorType(tuple(kept), local.dtype)
