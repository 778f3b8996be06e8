"""Subgraphs that run as one graph launch each (``parallel.shard``), and their operators.

Outside of them operators are dispatched one by one; a subgraph is launched as a whole, forward and backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.document import generalised_name, matches
from simcluster.errors import PlanError, Problem, nearest
from simcluster.model import Block, Graph, Instance, Node, Phase
from simcluster.plan.rules import ShardRequest
from simcluster.plan.spec import FrameworkSpec

EVERYTHING = "*"
"""The name of a subgraph whose operators have no common module."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Operators of a block that run as one graph."""

    name: str
    """Its name in the block."""
    shard: ShardRequest
    """The entry of the scenario."""
    nodes: tuple[str, ...]
    """Its forward operators."""
    inputs: tuple[str, ...]
    """Values that it reads from outside."""
    outputs: tuple[str, ...]
    """Values that it makes for others."""
    parameters: tuple[tuple[str, str], ...]
    """Parameters with a layout in the entry, each with its name there."""


BlockSubgraphs = Mapping[str, Sequence[Subgraph]]
"""Block -> its subgraphs."""


def assign_subgraphs(graph: Graph, shards: Sequence[ShardRequest]) -> tuple[Graph, BlockSubgraphs]:
    """The graph whose operators know their subgraph, and the subgraphs of its blocks.

    Blocks are specialised by their subgraphs. PlanError where a pattern matches nothing, where an operator
    would be in two subgraphs, or where what a subgraph makes returns to it through other operators.
    """
    if not shards:
        return graph, {}
    problems: dict[Problem, None] = {}
    pieces = {
        instance.name: tuple(_pieces(instance, graph.block_of(instance), shards, problems))
        for instance in graph.instances
    }
    said = {
        (number, written)
        for numbered in pieces.values()
        for number, piece in numbered
        for _, written in (("", ""), *piece.parameters)
    }
    problems |= dict.fromkeys(_idle(graph, shards, said))
    if problems:
        raise PlanError(*problems)
    of = {name: [piece for _, piece in numbered] for name, numbered in pieces.items()}
    assigned = graph.specialised(
        pieces,
        lambda block, instance: _with_pieces(block, of[instance.name]),
        lambda key, keys: f".pieces{[*filter(None, keys)].index(key) or ''}" if key else "",
    )
    return assigned, {instance.block: of[instance.name] for instance in assigned.instances}


def subgraph_refusal(
    shards: Sequence[ShardRequest], cluster: Cluster, framework: FrameworkSpec
) -> Iterator[Problem]:
    """Problems of subgraphs: the cluster has other devices than they ask for, or everything is one graph
    anyway.
    """
    kinds = sorted({group.host.device.kind for group in cluster.groups})
    for shard in shards:
        if shard.device is not None and [shard.device.lower()] != kinds:
            yield Problem(
                f"the piece is to run on {shard.device}, but the devices of the cluster are "
                f"{' and '.join(_KINDS.get(kind, kind) for kind in kinds)}",
                f"{shard.path}.device",
            )
        if not framework.dispatch:
            yield Problem(
                f"the framework ({framework.title}) runs the whole network as one graph: no piece of it "
                "is one by itself",
                shard.path,
                "write framework: mindspore-pynative, or strategies with propagate: true",
            )


def describe_subgraphs(graph: Graph, pieces: BlockSubgraphs) -> Iterator[str]:
    """Notes on subgraphs: their number, and what crosses their boundaries."""
    counts: dict[tuple[ShardRequest, tuple[str, ...], tuple[str, ...]], int] = {}
    for instance in graph.instances:
        for piece in pieces.get(instance.block, ()):
            key = piece.shard, piece.inputs, piece.outputs
            counts[key] = counts.get(key, 0) + 1
    for (shard, inputs, outputs), count in counts.items():
        many = "graph" if count == 1 else "graphs"
        yield (
            f"{shard.source} runs as {count:,} {many}: {', '.join(inputs) or 'nothing'} in, "
            f"{', '.join(outputs) or 'nothing'} out; propagation for {_LEVELS[shard.level]}"
        )


_LEVELS = ("least communication (level 0)", "least memory (level 1)", "least time (level 2)")
_KINDS = {"ascend": "Ascend", "gpu": "GPU", "cpu": "CPU"}


