"""Which strategy every operator gets, and from where (DESIGN 4.3).

The first source that says anything about an operator wins: the scenario's own list, the recipe, and last
MindSpore's default: the batch dim over the batch axes, replicated over the rest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from simcluster.document.pattern import matches
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Mesh, Strategy
from simcluster.model import Block, Graph, Node, Operator, Phase

Split = Mapping[str, tuple[str, ...]]

BATCH = "batch"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Rule:
    """``match`` an operator pattern, ``split`` its iteration dims; the first alternative that divides counts.

    ``source`` names where it was written (``recipe megatron``); ``path`` is its key path if the user wrote
    it, which also makes a rule that matches nothing an error.
    """

    match: str
    alternatives: tuple[Split, ...]
    source: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Roles:
    """What axes are for: role -> axes of the mesh; a rule may name a role where it could name an axis."""

    axes: Mapping[str, tuple[str, ...]]

    def resolve(self, names: Sequence[str], mesh: Mesh) -> tuple[str, ...]:
        """Roles and axes as axes of the mesh; those that the mesh does not have are dropped."""
        found = [axis for name in names for axis in self.axes.get(name, (name,))]
        return tuple(axis for axis in found if axis in mesh.sizes)

    def known(self, mesh: Mesh) -> set[str]:
        """Every name a rule may use."""
        return set(self.axes) | set(mesh.names)


@dataclass(frozen=True)
class Strategies:
    """The strategy of every forward operator of every instance, and its source."""

    by_instance: Mapping[str, Mapping[str, Strategy]]
    sources: Mapping[str, Mapping[str, str]]

    def of(self, instance: str) -> Mapping[str, Strategy]:
        """Node name -> strategy for one instance."""
        return self.by_instance[instance]

    @property
    def unconfigured(self) -> int:
        """How many operators nobody configured."""
        return sum(source == DEFAULT for found in self.sources.values() for source in found.values())


def assign(graph: Graph, rules: Sequence[Rule], mesh: Mesh, roles: Roles) -> Strategies:
    """The strategy of every forward operator; every problem at once as PlanError.

    ``rules`` stand in order of precedence: user rules last to first, then the recipe's last to first.
    """
    problems = list(_unknown_names(rules, mesh, roles))
    refused: list[Problem] = []
    used: Counter[int] = Counter()
    by_instance: dict[str, Mapping[str, Strategy]] = {}
    sources: dict[str, Mapping[str, str]] = {}
    seen: dict[tuple[str, tuple[int | None, ...]], tuple[Mapping[str, Strategy], Mapping[str, str]]] = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        nodes = list(block.phase(Phase.FORWARD))
        chosen = tuple(_first(rules, f"{instance.name}.{node.name}") for node in nodes)
        used.update(index for index in chosen if index is not None)
        key = (instance.block, chosen)
        if key not in seen:
            strategies: dict[str, Strategy] = {}
            for node, index in zip(nodes, chosen, strict=True):
                rule = None if index is None else rules[index]
                made = _strategy(node, block, rule, mesh, roles, instance.name)
                if isinstance(made, Problem):
                    refused.append(made)
                    made = Strategy()
                strategies[node.name] = made
            named = [DEFAULT if index is None else rules[index].source for index in chosen]
            seen[key] = (strategies, dict(zip((node.name for node in nodes), named, strict=True)))
        by_instance[instance.name], sources[instance.name] = seen[key]
    problems += [*_together(refused), *_idle_rules(rules, used, graph)]
    if problems:
        raise PlanError(*dict.fromkeys(problems))
    return Strategies(by_instance, sources)


def _together(refused: Iterable[Problem]) -> list[Problem]:
    """Operators that are refused for one reason, in one problem."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for each in refused:
        name, _, reason = each.message.partition(": ")
        reasons.setdefault((reason, each.path, each.hint), []).append(name)
    return [
        Problem(f"{names[0]}{_and_more(len(set(names)) - 1)}: {reason}", path, hint)
        for (reason, path, hint), names in reasons.items()
    ]


def _and_more(count: int) -> str:
    return f" and {count} more operator{'s' * (count > 1)}" if count else ""


def _first(rules: Sequence[Rule], name: str) -> int | None:
    return next((index for index, rule in enumerate(rules) if matches(rule.match, name)), None)


