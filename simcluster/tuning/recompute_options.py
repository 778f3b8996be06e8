"""Ways to save memory in a layer, cheapest first: growing sets of operators to recompute.

For every operator it is known what its kernels take and, from the graph itself, how much less the layer keeps
if it is made again with whatever its inputs need besides. The best ratio goes first, and so on until nothing
saves any more; running the whole layer again is one more. Of these sets only those stay that no mixture of
two others, some layers with the one and some with the other, would beat: the lower convex hull of time over
bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh, Movement
from simcluster.model import Block, Node, Phase
from simcluster.plan import SUFFIX, local_bytes, recompute_in_block

Operators = frozenset[str]


@dataclass(frozen=True, slots=True)
class RecomputeOption:
    """Operators to recompute in a layer; ``whole``: its whole forward. What that saves, and takes (ns)."""

    operators: Operators
    saved: int
    spent: int
    whole: bool = False


WHOLE = RecomputeOption(frozenset(), 1, 1, whole=True)
"""The whole layer, where there is nothing else to choose from: what it saves is a unit of its own."""


def recompute_options_of(
    block: Block, spent: Mapping[str, int], mesh: Mesh, *, collectives: bool = True
) -> list[RecomputeOption]:
    """What to recompute of a sharded block that keeps everything, the cheapest first.

    ``spent`` has the nanoseconds of its forward nodes by name.
    """
    return _hull(list(_Ladder(block, spent, mesh, collectives).rungs()))


@dataclass
class _Ladder:
    block: Block
    spent: Mapping[str, int]
    mesh: Mesh
    collectives: bool
    sources: dict[str, list[Node]] = field(default_factory=lambda: defaultdict(list))
    makers: dict[str, Node] = field(default_factory=dict)

    def rungs(self) -> Iterator[RecomputeOption]:
        """The sets as they grow."""
        forward = list(self.block.phase(Phase.FORWARD))
        for node in forward:
            self.makers |= dict.fromkeys(node.outputs, node)
            if not isinstance(node.operator, Movement):
                self.sources[node.source].append(node)
        everything = _kept(self.block, self.mesh)
        before = RecomputeOption(frozenset(), 0, 0)
        while True:
            rungs = [
                rung
                for source in self.sources
                if source not in before.operators
                for rung in [self._rung(before.operators | self._with_inputs(source, before), everything)]
                if rung.saved > before.saved
            ]
            if not rungs:
                break
            before = min(rungs, key=lambda rung: (rung.spent - before.spent) / (rung.saved - before.saved))
            yield before
        whole = recompute_in_block(
            self.block, frozenset(node.name for node in forward), collectives=self.collectives
        )
        names = [node.name for node in forward] if self.collectives else _copied(whole)
        spent = sum(self.spent.get(name, 0) for name in names)
        yield RecomputeOption(frozenset(), everything - _kept(whole, self.mesh), spent, whole=True)

    def _rung(self, operators: Operators, everything: int) -> RecomputeOption:
        nodes = frozenset(node.name for source in operators for node in self.sources[source])
        block = recompute_in_block(self.block, nodes, collectives=self.collectives)
        spent = sum(self.spent.get(name, 0) for name in _copied(block))
        return RecomputeOption(operators, everything - _kept(block, self.mesh), spent)

    def _with_inputs(self, source: str, before: RecomputeOption) -> Operators:
        """An operator with those that make what it reads and nobody keeps."""
        operators = {source}
        waiting = [value for node in self.sources[source] for value in node.inputs]
        read = _read(self.block)
        while waiting:
            value = waiting.pop()
            maker = self.makers.get(value)
            if maker is None or value in read or value in self.block.outputs:
                continue
            if isinstance(maker.operator, Movement):
                if self.collectives or not maker.operator.is_collective:
                    waiting += maker.inputs
                continue
            if maker.source not in operators:
                operators.add(maker.source)
                waiting += maker.inputs
        return frozenset(operators) | before.operators


def _copied(block: Block) -> list[str]:
    """The forward nodes that the backward runs again."""
    copies = {f"{node.name}{SUFFIX}": node.name for node in block.phase(Phase.FORWARD)}
    return [copies[node.name] for node in block.phase(Phase.BACKWARD) if node.name in copies]


def _read(block: Block) -> set[str]:
    """What the backward reads."""
    return {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}


def _kept(block: Block, mesh: Mesh) -> int:
    """Bytes that a rank keeps from the forward of a block to its backward."""
    made = {value for node in block.phase(Phase.FORWARD) for value in node.outputs} | {*block.inputs}
    total = 0
    for value in made & _read(block):
        kind = block.values[value]
        assert kind.layout is not None
        total += local_bytes(kind.type, kind.layout, mesh)
    return total


def _hull(rungs: list[RecomputeOption]) -> list[RecomputeOption]:
    """Those of which none is beaten by a mixture of two others, nothing being one of them."""
    hull = [RecomputeOption(frozenset(), 0, 0)]
    for rung in sorted(rungs, key=lambda rung: (rung.saved, -rung.spent)):
        if rung.saved <= hull[-1].saved and rung.spent >= hull[-1].spent:
            continue
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], rung):
            hull.pop()
        hull.append(rung)
    return hull[1:]


def _slope(low: RecomputeOption, high: RecomputeOption) -> float:
    """Nanoseconds for every byte more that is saved."""
    return (high.spent - low.spent) / max(1, high.saved - low.saved)
