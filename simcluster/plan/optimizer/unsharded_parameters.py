"""Which parameters every rank that uses them keeps whole, though weights are sharded."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.layout import Mesh
from simcluster.model import Block, Graph, TensorType
from simcluster.plan.optimizer.optimizer_plan import parameter_names
from simcluster.plan.rules import check_patterns
from simcluster.plan.spec import ShardingChoice
from simcluster.work import DType


def spared_parameters(graph: Graph, sharding: ShardingChoice) -> set[str]:
    """The full names of parameters that a pattern spares from sharding; all copies of a tied one are.

    PlanError if a pattern names no parameter.
    """
    if not sharding.whole:
        return set()
    groups = {name: group for group in graph.ties for name in group}
    names = parameter_names(graph)
    check_patterns(sharding.whole, names, "parameter", "parallel.optimizer_sharding.whole.{}")
    return {name for name in names if sharding.spares(groups.get(name, (name,)))}


def whole_parameters(
    graph: Graph, sharding: ShardingChoice, held: DType, mesh: Mesh
) -> Mapping[str, frozenset[str]]:
    """Instance -> the parameters of its block that are not sharded: spared, too small, of a size that ranks
    do not divide, held once already, or updated by rows.

    ``held`` is the number format that weights are stored in.
    """
    spared = spared_parameters(graph, sharding)

    def is_whole(block: Block, name: str) -> bool:
        value = block.values[name]
        assert value.layout is not None
        kind = value.type if name in block.frozen else TensorType(value.type.shape, held)
        return name in block.row_gradients or sharding.home(value.layout, kind, mesh) == value.layout

    whole = {
        name: frozenset(parameter for parameter in block.parameters if is_whole(block, parameter))
        for name, block in graph.blocks.items()
    }
    return {
        instance.name: whole[instance.block].union(
            name
            for name in graph.block_of(instance).parameters
            if f"{instance.weight_owner}.{name}" in spared
        )
        if spared
        else whole[instance.block]
        for instance in graph.instances
    }
