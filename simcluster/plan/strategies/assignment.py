"""How operators are split: the strategy of every operator, and where it comes from (DESIGN 4.3).

The first source that names an operator decides: the scenario's own list, the recipe, and last MindSpore's
default: the batch dim over the batch axes, replicated over the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.document import generalised_name, matches
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Dims, Layout, Mesh, Strategy, padding_refusal, whole
from simcluster.model import Block, Graph, Instance, Node, Operator, Phase
from simcluster.plan.rules import (
    BATCH,
    SEQ,
    SEQUENCE,
    AxisRoles,
    Split,
    StrategyRule,
    first_rule,
    stage_devices,
)
from simcluster.plan.strategies.operand_splits import SplitCandidate, StrategyMismatch, split_candidates
from simcluster.plan.strategies.vocabulary_divisor import VOCABULARY

DEFAULT = "default"
_PAD = "parallel: {uneven: pad} pads what does not divide"


@dataclass(frozen=True)
class Strategies:
    """The strategy of every forward operator of every instance, and its source."""

    by_instance: Mapping[str, Mapping[str, Strategy]]
    """Instance -> operator -> strategy."""
    sources: Mapping[str, Mapping[str, str]]
    """Instance -> operator -> where the strategy comes from."""

    def of(self, instance: str) -> Mapping[str, Strategy]:
        """Operator -> strategy, of one instance."""
        return self.by_instance[instance]

    def over_stages(self, graph: Graph, stage_axis: str) -> Strategies:
        """The same, with the vocabulary of what is on all stages split over these first."""
        spread = {
            instance.name: graph.block_of(instance) for instance in graph.instances if instance.on_all_stages
        }
        if not spread:
            return self
        made = {
            name: {
                node.name: _over_stages(self.by_instance[name][node.name], node, stage_axis)
                for node in block.phase(Phase.FORWARD)
            }
            for name, block in spread.items()
        }
        return replace(self, by_instance={**self.by_instance, **made})

    @property
    def unconfigured(self) -> int:
        """The number of operators with the default strategy."""
        return sum(
            source == DEFAULT for of_instance in self.sources.values() for source in of_instance.values()
        )


def _over_stages(strategy: Strategy, node: Node, stage_axis: str) -> Strategy:
    assert isinstance(node.operator, Operator)
    if VOCABULARY not in node.operator.dims().names:
        return strategy
    splits = dict(strategy.splits)
    others = (axis for axis in splits.get(VOCABULARY, ()) if axis != stage_axis)
    splits[VOCABULARY] = (stage_axis, *others)
    return replace(strategy, splits=Strategy.of(splits).splits)


def assign_strategies(
    graph: Graph, rules: Sequence[StrategyRule], mesh: Mesh, roles: AxisRoles, *, pads: bool = False
) -> Strategies:
    """The strategy of every forward operator; PlanError with every problem.

    ``rules`` are in order of precedence: user rules last to first, then the recipe's last to first. With
    ``pads`` dims need not divide; if none of several alternatives divides, the first one is taken.
    """
    problems = list(_unknown_names(rules, mesh, roles))
    if pads:
        rules = _narrowed(graph, rules, mesh, roles)
    refused: list[tuple[str, Problem]] = []
    used: Counter[int] = Counter()
    by_instance: dict[str, Mapping[str, Strategy]] = {}
    sources: dict[str, Mapping[str, str]] = {}
    seen: dict[tuple[str, tuple[int | None, ...]], tuple[Mapping[str, Strategy], Mapping[str, str]]] = {}
    for instance, nodes, chosen in _chosen(graph, rules):
        block = graph.block_of(instance)
        used.update(index for index in chosen if index is not None)
        key = (instance.block, chosen)
        if key not in seen:
            strategies: dict[str, Strategy] = {}
            for node, index in zip(nodes, chosen, strict=True):
                rule = None if index is None else rules[index]
                # Of several alternatives that are left, one divides.
                alone = rule is None or len(rule.alternatives) < 2
                made = _strategy(node, block, rule, mesh, roles, pads=pads and alone)
                if isinstance(made, Problem):
                    refused.append((f"{instance.name}.{node.name}", made))
                    made = Strategy()
                strategies[node.name] = made
            named = [DEFAULT if index is None else rules[index].source for index in chosen]
            seen[key] = (strategies, dict(zip((node.name for node in nodes), named, strict=True)))
        by_instance[instance.name], sources[instance.name] = seen[key]
    problems += [*_together(refused), *_idle_rules(rules, used, graph)]
    if problems:
        raise PlanError(*dict.fromkeys(problems))
    return Strategies(by_instance, sources)


def _chosen(
    graph: Graph, rules: Sequence[StrategyRule]
) -> Iterator[tuple[Instance, list[Node], tuple[int | None, ...]]]:
    """Every instance with its forward operators, and by operator the index of its rule.

    Where no pattern has a number, or stands for one digit, layers of one block have the same.
    """
    numbered = any(not set(rule.match).isdisjoint("0123456789?") for rule in rules)
    known: dict[tuple[str, str], tuple[list[Node], tuple[int | None, ...]]] = {}
    for instance in graph.instances:
        name = instance.known_as if numbered else generalised_name(instance.known_as)
        key = instance.block, name
        if key not in known:
            block = graph.block_of(instance)
            nodes = list(block.phase(Phase.FORWARD))
            known[key] = nodes, tuple(_rule_of(rules, instance, node, block) for node in nodes)
        yield instance, *known[key]


def _rule_of(rules: Sequence[StrategyRule], instance: Instance, node: Node, block: Block) -> int | None:
    """The index of an operator's rule; that of an adapter without one is its operator's, by dims."""
    chosen = first_rule(rules, f"{instance.known_as}.{node.name}")
    if chosen is not None or node.name not in block.follows:
        return chosen
    chosen = first_rule(rules, f"{instance.known_as}.{block.follows[node.name]}")
    return None if chosen is None or rules[chosen].inputs is not None else chosen


def _together(refused: Iterable[tuple[str, Problem]]) -> list[Problem]:
    """Operators that are refused for one reason, in one problem."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for name, problem in refused:
        reasons.setdefault((problem.message, problem.path, problem.hint), []).append(name)
    return [
        Problem(f"{names[0]}{_and_more(len(set(names)) - 1)}: {reason}", path, hint)
        for (reason, path, hint), names in reasons.items()
    ]


