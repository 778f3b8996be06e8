"""The number that the vocabulary has to be a multiple of: the ways over which strategies split it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from simcluster.layout import Mesh, SubAxis
from simcluster.model import Graph, Operator
from simcluster.plan.rules import AxisRoles, StrategyRule, Token, first_rule, stage_devices
from simcluster.plan.strategies.operand_splits import StrategyMismatch, split_candidates

VOCABULARY = "vocab"


def vocabulary_divisor_of(
    operators: Sequence[str],
    graph: Callable[[], Graph],
    rules: Sequence[StrategyRule],
    mesh: Mesh,
    roles: AxisRoles,
) -> int:
    """The ways over which some operators, by full name, are split by vocabulary.

    ``graph`` is only called if a rule is by operands, whose dims only the operator knows.
    """
    ways = 1
    for name in operators:
        index = first_rule(rules, name)
        if index is None:
            continue
        rule = rules[index]
        if rule.inputs is None and rule.layout is None:
            tokens: Sequence[Token] = rule.alternatives[0].get(VOCABULARY, ())
        else:
            tokens = _wished(graph(), name, rule, stage_devices(mesh, roles))
        ways = math.lcm(ways, math.prod(_size(token, mesh, roles) for token in tokens))
    return ways


def _wished(graph: Graph, name: str, rule: StrategyRule, devices: int) -> Sequence[Token]:
    for instance, node in graph.nodes():
        if f"{instance.name}.{node.name}" == name and isinstance(node.operator, Operator):
            try:
                return next(split_candidates(rule, node.operator.dims(), devices)).dims.get(VOCABULARY, ())
            except StrategyMismatch:
                return ()  # refused, with the reason, where strategies are assigned
    return ()


def _size(token: Token, mesh: Mesh, roles: AxisRoles) -> int:
    return token.size if isinstance(token, SubAxis) else mesh.product(roles.resolve((token,), mesh))
