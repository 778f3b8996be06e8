"""The graph of a small transformer behind the passes before one that is looked at, each made once."""

from __future__ import annotations

from functools import cache

from simcluster.layout import Mesh
from simcluster.model import Graph
from simcluster.model.operators.optimizer import AdamW, Update
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.plan.optimizer.optimizer_plan import OptimizerPlan
from simcluster.plan.optimizer.optimizer_step import optimize
from simcluster.plan.precision.fp8_matmuls import Fp8Plan, quantise
from simcluster.plan.rules.strategy_rule import AxisRoles, StrategyRule
from simcluster.plan.sharding.graph_sharding import shard
from simcluster.plan.spec import RecipeSpec
from simcluster.plan.spec.optimizer_sharding import ShardingChoice
from simcluster.plan.strategies.assignment import Strategies, assign_strategies
from simcluster.work import DType
from tests.support.plan_graphs import LLAMA, router

MESH = Mesh.of({"pipeline": 1, "data": 2, "tensor": 2})
ADAM, UNSHARDED = AdamW(), ShardingChoice()
ROLES = AxisRoles({"batch": ("data",), "pipeline": ("pipeline",)})


@cache
def forward(dtype: DType = DType.FP32) -> Graph:
    """Two layers between an embedding and a head, on four sequences of four tokens."""
    return LLAMA.graph(4, 4, dtype, 16)


@cache
def differentiated(dtype: DType = DType.FP32) -> Graph:
    return differentiate(forward(dtype), DType.FP32)


def recipe_strategies(graph: Graph, recipe: str, mesh: Mesh) -> Strategies:
    """What a recipe says of a graph."""
    rules = [
        StrategyRule(entry.match, entry.alternatives(), f"recipe {recipe}")
        for entry in RecipeSpec.load(recipe).strategies
    ]
    return assign_strategies(graph, rules[::-1], mesh, ROLES)


@cache
def sharded(recipe: str = "megatron", mesh: Mesh = MESH, dtype: DType = DType.FP32) -> Graph:
    return shard(differentiated(dtype), recipe_strategies(forward(dtype), recipe, mesh), mesh, router(mesh))


@cache
def optimized(
    sharding: ShardingChoice = UNSHARDED, update: Update = ADAM, recipe: str = "megatron", mesh: Mesh = MESH
) -> Graph:
    states = dict.fromkeys(update.states, DType.FP32)
    plan = OptimizerPlan(update, None, states, sharding)
    return optimize(sharded(recipe, mesh), plan, mesh, router(mesh), "pipeline")


@cache
def in_fp8(recipe: str, mesh: Mesh = MESH) -> Graph:
    """The sharded graph with the products of ``mlp.up`` on fp8 copies, cast behind redistributions."""
    plan = Fp8Plan(
        DType.FP8, ("layers.*.mlp.up",), gathers=False, exchanges=False, keep=True, transposed=False
    )
    logical = quantise(differentiated(DType.BF16), plan)
    return shard(logical, recipe_strategies(forward(DType.BF16), recipe, mesh), mesh, router(mesh))