def _pieces(
    instance: Instance, block: Block, shards: Sequence[ShardRequest], problems: dict[Problem, None]
) -> Iterator[tuple[int, Subgraph]]:
    """The pieces of an instance, each with the number of its entry."""
    members: dict[int, list[Node]] = {}
    for node in block.phase(Phase.FORWARD):
        full = f"{instance.name}.{node.name}"
        fitting = [
            number for number, shard in enumerate(shards) if matches_operator_or_module(shard.match, full)
        ]
        for number in fitting[:1]:
            members.setdefault(number, []).append(node)
        for number in fitting[1:]:
            first = shards[fitting[0]].match
            problem = Problem(
                f"{generalised_name(full)} is in the piece '{first}' already", f"{shards[number].path}.piece"
            )
            problems[problem] = None
    names: list[str] = []
    for number, nodes in sorted(members.items()):
        stem = _stem([node.name for node in nodes])
        names.append(stem)
        same = names.count(stem)
        name = stem if same == 1 else f"{stem} {same}"
        piece = _piece(instance, block, shards[number], name, stem, nodes)
        if (between := _between(block, nodes)) is not None:
            problem = Problem(
                f"{generalised_name(f'{instance.name}.{between}')} stands between operators of the piece "
                f"'{piece.shard.match}': it reads what the piece makes, and the piece reads what comes of it",
                f"{piece.shard.path}.piece",
                "name that operator too, or make two pieces",
            )
            problems[problem] = None
        yield number, piece


def matches_operator_or_module(match: str, full: str) -> bool:
    """Whether a pattern names an operator, or a module that it is in."""
    return matches(match, full) or matches(f"{match}.*", full)


def _stem(names: Sequence[str]) -> str:
    """What dotted names begin with; ``EVERYTHING`` if nothing is common."""
    shared = []
    for parts in zip(*(name.split(".") for name in names), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared) or EVERYTHING


def _piece(
    instance: Instance, block: Block, shard: ShardRequest, name: str, stem: str, nodes: Sequence[Node]
) -> Subgraph:
    """A piece with what crosses its border, in the order in which it is first read or made."""
    inside = {node.name for node in nodes}
    made = {value for node in nodes for value in node.outputs}
    read = dict.fromkeys(value for node in nodes for value in node.inputs)
    elsewhere = {
        value for node in block.phase(Phase.FORWARD) if node.name not in inside for value in node.inputs
    }
    wanted = {*elsewhere, *block.outputs, block.loss}
    lasting = {*block.parameters, *block.states}
    return Subgraph(
        name,
        shard,
        tuple(node.name for node in nodes),
        tuple(value for value in read if value not in made and value not in lasting),
        tuple(value for node in nodes for value in node.outputs if value in wanted),
        tuple(
            (value, written)
            for value in read
            if value in block.parameters
            for written, _ in shard.parameters
            if matches(written, f"{instance.name}.{value}")
            or matches(written, value)
            or matches(f"{stem}.{written}", value)
        ),
    )


def _between(block: Block, nodes: Sequence[Node]) -> str | None:
    """An operator outside through which what the piece makes comes back to it."""
    inside = {node.name for node in nodes}
    reached = {value for node in nodes for value in node.outputs}
    left: dict[str, str] = {}
    for node in block.phase(Phase.FORWARD):
        through = next((left[value] for value in node.inputs if value in left), None)
        if node.name in inside:
            if through is not None:
                return through
        elif through is not None or not reached.isdisjoint(node.inputs):
            left |= dict.fromkeys(node.outputs, through or node.name)
    return None


def _with_pieces(block: Block, pieces: Sequence[Subgraph]) -> Block:
    """The block whose forward operators know their pieces."""
    of = {node: piece.name for piece in pieces for node in piece.nodes}
    return replace(block, nodes=tuple(replace(node, piece=of.get(node.name, "")) for node in block.nodes))


def _idle(graph: Graph, shards: Sequence[ShardRequest], said: set[tuple[int, str]]) -> Iterator[Problem]:
    """Patterns that fit no operator, and parameters that a piece does not have."""
    names = [f"{instance.name}.{node.name}" for instance, node in graph.nodes()]
    modules = {
        generalised_name(".".join(parts[:length]))
        for parts in (name.split(".") for name in names)
        for length in range(1, len(parts) + 1)
    }
    for number, shard in enumerate(shards):
        if (number, "") not in said:
            if not any(matches_operator_or_module(shard.match, name) for name in names):
                yield Problem(
                    f"'{shard.match}' matches no operator and no module",
                    f"{shard.path}.piece",
                    nearest(shard.match, modules),
                )
            continue
        for written, _ in shard.parameters:
            if (number, written) not in said:
                known = _parameters(graph, shard)
                yield Problem(
                    f"the piece '{shard.match}' reads no parameter '{written}'",
                    f"{shard.path}.parameter_plan",
                    nearest(written, known) if known else "it reads none",
                )


def _parameters(graph: Graph, shard: ShardRequest) -> list[str]:
    """The parameters that the operators of a piece read, by their names in the layer."""
    return sorted(
        {
            value
            for instance, node in graph.nodes()
            if matches_operator_or_module(shard.match, f"{instance.name}.{node.name}")
            for value in node.inputs
            if value in graph.block_of(instance).parameters
        }
    )
