"""Pass: sparse gradients of embedding tables, as ids and rows, where the update changes only rows that were
looked up.

That needs an update rule that works by rows (lazy Adam, FTRL), and a gradient made by one lookup alone.
Sparse gradients of several micro-batches cannot be added up: such a step has one micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.document import matches
from simcluster.errors import PlanError
from simcluster.model import Block, Graph, Instance, Node, Operator, Role, Rules, SparseRows, Value


def use_sparse_gradients(graph: Graph, rules: Rules, num_terms: int, served: Sequence[str] = ()) -> Graph:
    """The graph with sparse gradients; PlanError if a step has several of them to add up.

    Of parameters that are ``served``, by patterns, every rank keeps the ids and rows of its own samples.
    """
    chosen = {
        instance.name: tuple(
            name
            for name in graph.block_of(instance).parameters
            if rules.of(graph.canonical(f"{instance.weight_owner}.{name}")).sparse
            and _maker(graph, graph.block_of(instance), name)
        )
        for instance in graph.instances
    }
    changed = graph.specialised(
        chosen,
        lambda block, instance: (
            _with_rows(graph, block, instance, chosen[instance.name], served)
            if chosen[instance.name]
            else block
        ),
        lambda key, _: f" rows {' '.join(key)}" if key else "",
    )
    if num_terms > 1 and (kept := sparse_parameters(changed)):
        raise PlanError(
            f"{num_terms} micro-batches or slices cannot add up the gradient of '{kept[0]}', ids and rows",
            path="training.micro_batch",
            hint="make the micro-batch as large as a rank's part of the global batch",
        )
    return changed


def sparse_parameters(graph: Graph) -> list[str]:
    """The full names of the parameters whose gradients are sparse."""
    return [
        f"{instance.name}.{name}"
        for instance in graph.instances
        for name in graph.block_of(instance).row_gradients
    ]


def report_dense_updates(graph: Graph, rules: Rules) -> Iterator[str]:
    """Notes on tables that are updated whole though their rule could work by rows, because of how they are
    used.
    """
    for instance in graph.instances:
        block = graph.block_of(instance)
        for name in block.parameters:
            full = f"{instance.name}.{name}"
            gradient = block.gradients.get(name)
            made = [node.operator for node in block.nodes if gradient in node.outputs]
            rule = rules.of(graph.canonical(full))
            if rule.sparse and any(
                isinstance(operator, Operator) and operator.rewrite(SparseRows()) for operator in made
            ):
                yield f"{rule.kind} changes all rows of {full}: its gradient is not that of one lookup"


def _maker(graph: Graph, block: Block, parameter: str) -> Node | None:
    """The lookup's node that makes a parameter's whole gradient, if there is one."""
    gradient = block.gradients.get(parameter)
    tied = any(full.endswith(f".{parameter}") for group in graph.ties for full in group)
    makers = [node for node in block.nodes if gradient in node.outputs]
    if len(makers) != 1 or tied or not isinstance(makers[0].operator, Operator):
        return None
    return makers[0] if makers[0].operator.rewrite(SparseRows()) is not None else None


def _with_rows(
    graph: Graph, block: Block, instance: Instance, chosen: tuple[str, ...], served: Sequence[str]
) -> Block:
    values = dict(block.values)
    gradients = dict(block.gradients)
    pairs: dict[str, tuple[str, str]] = {}
    nodes: Mapping[str, Node] = {node.name: node for node in block.nodes}
    made = dict(nodes)
    for parameter in chosen:
        maker = _maker(graph, block, parameter)
        assert maker is not None and isinstance(maker.operator, Operator)
        full = graph.canonical(f"{instance.weight_owner}.{parameter}")
        split = any(matches(pattern, full) for pattern in served)
        operator = maker.operator.rewrite(SparseRows(split))
        assert operator is not None
        rows = gradients.pop(parameter)
        ids = f"{rows}.ids"
        inputs = maker.inputs[: len(operator.dims().inputs)]
        kinds = operator.infer([values[name].type for name in inputs])
        for name, kind in zip((ids, rows), kinds, strict=True):
            values[name] = Value(kind, Role.ACCUMULATOR)
        made[maker.name] = replace(maker, operator=operator, inputs=inputs, outputs=(ids, rows))
        pairs[parameter] = rows, ids
    return replace(block, values=values, gradients=gradients, row_gradients=pairs, nodes=tuple(made.values()))