def _and_more(count: int) -> str:
    return f" and {count} more operator{'s' * (count > 1)}" if count else ""


def _narrowed(
    graph: Graph, rules: Sequence[StrategyRule], mesh: Mesh, roles: AxisRoles
) -> list[StrategyRule]:
    """The rules, with their first alternative alone where some operator could take none without padding.

    So all operators that a rule is for take the same one: keys are padded as their queries are.
    """
    narrow: set[int] = set()
    several = [rule for rule in rules if len(rule.alternatives) > 1]
    for instance, node in graph.nodes() if several else ():
        index = first_rule(rules, f"{instance.known_as}.{node.name}")
        if index is None or index in narrow or len(rules[index].alternatives) < 2:
            continue
        block = graph.block_of(instance)
        strategy = _strategy(node, block, rules[index], mesh, roles, pads=False)
        if isinstance(strategy, Problem):
            narrow.add(index)
    return [
        replace(rule, alternatives=rule.alternatives[:1]) if index in narrow else rule
        for index, rule in enumerate(rules)
    ]


def _strategy(
    node: Node, block: Block, rule: StrategyRule | None, mesh: Mesh, roles: AxisRoles, *, pads: bool
) -> Strategy | Problem:
    assert isinstance(node.operator, Operator)
    dims = node.operator.dims()
    shapes = [block.values[value].type.shape for value in node.inputs + node.outputs]
    extent = dims.extents(shapes)
    by_dim = rule is None or rule.inputs is None
    failure: Problem | None = None
    try:
        for candidate in split_candidates(rule, dims, stage_devices(mesh, roles)):
            wanted = {dim: roles.resolve(tokens, mesh) for dim, tokens in candidate.dims.items()}
            if by_dim and BATCH in extent and BATCH not in candidate.dims:
                used = _used(wanted)
                wanted[BATCH] = tuple(axis for axis in roles.resolve((BATCH,), mesh) if axis not in used)
            if by_dim and SEQ in extent:
                wanted |= _in_sequence(wanted, rule, mesh, roles)
            problem = split_problem(node, wanted, shapes, mesh, rule, pads=pads)
            if problem is None:
                # An axis of one rank splits nothing, but layouts that name it would differ from others.
                made = Strategy.of({dim: axes_with_several_ranks(axes, mesh) for dim, axes in wanted.items()})
                if rule is None:
                    return made
                return _behind(made, dims, candidate, rule, extent, mesh, roles, pads=pads)
            failure = failure or problem
    except StrategyMismatch as unfit:
        assert rule is not None
        return Problem(unfit.reason, rule.path and f"{rule.path}.{unfit.key}", unfit.hint)
    assert failure is not None
    return failure


