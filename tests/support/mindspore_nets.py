"""Small nets with strategies as MindSpore's documents have them."""

from __future__ import annotations

from simcluster.layout import Mesh
from simcluster.model import Block
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.plan.redistribution.redistribution_planner import RedistributionPlanner
from simcluster.plan.rules.strategy_rule import AxisRoles, StrategyRule
from simcluster.plan.sharding.graph_sharding import shard
from simcluster.plan.strategies.assignment import assign_strategies
from simcluster.plan.strategies.mesh_subaxes import split_mesh_axes
from simcluster.work import DType
from tests.support.plan_graphs import Writer, chain, check_values, router


def rule(match, *inputs, **options):
    entries = tuple(tuple(n if n > 1 else () for n in dims) for dims in inputs)
    return StrategyRule(match, ({},), "scenario", "x", entries, **options)


def planned(write, *rules, devices=8, outputs, mindspore=False):
    """The sharded block on ``devices`` ranks of one axis, cut as strategies need; its values are checked."""
    graph = chain(write.block(*outputs))
    mesh, roles = split_mesh_axes(graph, rules, Mesh.of({"devices": devices}), AxisRoles({}), "")
    chosen = assign_strategies(graph, rules, mesh, roles)
    logical = differentiate(graph, DType.FP32)
    way = (
        RedistributionPlanner(mesh, router(mesh).cost, infers=True, all_to_all=False)
        if mindspore
        else router(mesh)
    )
    made = shard(logical, chosen, mesh, way)
    block = made.blocks[write.name]
    check_values(logical.blocks[write.name], block, mesh)
    return block, mesh


def net(*layers, rows=64):
    """A chain of products on a fed input, each given by name, and rows and columns of its weight."""
    write = Writer("net")
    x = write.feed("in", rows, layers[0][1], dtype=DType.FP32)
    for number, (name, *shape) in enumerate(layers):
        weight = write.parameter(f"w{number + 1}", *shape)
        x = write.matmul(name, x, weight, f"b d{number}, d{number} d{number + 1} -> b d{number + 1}")
    return write, x


def local(block: Block, mesh: Mesh, value: str) -> tuple[int, ...]:
    kind = block.values[value]
    return kind.layout.local_shape(kind.type.shape, mesh)


def groups(mesh: Mesh, axes) -> list[list[int]]:
    return sorted(sorted(group) for group in mesh.groups(axes).tolist())
