"""Pass: recomputes chosen operators in the backward; their outputs are dropped and their inputs saved.

What the backward reads of a chosen operator is made again just before its first reader. A collective is run
again where it is between chosen operators, or where only they read its result; what the backward does not
read is not made again (Megatron's selective recomputation, arXiv 2205.05198, with operators chosen by
pattern). Without collectives their results are saved, also for the backward where it would have gathered the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.errors import PlanError, Problem
from simcluster.layout import Movement
from simcluster.model import Block, Graph, Instance, Node, Phase, Role
from simcluster.plan.spec import PATH

SUFFIX = ".recompute"
"""Suffix of recomputed nodes, values and blocks."""


def recompute_operators(graph: Graph, patterns: Sequence[str], *, collectives: bool = True) -> Graph:
    """The graph in which operators with matching names are recomputed, except in layers that are recomputed
    whole.

    Without ``collectives`` none of them runs again. PlanError if a pattern matches no forward operator.
    """
    unused = dict.fromkeys(patterns)
    chosen = {
        instance.name: frozenset(_chosen(instance, graph.block_of(instance), patterns, unused))
        for instance in graph.instances
    }
    if unused:
        places = {pattern: index for index, pattern in enumerate(patterns)}
        raise PlanError(
            *(
                Problem(f"'{pattern}' matches no operator", f"{PATH}.operators.{places[pattern]}")
                for pattern in unused
            )
        )
    return graph.specialised(
        chosen,
        lambda block, instance: recompute_in_block(block, chosen[instance.name], collectives=collectives),
        lambda key, keys: f".selective{[*filter(None, keys)].index(key) or ''}" if key else "",
    )


def _chosen(
    instance: Instance, block: Block, patterns: Sequence[str], unused: dict[str, None]
) -> Iterator[str]:
    """The forward operators of an instance that some pattern matches; what matches is no longer unused."""
    for node in block.phase(Phase.FORWARD):
        if isinstance(node.operator, Movement):
            continue
        matching = [
            pattern for pattern in patterns if matches(pattern, f"{instance.weight_owner}.{node.source}")
        ]
        for pattern in matching:
            unused.pop(pattern, None)
        if matching and not block.recomputed:
            yield node.name


def recompute_in_block(block: Block, chosen: frozenset[str], *, collectives: bool = True) -> Block:
    """The block whose backward recomputes what it reads of the chosen forward nodes.

    Movements run again if they are chosen, or if what surrounds them needs that; without ``collectives`` only
    those that are local to a rank.
    """
    return _Selection(block, chosen, collectives).run()


@dataclass
class _Selection:
    block: Block
    chosen: frozenset[str]
    collectives: bool
    makers: dict[str, Node] = field(default_factory=dict)
    copied: dict[str, Node] = field(default_factory=dict)
    known: dict[str, bool] = field(default_factory=dict)

    def run(self) -> Block:
        """The block with the chosen operators made again where backward reads them."""
        if not self.chosen:
            return self.block
        block = self.block = self.block if self.collectives else _gathered_once(self.block)
        self.makers = {value: node for node in block.phase(Phase.FORWARD) for value in node.outputs}
        self.read = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
        self.order = {node.name: index for index, node in enumerate(block.nodes)}
        nodes: list[Node] = []
        for node in block.nodes:
            if node.phase is Phase.BACKWARD:
                nodes += self._copies(node)
                node = replace(node, inputs=tuple(map(self._name, node.inputs)))
            nodes.append(node)
        again = {
            f"{value}{SUFFIX}": replace(block.values[value], role=Role.ACTIVATION)
            for node in self.copied.values()
            for value in node.outputs
        }
        return replace(block, nodes=tuple(nodes), values={**block.values, **again})

    def _again(self, value: str) -> bool:
        """Whether a value is made again rather than kept."""
        if value not in self.known:
            self.known[value] = self._decided(value)
        return self.known[value]

    def _decided(self, value: str) -> bool:
        maker = self.makers.get(value)
        if maker is None or value in self.block.outputs or value == self.block.loss:
            return False
        if isinstance(maker.operator, Movement) and maker.operator.is_collective and not self.collectives:
            return False
        if not isinstance(maker.operator, Movement) or maker.name in self.chosen:
            return maker.name in self.chosen
        (source,) = maker.inputs
        layout = self.block.values[source].layout
        assert layout is not None
        # What was gathered for a chosen operator is gathered again; what was reduced is kept as it is.
        return self._again(source) or (not layout.partial and value not in self.read)

    def _copies(self, reader: Node) -> list[Node]:
        """Copies of the forward nodes that a reader is the first to need, in forward order."""
        copies: dict[str, Node] = {}
        waiting = list(reader.inputs)
        while waiting:
            value = waiting.pop()
            if self._again(value):
                maker = self.makers[value]
                if maker.name not in self.copied:
                    self.copied[maker.name] = maker
                    copies[maker.name] = maker
                    waiting += maker.inputs
        ordered = sorted(copies.values(), key=lambda node: self.order[node.name])
        return [
            replace(
                node,
                name=f"{node.name}{SUFFIX}",
                inputs=tuple(map(self._name, node.inputs)),
                outputs=tuple(f"{value}{SUFFIX}" for value in node.outputs),
                phase=Phase.BACKWARD,
                origin=node.source,
            )
            for node in ordered
        ]

    def _name(self, value: str) -> str:
        return f"{value}{SUFFIX}" if self._again(value) else value


def _gathered_once(block: Block) -> Block:
    """The block in which what the backward would gather as the forward has is the forward's."""
    made: dict[tuple[tuple[str, ...], Movement], str] = {}
    known: dict[str, str] = {}
    nodes: list[Node] = []
    for node in block.nodes:
        if node.phase is Phase.BACKWARD:
            node = replace(node, inputs=tuple(known.get(value, value) for value in node.inputs))
        movement = node.operator
        if isinstance(movement, Movement) and movement.is_collective:
            key = (node.inputs, movement)
            if node.phase is Phase.FORWARD:
                made[key] = node.outputs[0]
            elif node.phase is Phase.BACKWARD and key in made:
                known[node.outputs[0]] = made[key]
                continue
        nodes.append(node)
    values = {name: value for name, value in block.values.items() if name not in known}
    return replace(block, nodes=tuple(nodes), values=values)