def _in_sequence(
    wanted: Split, rule: StrategyRule | None, mesh: Mesh, roles: AxisRoles
) -> dict[str, tuple[str, ...]]:
    """How a sequence is split besides: over the axes of that role that nothing else of an operator is.

    Where a shipped rule splits it already, it does so inside these parts; what users write stands.
    """
    used = _used(wanted)
    axes = tuple(axis for axis in roles.resolve((SEQUENCE,), mesh) if axis not in used)
    if not axes or (SEQ in wanted and rule is not None and rule.path):
        return {}
    return {SEQ: (*axes, *wanted.get(SEQ, ()))}


def _behind(
    made: Strategy,
    dims: Dims,
    candidate: SplitCandidate,
    rule: StrategyRule,
    extent: Mapping[str, int],
    mesh: Mesh,
    roles: AxisRoles,
    *,
    pads: bool,
) -> Strategy:
    """The strategy with what is to become of the results right behind the operator."""
    follows = dims.output_layouts(made)
    if rule.scatter:
        layouts = {index: _scattered(layout) for index, layout in enumerate(follows) if layout.partial}
        if not layouts:
            raise StrategyMismatch(
                "no sum is due in its results, so nothing is scattered", "forward_reduce_scatter"
            )
    else:
        layouts = {
            index: Layout(
                tuple(axes_with_several_ranks(roles.resolve(tokens, mesh), mesh) for tokens in wanted)
            )
            for index, wanted in candidate.outputs.items()
        }
    for index, layout in layouts.items():
        if len(set(layout.axes)) < len(layout.axes):
            raise StrategyMismatch(f"output {index} is split twice over one axis: {layout}", "out")
        for dim, axes in zip(dims.outputs[index], layout.dims, strict=True):
            if extent[dim] % mesh.product(axes) and not pads:
                raise StrategyMismatch(remainder_problem(dim, extent[dim], axes, mesh), "out", _PAD)
    kept = tuple((index, layout) for index, layout in layouts.items() if layout != follows[index])
    return replace(made, outputs=kept, scatter=rule.scatter and bool(kept))


def _scattered(layout: Layout) -> Layout:
    """The sums that are due over some axes scattered over the first dim."""
    if any(how != "sum" for _, how in layout.partial) or not layout.dims:
        raise StrategyMismatch(
            f"{layout} is not a sum that could be scattered over a first dim", "forward_reduce_scatter"
        )
    first, *rest = layout.dims
    return Layout(((*first, *layout.partial_axes), *rest))


def axes_with_several_ranks(axes: tuple[str, ...], mesh: Mesh) -> tuple[str, ...]:
    """The axes with more than one rank."""
    return tuple(axis for axis in axes if mesh.size(axis) > 1)


def _used(split: Split) -> set[str]:
    return {axis for axes in split.values() for axis in axes}


