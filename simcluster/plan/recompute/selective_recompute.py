"""Pass: recomputes chosen operators in the backward; their outputs are dropped and their inputs saved.

What the backward reads of a chosen operator is made again just before its first reader. A collective is run
again where it is between chosen operators, or where only they read its result; what the backward does not
read is not made again (Megatron's selective recomputation, arXiv 2205.05198, with operators chosen by
pattern). Without collectives their results are saved, also for the backward where it would have gathered the
same.

What is under a checkpoint, as Megatron's core of attention (``tensor_parallel.checkpoint``) or PyTorch's
``checkpoint()``, runs again as a whole, and what others read of it is kept: they have saved it as their
input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.errors import PlanError, Problem
from simcluster.layout import Movement
from simcluster.model import Block, Graph, Instance, Node, Phase, Role
from simcluster.plan.spec import PATH

SUFFIX = ".recompute"
"""Suffix of recomputed nodes, values and blocks."""


def recompute_operators(
    graph: Graph, patterns: Sequence[str], *, keep_outputs: Sequence[str] = (), collectives: bool = True
) -> Graph:
    """The graph in which operators with matching names are recomputed, except in layers that are recomputed
    whole.

    Of each pattern of ``keep_outputs`` the recomputed operators are one checkpoint of their layer. Without
    ``collectives`` none of them runs again. PlanError if a pattern matches no forward operator.
    """
    unused: dict[tuple[str, str], None] = {}
    chosen = _by_instance(graph, "operators", patterns, unused)
    kept = [_by_instance(graph, "keep_outputs", (pattern,), unused) for pattern in keep_outputs]
    if unused:
        places = {("operators", pattern): index for index, pattern in enumerate(patterns)}
        places |= {("keep_outputs", pattern): index for index, pattern in enumerate(keep_outputs)}
        raise PlanError(
            *(
                Problem(f"'{pattern}' matches no operator", f"{PATH}.{key}.{places[key, pattern]}")
                for key, pattern in unused
            )
        )
    choices = {
        name: (operators, tuple(operators & checkpoint[name] for checkpoint in kept)) if operators else ()
        for name, operators in chosen.items()
    }

    def again(block: Block, instance: Instance) -> Block:
        operators, checkpoints = choices[instance.name] or (frozenset(), ())
        return recompute_in_block(block, operators, checkpoints=checkpoints, collectives=collectives)

    return graph.specialised(
        choices, again, lambda key, keys: f".selective{[*filter(None, keys)].index(key) or ''}" if key else ""
    )


def _by_instance(
    graph: Graph, key: str, patterns: Sequence[str], unused: dict[tuple[str, str], None]
) -> dict[str, frozenset[str]]:
    """Instance -> the forward operators that some pattern matches; ``unused`` gets those that match none."""
    without = dict.fromkeys(patterns)
    chosen = {
        instance.name: frozenset(_chosen(instance, graph.block_of(instance), patterns, without))
        for instance in graph.instances
    }
    unused.update(dict.fromkeys((key, pattern) for pattern in without))
    return chosen


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


def recompute_in_block(
    block: Block,
    chosen: frozenset[str],
    *,
    checkpoints: Sequence[frozenset[str]] = (),
    collectives: bool = True,
) -> Block:
    """The block whose backward recomputes what it reads of the chosen forward nodes.

    Movements run again if they are chosen, or if what surrounds them needs that; without ``collectives`` only
    those that are local to a rank. The chosen nodes under one of the ``checkpoints`` run again together, and
    what others read of them is kept.
    """
    checkpoint_of = {name: number for number, names in enumerate(checkpoints) for name in sorted(names)}
    return _Selection(block, chosen, checkpoint_of, collectives).run()


@dataclass
class _Selection:
    block: Block
    chosen: frozenset[str]
    checkpoint_of: Mapping[str, int]
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
                node = replace(node, inputs=self._inputs(node))
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
        again = self._again(source) and not self._is_kept(source)
        return again or (not layout.partial and value not in self.read)

    def _is_kept(self, value: str) -> bool:
        """Whether a value is made under a checkpoint and read outside of it."""
        maker = self.makers.get(value)
        checkpoint = self.checkpoint_of.get(maker.name) if maker else None
        return checkpoint is not None and self._leaves(value, checkpoint)

    def _leaves(self, value: str, checkpoint: int) -> bool:
        """Whether an operator that is not under a checkpoint reads a value, moved or not."""
        return any(
            any(self._leaves(moved, checkpoint) for moved in node.outputs)
            if isinstance(node.operator, Movement)
            else self.checkpoint_of.get(node.name) != checkpoint
            for node in self.block.phase(Phase.FORWARD)
            if value in node.inputs
        )

    def _copies(self, reader: Node) -> list[Node]:
        """Copies of the forward nodes that a reader is the first to need, in forward order."""
        copies: dict[str, Node] = {}
        waiting = [(value, reader) for value in reader.inputs]
        while waiting:
            value, reader = waiting.pop()
            if not self._is_read_again(value, reader):
                continue
            for maker in self._together(self.makers[value]):
                if maker.name not in self.copied:
                    self.copied[maker.name] = maker
                    copies[maker.name] = maker
                    waiting += ((value, maker) for value in maker.inputs)
        ordered = sorted(copies.values(), key=lambda node: self.order[node.name])
        return [
            replace(
                node,
                name=f"{node.name}{SUFFIX}",
                inputs=self._inputs(node),
                outputs=tuple(f"{value}{SUFFIX}" for value in node.outputs),
                phase=Phase.BACKWARD,
                origin=node.source,
            )
            for node in ordered
        ]

    def _together(self, node: Node) -> list[Node]:
        """A forward node and all others under the same checkpoint."""
        checkpoint = self.checkpoint_of.get(node.name)
        forward = self.block.phase(Phase.FORWARD) if checkpoint is not None else ()
        return [node, *(other for other in forward if self.checkpoint_of.get(other.name) == checkpoint)]

    def _is_read_again(self, value: str, reader: Node) -> bool:
        """Whether a reader takes what is made again; outside of its checkpoint what was kept is there."""
        if not self._again(value):
            return False
        inside = self.checkpoint_of.get(reader.source) == self.checkpoint_of.get(self.makers[value].name)
        return inside or not self._is_kept(value)

    def _inputs(self, node: Node) -> tuple[str, ...]:
        return tuple(
            f"{value}{SUFFIX}" if self._is_read_again(value, node) else value for value in node.inputs
        )


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
