"""MindSpore's files of a plan: its strategy file, and the group file of a rank."""

from __future__ import annotations

from simcluster.errors import PlanError
from simcluster.job import CheckpointContent, GroupFile, StrategyFile, restore_ranks
from simcluster.model import Operator, Phase
from simcluster.plan import Plan
from simcluster.program import build
from simcluster.scenario import Scenario
from simcluster.simulation.checkpoints.plan_content import content_of
from simcluster.simulation.compose import plan_scenario


def strategy_file_of(scenario: Scenario, *, only_trainable: bool = True) -> StrategyFile:
    """The strategy file of a scenario's plan: its parameters, and the strategies of all forward operators.

    Without ``only_trainable`` optimizer states have entries of their own. ScenarioError for layouts that
    MindSpore has no form for.
    """
    plan = plan_scenario(scenario)
    content = content_of(build(plan), plan.vocab, weights_only=only_trainable)
    return StrategyFile.of(content, _strategies(plan))


def _strategies(plan: Plan) -> dict[int, dict[str, list[list[int]]]]:
    """By stage and operator into how many parts every dim of every input is split."""
    strategies: dict[int, dict[str, list[list[int]]]] = {}
    for instance in plan.logical.instances:
        chosen = plan.strategies.of(instance.name)
        for node in plan.logical.block_of(instance).phase(Phase.FORWARD):
            if node.name not in chosen or not isinstance(node.operator, Operator):
                continue
            strategy, dims = chosen[node.name], node.operator.dims()
            parts = [[plan.mesh.product(strategy.axes(dim)) for dim in names] for names in dims.inputs]
            strategies.setdefault(instance.stage, {})[f"{instance.name}.{node.name}"] = parts
    return strategies


def group_file_of(scenario: Scenario, rank: int) -> GroupFile:
    """The group file of a rank: groups that it communicates in, and ranks that it can restore from.

    Raises PlanError for a rank that the plan does not have.
    """
    program = build(plan_scenario(scenario))
    if rank >= program.mesh.num_ranks:
        raise PlanError(f"there is no rank {rank}: the plan has ranks 0 to {program.mesh.num_ranks - 1}")
    content: CheckpointContent = content_of(program)
    groups: dict[str, list[int]] = {}
    for axes in program.groups:
        for members in program.mesh.groups(axes).tolist():
            if rank in members and len(members) > 1:
                groups["-".join(map(str, members))] = members
    return GroupFile(groups, restore_ranks(content, rank))
