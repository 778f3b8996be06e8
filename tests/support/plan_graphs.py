"""Small graphs written by hand, and their values: whole on one device, in parts on every rank of a mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simcluster.layout import Mesh, Movement, MovementKind, Strategy
from simcluster.model import (
    Block,
    Graph,
    Instance,
    Node,
    Operator,
    Phase,
    Region,
    Role,
    TensorType,
    Transformer,
    Value,
)
from simcluster.model.operators.matmul import Matmul
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.plan.redistribution.redistribution_planner import RedistributionPlanner
from simcluster.plan.sharding.block_sharder import BlockSharder
from simcluster.plan.sharding.graph_sharding import shard
from simcluster.plan.strategies.assignment import Strategies
from simcluster.work import DType
from tests.support.layout_arrays import Tensor, check, moved, part, position

WHOLE = Region({})
MESH = Mesh.of({"data": 2, "tensor": 2})
TENSOR = ["tensor"]
LLAMA = Transformer(layers=2, hidden=8, heads=4, kv_heads=2, head_dim=2, ffn=12, vocab=16)
GPT = Transformer(
    layers=2,
    hidden=8,
    heads=4,
    kv_heads=4,
    head_dim=2,
    ffn=12,
    vocab=16,
    norm="layer",
    activation="gelu",
    positions="learned",
    max_positions=6,
    bias=True,
    tied=True,
)


@dataclass
class Writer:
    """Writes one block; a value is called after the operator that makes it."""

    name: str = "layer"
    dtype: DType = DType.FP32
    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    feeds: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    def feed(self, name: str, *shape: int, dtype: DType = DType.INT64) -> str:
        self.feeds.append(name)
        self.values[name] = Value(TensorType(shape, dtype), Role.FEED)
        return name

    def input(self, name: str, *shape: int) -> str:
        self.inputs.append(name)
        self.values[name] = Value(TensorType(shape, self.dtype))
        return name

    def parameter(self, name: str, *shape: int) -> str:
        self.parameters.append(name)
        self.values[name] = Value(TensorType(shape, self.dtype), Role.PARAMETER)
        return name

    def adds(self, name: str, operator: Operator, *inputs: str) -> tuple[str, ...]:
        kinds = operator.infer([self.values[value].type for value in inputs])
        outputs = (name, *(f"{name}.{index}" for index in range(1, len(kinds))))
        self.values.update(zip(outputs, map(Value, kinds), strict=True))
        self.nodes.append(Node(name, operator, inputs, outputs))
        return outputs

    def add(self, name: str, operator: Operator, *inputs: str) -> str:
        return self.adds(name, operator, *inputs)[0]

    def matmul(self, name: str, x: str, weight: str, spec: str) -> str:
        """``spec`` as einsum would have it: ``batch in, in out -> batch out``."""
        operands, result = spec.split("->")
        left, right = (tuple(names.split()) for names in operands.split(","))
        return self.add(name, Matmul(left, (right,), (tuple(result.split()),)), x, weight)

    def block(self, *outputs: str, loss: str | None = None) -> Block:
        return Block(
            self.name,
            tuple(self.feeds),
            tuple(self.inputs),
            outputs,
            tuple(self.parameters),
            self.values,
            tuple(self.nodes),
            loss=loss,
        )


def chain(*blocks: Block, ties: Sequence[tuple[str, ...]] = ()) -> Graph:
    """One instance of every block, each reading the outputs of the one before."""
    instances: list[Instance] = []
    for block in blocks:
        last = instances[-1] if instances else None
        outputs = blocks[len(instances) - 1].outputs if last else ()
        before = last.output if last else "outside:{}".format
        inputs = tuple(map(before, outputs if last else block.inputs))
        instances.append(Instance(block.name, block.name, inputs))
    return Graph({block.name: block for block in blocks}, tuple(instances), tuple(ties))


def strategies(graph: Graph, chosen: Mapping[str, Mapping[str, Sequence[str]]]) -> Strategies:
    """``chosen`` by node name, everything else replicated."""
    by_instance = {
        instance.name: {
            node.name: Strategy.of(chosen.get(node.name, {}))
            for node in graph.block_of(instance).phase(Phase.FORWARD)
        }
        for instance in graph.instances
    }
    return Strategies(
        by_instance, {name: dict.fromkeys(found, "test") for name, found in by_instance.items()}
    )


_SHARE = {
    MovementKind.SLICE: 0,
    MovementKind.ALL_GATHER: 1,
    MovementKind.ALL_TO_ALL: 1,
    MovementKind.REDUCE_SCATTER: 1,
    MovementKind.ALL_REDUCE: 2,
}


def router(mesh: Mesh) -> RedistributionPlanner:
    """Costs are the bytes a rank receives, and a little for every step."""

    def cost(movement, size):
        ways = mesh.product(movement.axes)
        return 1e-3 + _SHARE[movement.kind] * size * (ways - 1) / ways

    return RedistributionPlanner(mesh, cost)


def movements_of(block: Block, *phases: Phase) -> list[Node]:
    """The collectives of some phases."""
    return [
        node
        for node in block.nodes
        if isinstance(node.operator, Movement)
        and node.operator.is_collective
        and node.phase in (phases or Phase)
    ]


def told(block: Block, *phases: Phase) -> list[str]:
    """The collectives of some phases as text."""
    return [f"{node.operator.kind} {'+'.join(node.operator.axes)}" for node in movements_of(block, *phases)]


def draw(block: Block, seed: int = 0) -> dict[str, np.ndarray]:
    """Whole arrays for what enters a block: inputs, parameters, feeds, and the gradients of its outputs."""
    rng = np.random.default_rng(seed)
    entering = (
        *block.inputs,
        *block.parameters,
        *block.feeds,
        *(block.gradients[out] for out in block.outputs),
    )
    found = {}
    for name in entering:
        kind = block.values[name].type
        found[name] = (
            rng.standard_normal(kind.shape) if kind.dtype.is_float else rng.integers(0, 8, kind.shape)
        )
    return found


def on_one_device(block: Block, entering: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every value of a differentiated block; what several nodes add into an accumulator is added up."""
    values = dict(entering)
    for node in block.nodes:
        made = node.operator.evaluate([values[name] for name in node.inputs], WHOLE)
        for name, array in zip(node.outputs, made, strict=True):
            adds = block.values[name].role is Role.ACCUMULATOR and name in values
            values[name] = values[name] + array if adds else array
    return values