def split_problem(
    node: Node,
    split: Split,
    shapes: Sequence[Sequence[int]],
    mesh: Mesh,
    rule: StrategyRule | None,
    *,
    pads: bool,
) -> Problem | None:
    """Why an operator cannot be split so, without its name; None if it can. ``rule`` is where the split was
    written.
    """
    assert isinstance(node.operator, Operator)
    dims = node.operator.dims()
    extent = dims.extents(shapes)
    counts = Counter(axis for axes in split.values() for axis in axes)
    twice = [axis for axis, count in counts.items() if count > 1]
    if twice:
        return Problem(f"axis '{twice[0]}' splits two dims at once", rule.path if rule else "")
    reasons = dict(dims.unsplittable)
    barred = [dim for dim, axes in split.items() if dim in reasons and mesh.product(axes) > 1]
    if barred and node.operator.decompose(frozenset(barred)) is None:
        reason = reasons[barred[0]]
        return Problem(f"dim '{barred[0]}' cannot be split: {reason}", rule.path if rule else "")
    for dim, axes in split.items():
        ways = mesh.product(axes)
        where = rule.path if rule and rule.path else f"parallel.mesh.{whole(axes[-1])}" if axes else ""
        if extent[dim] % ways and pads:
            if reason := padding_refusal(dims, (dim,), shapes):
                return Problem(f"{remainder_problem(dim, extent[dim], axes, mesh)}; {reason}", where)
            continue
        if extent[dim] % ways:
            return Problem(
                remainder_problem(dim, extent[dim], axes, mesh),
                where,
                _divisors_hint(dim, extent[dim], axes),
            )
        if ways > 1 and (misfit := dims.misfit(dim, shapes, ways)):
            return Problem(misfit, where)
    return None


def remainder_problem(dim: str, size: int, axes: Sequence[str], mesh: Mesh) -> str:
    """The message that a dim does not divide over axes, with the arithmetic."""
    over = " x ".join(f"{axis} {mesh.size(axis)}" for axis in axes)
    ways = mesh.product(axes)
    return f"{dim} {size} does not divide over {over}: {size} / {ways} = {size / ways:g}"


def _divisors_hint(dim: str, size: int, axes: tuple[str, ...]) -> str:
    fitting = [ways for ways in (1, 2, 4, 8, 16, 32, 64) if size % ways == 0]
    return f"{dim} divides over {', '.join(map(str, fitting))} ranks of {'+'.join(axes)}; {_PAD}"


def _unknown_names(rules: Sequence[StrategyRule], mesh: Mesh, roles: AxisRoles) -> Iterable[Problem]:
    known = roles.known(mesh)
    for rule in rules:
        if not rule.path:
            continue
        for path, axis in _named(rule):
            if axis not in known:
                yield Problem(f"the mesh has no axis or role '{axis}'", path, nearest(axis, known))


def _named(rule: StrategyRule) -> Iterator[tuple[str, str]]:
    """Every axis or role that a rule names, with where it does so."""
    if rule.layout is not None:
        return
    for split in rule.alternatives:
        for dim, axes in split.items():
            yield from ((f"{rule.path}.split.{dim}", axis) for axis in axes)
    for key, operands in (("in", rule.inputs), ("out", rule.outputs)):
        for index, dims in enumerate(operands or ()):
            for place, entry in enumerate(dims or ()):
                if isinstance(entry, tuple):
                    yield from ((f"{rule.path}.{key}.{index}.{place}", axis) for axis in entry)


def _idle_rules(rules: Sequence[StrategyRule], used: Counter[int], graph: Graph) -> Iterable[Problem]:
    """User rules that no operator took, and dims that none of the operators they match has."""
    names = {
        f"{instance.known_as}.{node.name}": (node, graph.block_of(instance))
        for instance, node in graph.nodes()
    }
    for index, rule in enumerate(rules):
        if not rule.path:
            continue
        taken = [entry for name, entry in names.items() if matches(rule.match, name)]
        if not taken:
            yield Problem(
                f"'{rule.match}' matches no operator",
                f"{rule.path}.match",
                nearest(rule.match, set(map(generalised_name, names))),
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
