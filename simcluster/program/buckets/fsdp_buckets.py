"""Weights that are gathered, and sharded gradients that are scattered, together (``fusion``).

A bucket is a block of its own, made of the gathers of its weights, or the scatters of its gradients, as the
layers' blocks have them: first steps together, then second steps, equal movements of one step as one
collective. What it reads and makes lives as long as it would if its layer gathered or scattered it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh, Movement
from simcluster.model import Block, Cast, Graph, Instance, MemoryPlace, Node, Phase, Relocation, Value
from simcluster.plan import ALONE, SINGLE_BUCKET, Buckets, Fusion, collective_bytes
from simcluster.program.buckets.gradient_buckets import GradientBucket, Naming, bucket_steps, value_order
from simcluster.program.isa import Scope
from simcluster.program.lowering import buffer_scopes, local_type, nodes_gathered_once

CASTS = "casts"
"""The kernel that casts the shards of a bucket before they are gathered."""


_NAMES = {
    Phase.BEGIN: "gathers",
    Phase.GATHER: "unit_gathers",
    Phase.REGATHER: "unit_regathers",
    Phase.SCATTER: "unit_scatters",
}


@dataclass(frozen=True, slots=True)
class BucketMember:
    """A weight or gradient of a bucket and its collectives; ``key`` is equal for those that may share one.

    ``buffer`` is that of the whole weight or gradient, which closes a bucket if a search says so, and
    ``num_bytes`` its size; ``steps`` are the collectives on the way, with the bytes of each.
    """

    instance: str
    nodes: tuple[Node, ...]
    key: tuple[object, ...]
    buffer: str
    num_bytes: int
    alone: bool
    steps: tuple[tuple[Movement, int], ...]


def unit_buckets(
    graph: Graph, instances: Sequence[Instance], phase: Phase, fusion: Fusion, mesh: Mesh, naming: Naming
) -> list[GradientBucket]:
    """The buckets of a stage in the order in which they are needed, or full; ``instances`` in the order in
    which they use weights, or make gradients.

    Only what has one number format, takes the same steps over the same groups, and has one fusion id is in
    one bucket. Sizes are those of whole weights and gradients. Buckets of gradients that are full behind the
    same backward are one block, so that whoever waits for them waits for all.
    """
    maker = _Maker(graph, phase, fusion, mesh, naming)
    parts = maker.of_all(instances)
    sorted_by: dict[tuple[object, ...], list[int]] = {}
    for position, part in enumerate(parts):
        sorted_by.setdefault(part.key, []).append(position)
    groups_of_positions: list[list[int]] = []
    for positions in sorted_by.values():
        members = [parts[position] for position in positions]
        rule = SINGLE_BUCKET if members[0].alone else maker.rule
        filled = rule.fill(
            [part.num_bytes for part in members],
            [part.buffer for part in members],
            [part.instance for part in members],
        )
        groups_of_positions += [[positions[index] for index in group] for group in filled]
    if phase is not Phase.SCATTER:
        groups = [[[parts[position] for position in group]] for group in sorted(groups_of_positions)]
        return [maker.bucket(number, group, group[0][0].instance) for number, group in enumerate(groups)]
    full: dict[str, list[list[BucketMember]]] = {}
    for group in sorted(groups_of_positions, key=lambda positions: positions[-1]):
        full.setdefault(parts[group[-1]].instance, []).append([parts[position] for position in group])
    return [maker.bucket(number, *entry) for number, entry in enumerate((v, k) for k, v in full.items())]


def unit_bucket_members(
    graph: Graph, instances: Sequence[Instance], phase: Phase, fusion: Fusion, mesh: Mesh, naming: Naming
) -> list[BucketMember]:
    """The weights or gradients that a phase moves, in order; arguments as those of ``unit_buckets``."""
    return _Maker(graph, phase, fusion, mesh, naming).of_all(instances)


@dataclass
class _Maker:
    graph: Graph
    phase: Phase
    fusion: Fusion
    mesh: Mesh
    naming: Naming
    values: dict[str, Value] = field(default_factory=dict)
    lives: dict[str, Scope] = field(default_factory=dict)
    known: dict[str, tuple[dict[str, Scope], list[list[Node]]]] = field(default_factory=dict)

    @property
    def rule(self) -> Buckets:
        """The buckets that the scenario gives to what travels in this phase."""
        given = self.fusion.reduce_scatter if self.phase is Phase.SCATTER else self.fusion.all_gather
        assert given is not None
        return given

    def of_all(self, instances: Sequence[Instance]) -> list[BucketMember]:
        """What travels of instances."""
        return [part for instance in instances for part in self.parts(instance)]

    def parts(self, instance: Instance) -> Iterator[BucketMember]:
        """What travels of an instance: weights in the order of its block, those that the backward uses from
        the last on; gradients in the order in which they are ready.
        """
        block = self.graph.block_of(instance)
        if block.name not in self.known:
            self.known[block.name] = buffer_scopes(block), self._chains(block)
        own, chains = self.known[block.name]
        owners = {block.gradients[name]: name for name in block.parameters if name in block.gradients}
        for chain in chains:
            names = {value: self.naming(instance.name, value) for value in _values_of(chain)}
            self.values.update({name: block.values[value] for value, name in names.items()})
            self.lives.update({name: own[value] for value, name in names.items()})
            ends = [owners.get(value, value) for value in (chain[0].inputs[0], chain[-1].outputs[0])]
            parameter = next(value for value in ends if value in block.parameters)
            number = self.fusion.id_of(self.graph.canonical(f"{instance.name}.{parameter}"))
            steps = tuple(self._steps(block, chain))
            whole = chain[0].inputs[0] if self.phase is Phase.SCATTER else chain[-1].outputs[0]
            yield BucketMember(
                instance.name,
                tuple(_renamed(node, instance.name, names) for node in chain),
                (tuple(movement for movement, _ in steps), block.values[whole].type.dtype, number),
                names[whole],
                local_type(block.values[whole], self.mesh).num_bytes,
                # What is whole on every rank already has nobody to travel with: its shard is cut out.
                number == ALONE or not steps,
                steps,
            )

    def _steps(self, block: Block, chain: Sequence[Node]) -> Iterator[tuple[Movement, int]]:
        for node in chain:
            if isinstance(node.operator, Movement) and node.operator.is_collective:
                ends = [block.values[value] for value in (node.inputs[0], node.outputs[0])]
                before, after = (local_type(value, self.mesh) for value in ends)
                yield node.operator, collective_bytes(node.operator, before, after, self.mesh)

    def _chains(self, block: Block) -> list[list[Node]]:
        """What is done one after another to move each weight or gradient, in the order of ``parts``."""
        nodes = nodes_gathered_once(block) if self.phase is Phase.BEGIN else block.phase(self.phase)
        chains: list[list[Node]] = []
        by_end: dict[str, list[Node]] = {}
        for node in nodes:
            # What adds to the end of a chain belongs to it, as the sum that comes from a disk.
            chain = by_end.pop(node.inputs[0], None) or by_end.get(node.outputs[0])
            if chain is None:
                chain = []
                chains.append(chain)
            chain.append(node)
            by_end[node.outputs[0]] = chain
        if self.phase is Phase.SCATTER:
            ready = value_order(block)
            # What the backward makes stands anywhere in a chain: first, or behind a sum that is brought.
            return sorted(chains, key=lambda chain: max(ready.get(value, -1) for value in _values_of(chain)))
        return chains[:: -1 if self.phase is Phase.REGATHER else 1]

    def bucket(self, number: int, groups: Sequence[Sequence[BucketMember]], at: str) -> GradientBucket:
        """The block that moves some groups, those of each together."""
        nodes = _in_turn(
            node
            for place, group in enumerate(groups)
            for node in bucket_steps([part.nodes for part in group], f"{place}." if place else "")
        )
        held = {value: self.values[value] for node in nodes for value in node.inputs + node.outputs}
        block = Block(f"{_NAMES[self.phase]}.{number}", (), (), (), (), held, nodes)
        return GradientBucket(block, at, {value: self.lives[value] for value in held})


def _in_turn(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes of a bucket in which every sum on a disk is back there before it is read for another term.

    A bucket may hold several terms of one sum, as those of the slices of a sequence.
    """
    kept: list[Node] = []
    turns: dict[str, str] = {}
    later: dict[str, list[Node]] = {}
    for node in nodes:
        source, target = node.inputs[0], node.outputs[0]
        if node.phase is Phase.SCATTER and isinstance(node.operator, Relocation):
            ends = {node.operator.source: source, node.operator.target: target}
            total, held = ends.get(MemoryPlace.DISK), ends[MemoryPlace.HOST]
            if total and turns.setdefault(total, held) != held:
                later.setdefault(held, []).append(node)
                continue
        kept.append(node)
    return (*kept, *itertools.chain(*later.values()))


def _values_of(chain: Sequence[Node]) -> Iterator[str]:
    """Names of all that the operators of a chain read and write."""
    return (value for node in chain for value in (*node.inputs, *node.outputs))


def _renamed(node: Node, instance: str, names: Mapping[str, str]) -> Node:
    return replace(
        node,
        name=f"{instance}.{node.name}",
        inputs=tuple(names[value] for value in node.inputs),
        outputs=tuple(names[value] for value in node.outputs),
        kernel=CASTS if isinstance(node.operator, Cast) else "",
    )