def on_ranks(block: Block, mesh: Mesh, entering: Mapping[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Every value of a sharded block on every rank."""
    values = {
        name: [part(whole, block.values[name].layout.reduced, mesh, rank) for rank in range(mesh.num_ranks)]
        for name, whole in entering.items()
    }
    for node in block.nodes:
        if isinstance(node.operator, Movement):
            (name,), (out,) = node.inputs, node.outputs
            made = [moved_values(node.operator, block, name, out, values[name], mesh)]
        else:
            ranks = range(mesh.num_ranks)
            made = zip(*(computed(node, mesh, rank, values, block) for rank in ranks), strict=True)
        for name, arrays in zip(node.outputs, made, strict=True):
            if block.values[name].role is Role.ACCUMULATOR and name in values:
                arrays = [before + new for before, new in zip(values[name], arrays, strict=True)]
            values[name] = list(arrays)
    return values


def moved_values(movement, block, name, out, arrays, mesh):
    tensor = Tensor(mesh, np.empty(block.values[name].type.shape), ())
    return moved(movement, block.values[out].layout, arrays, tensor)


def computed(node: Node, mesh: Mesh, rank: int, values, block: Block) -> tuple[np.ndarray, ...]:
    arrays = [values[name][rank] for name in node.inputs]
    for index, axes in node.masked:
        if position(rank, axes, mesh):
            arrays[index] = np.zeros_like(arrays[index])
    extent: dict[str, int] = {}
    for names, array in zip(node.operator.dims().inputs, arrays, strict=True):
        extent.update(zip(names, array.shape, strict=True))
    for names, value in zip(node.operator.dims().outputs, node.outputs, strict=True):
        kind = block.values[value]
        if not kind.layout.flat:
            shape = kind.layout.local_shape(kind.type.shape, mesh)
            extent = dict(zip(names, shape, strict=True)) | extent
    split = {dim: axes for dim, axes in node.strategy.splits if dim in extent}
    starts = {dim: position(rank, axes, mesh) * extent[dim] for dim, axes in split.items()}
    return node.operator.evaluate(arrays, Region(starts, sizes={dim: extent[dim] for dim in split}))


def check_values(logical: Block, sharded: Block, mesh: Mesh, seed: int = 0) -> None:
    """Every rank holds its part of every value that one device computes too."""
    entering = draw(logical, seed)
    wanted = on_one_device(logical, entering)
    renamed = {sharded.gradients[name]: grad for name, grad in logical.gradients.items()}
    held = on_ranks(sharded, mesh, entering)
    for name, arrays in held.items():
        whole = wanted.get(renamed.get(name, name))
        if whole is not None:
            check(arrays, sharded.values[name].layout, Tensor(mesh, whole, ()))
    for name in logical.gradients.values():
        assert name in held or name in renamed.values()


def sharded(graph, chosen, mesh=MESH, seed=0, way=None):
    """The sharded graph; every value of every block is checked on all ranks. ``way``: how things move."""
    logical = differentiate(graph, DType.FP32)
    found = chosen if isinstance(chosen, Strategies) else strategies(graph, chosen)
    made = shard(logical, found, mesh, replace(router(mesh), **(way or {})))
    for instance in made.instances:
        origin = logical.blocks[instance.block.partition("#")[0]]
        check_values(origin, made.block_of(instance), mesh, seed)
    return made


def one(block, chosen, mesh=MESH):
    """One sharded block whose inputs come as their first readers want them; its values are checked."""
    logical = differentiate(chain(block), DType.FP32).blocks[block.name]
    by_node = {node.name: Strategy.of(chosen.get(node.name, {})) for node in block.nodes}
    incoming = []
    for value in block.inputs:
        reader = next(node for node in block.nodes if value in node.inputs)
        names = reader.operator.dims().inputs[reader.inputs.index(value)]
        incoming.append(by_node[reader.name].layout(names))
    sharder = BlockSharder(logical, by_node, mesh, router(mesh))
    made = sharder.run(incoming, [None] * len(block.outputs), {}, {})
    check_values(logical, made, mesh)
    return made