def _strategy(
    node: Node, block: Block, rule: Rule | None, mesh: Mesh, roles: Roles, instance: str
) -> Strategy | Problem:
    assert isinstance(node.operator, Operator)
    dims = node.operator.dims()
    shapes = [block.values[value].type.shape for value in node.inputs + node.outputs]
    extent = dims.extents(shapes)
    failure: Problem | None = None
    for split in rule.alternatives if rule else ({},):
        wanted = {dim: roles.resolve(axes, mesh) for dim, axes in split.items() if dim in extent}
        if BATCH in extent and BATCH not in split:
            wanted[BATCH] = tuple(axis for axis in roles.resolve((BATCH,), mesh) if axis not in _used(wanted))
        problem = _check(node, wanted, shapes, mesh, rule, instance)
        if problem is None:
            # An axis of one rank splits nothing, but layouts that name it would differ from others.
            kept = {dim: tuple(axis for axis in axes if mesh.size(axis) > 1) for dim, axes in wanted.items()}
            return Strategy.of({dim: axes for dim, axes in kept.items() if axes})
        failure = failure or problem
    assert failure is not None
    return failure


def _used(split: Split) -> set[str]:
    return {axis for axes in split.values() for axis in axes}


def _check(
    node: Node,
    split: Split,
    shapes: Sequence[Sequence[int]],
    mesh: Mesh,
    rule: Rule | None,
    instance: str,
) -> Problem | None:
    """What makes this split impossible, or None."""
    assert isinstance(node.operator, Operator)
    dims = node.operator.dims()
    extent = dims.extents(shapes)
    name = f"{instance}.{node.name}"
    counts = Counter(axis for axes in split.values() for axis in axes)
    twice = [axis for axis, count in counts.items() if count > 1]
    if twice:
        return Problem(f"{name}: axis '{twice[0]}' splits two dims at once", rule.path if rule else "")
    whole = dict(dims.whole)
    barred = [dim for dim, axes in split.items() if dim in whole and mesh.product(axes) > 1]
    if barred and node.operator.decompose(frozenset(barred)) is None:
        reason = whole[barred[0]]
        return Problem(f"{name}: dim '{barred[0]}' cannot be split: {reason}", rule.path if rule else "")
    for dim, axes in split.items():
        ways = mesh.product(axes)
        where = rule.path if rule and rule.path else f"parallel.mesh.{axes[-1]}" if axes else ""
        if extent[dim] % ways:
            over = " x ".join(f"{axis} {mesh.size(axis)}" for axis in axes)
            return Problem(
                f"{name}: {dim} {extent[dim]} does not divide over {over}: "
                f"{extent[dim]} / {ways} = {extent[dim] / ways:g}",
                where,
                _divisors_hint(dim, extent[dim], axes),
            )
        if ways > 1 and (misfit := dims.misfit(dim, shapes, ways)):
            return Problem(f"{name}: {misfit}", where)
    return None


def _divisors_hint(dim: str, size: int, axes: tuple[str, ...]) -> str:
    fitting = [ways for ways in (1, 2, 4, 8, 16, 32, 64) if size % ways == 0]
    return f"{dim} divides over {', '.join(map(str, fitting))} ranks of {'+'.join(axes)}"


def _unknown_names(rules: Sequence[Rule], mesh: Mesh, roles: Roles) -> Iterable[Problem]:
    known = roles.known(mesh)
    for rule in rules:
        if not rule.path:
            continue
        for split in rule.alternatives:
            for dim, axes in split.items():
                for axis in axes:
                    if axis not in known:
                        yield Problem(
                            f"the mesh has no axis or role '{axis}'",
                            f"{rule.path}.split.{dim}",
                            nearest(axis, known),
                        )


def _idle_rules(rules: Sequence[Rule], used: Counter[int], graph: Graph) -> Iterable[Problem]:
    """User rules that no operator took, and dims that none of the operators they match has."""
    names = {
        f"{instance.name}.{node.name}": (node, graph.block_of(instance)) for instance, node in graph.nodes()
    }
    for index, rule in enumerate(rules):
        if not rule.path:
            continue
        taken = [entry for name, entry in names.items() if matches(rule.match, name)]
        if not taken:
            yield Problem(
                f"'{rule.match}' matches no operator",
                f"{rule.path}.match",
                nearest(rule.match, {re.sub(r"\.\d+\.", ".*.", name) for name in names}),
            )
            continue
        if not used[index]:
            yield Problem(f"'{rule.match}' is overruled by later entries for every operator", rule.path)
        have = {dim for node, block in taken for dim in _dims_of(node)}
        for split in rule.alternatives:
            for dim in split:
                if dim not in have:
                    hint = nearest(dim, have)
                    yield Problem(
                        f"no operator that '{rule.match}' matches has a dim '{dim}'",
                        f"{rule.path}.split",
                        hint,
                    )


def _dims_of(node: Node) -> tuple[str, ...]:
    return node.operator.dims().names if isinstance(node.operator, Operator) else ()
