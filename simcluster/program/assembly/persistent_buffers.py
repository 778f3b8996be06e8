"""Buffers that outlive a step: weights, gradients, optimizer states, and views of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

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


def persistent_buffers_of(
    graph: Graph,
    instances: Sequence[Instance],
    mesh: Mesh,
    buffer: Callable[[str, str], str],
    *,
    split_masters: bool = False,
    fp8_weights: bool = False,
) -> Iterator[PersistentBuffer]:
    """The buffers of some instances that outlive the step, each once; ``buffer`` gives a value's name.

    Views of others take no memory but hold values, and with ``split_masters`` master copies of 16-bit weights
    take half of theirs: the upper halves of fp32 numbers are bf16 ones. With ``fp8_weights`` weights that are
    cast to fp8 take none beside what they are cast to.
    """
    buffers: dict[str, PersistentBuffer] = {}
    lasting: dict[str, list[tuple[str, Value, int]]] = {}
    owners: dict[str, dict[str, tuple[str, str]]] = {}
    for instance in instances:
        if instance.block not in lasting:
            block = graph.block_of(instance)
            lasting[instance.block], owners[instance.block] = list(_lasting(block, mesh)), _owners(block)
        for value, kind, size in lasting[instance.block]:
            assert kind.layout is not None
            name = buffer(instance.name, value)
            if name in buffers:
                continue
            source = value if kind.role is Role.PARAMETER else kind.copy_of
            origin = graph.canonical(f"{instance.weight_owner}.{source}") if source else ""
            if split_masters and value.endswith(f".{MASTER}") and value in owners[instance.block]:
                size //= 2
            if fp8_weights and _is_cast_to_fp8(graph.block_of(instance), value):
                size = 0
            category = PERSISTENT.get(kind.role, Category.PARAMETERS)
            tensor = _tensor(graph, instance, value, kind, owners[instance.block])
            buffers[name] = PersistentBuffer(
                name, category, size, kind.type, kind.layout, origin, kind.place, tensor
            )
    yield from buffers.values()


def _is_cast_to_fp8(block: Block, value: str) -> bool:
    """Whether a value is a parameter of which matmuls read nothing but casts to fp8."""
    if block.values[value].role is not Role.PARAMETER:
        return False
    readers = [node for node in block.nodes if value in node.inputs and node.phase is not Phase.END]
    return bool(readers) and all(isinstance(node.operator, Fp8Cast) for node in readers)


def _lasting(block: Block, mesh: Mesh) -> Iterator[tuple[str, Value, int]]:
    """The values of a block that outlive the step, with the bytes that a rank holds of each."""
    for name, kind in block.values.items():
        if kind.role in PERSISTENT or kind.copy_of:
            yield name, kind, 0 if kind.role is Role.VIEW else local_type(kind, mesh).num_bytes


def _owners(block: Block) -> dict[str, tuple[str, str]]:
    """Of what may belong to a parameter, as its states do: value -> parameter, and what it is of it."""
    return {
        value: (parameter, value[len(parameter) + 1 :])
        for parameter in block.parameters
        for value, kind in block.values.items()
        if kind.role is Role.STATE and value.startswith(f"{parameter}.")
    }


def _tensor(
    graph: Graph, instance: Instance, value: str, kind: Value, owners: Mapping[str, tuple[str, str]]
) -> str:
    """What a value is called in a checkpoint; nothing for what is in none."""
    if kind.role in (Role.PARAMETER, Role.VIEW):
        source = value if kind.role is Role.PARAMETER else kind.copy_of
        return graph.canonical(f"{instance.weight_owner}.{source}") if source else ""
    if value in owners:
        parameter, name = owners[value]
        return f"{graph.canonical(f'{instance.weight_owner}.{parameter}')}.{name}"
    running = kind.role is Role.STATE and value in graph.block_of(instance).states
    return f"{instance.name}.{value}" if running else ""


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
