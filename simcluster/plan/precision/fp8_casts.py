"""Passes: lifetime of fp8 copies and order of their gathers, once it is known what is redistributed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Movement, MovementKind, Strategy
from simcluster.model import Block, Fp8Cast, Fp8Transpose, Graph, Node, Phase, Role


def repeat_casts(graph: Graph, *, transposed_behind: bool = False) -> Graph:
    """The sharded graph in which fp8 casts of redistributed operands are repeated in the backward.

    A redistributed tensor lives only inside its phase, and so does a cast of it: the tensor before the
    redistribution is saved, as without fp8. What an all-to-all moved is no larger than before, so it is saved
    and not sent again, nor a second time for its transposed copy. With ``transposed_behind`` neither is what
    is gathered.
    """
    travelling = {MovementKind.ALL_TO_ALL, *([MovementKind.ALL_GATHER] if transposed_behind else [])}
    graph = graph.with_blocks(
        {name: _Transposing(block, travelling).run() for name, block in graph.blocks.items()}
    )
    return graph.with_blocks(
        {name: _gathered_at_once(_late(_repeated(block))) for name, block in graph.blocks.items()}
    )


@dataclass
class _Transposing:
    """Sends one fp8 copy by the movements of these kinds, and makes the transposed one where it arrives.

    So does Transformer Engine with what it gathers on Hopper, whose matrix units take one layout of operands:
    it keeps and gathers the copy that the forward reads, and transposes the gathered one by a kernel
    (``_all_gather_fp8``, from memory). So does DeepSeek-V3 with the tokens of experts: what was dispatched in
    fp8 is kept, and in the backward read, transposed and written once more (arXiv 2412.19437, section 3.5.2,
    from memory).
    """

    block: Block
    kinds: Collection[MovementKind]

    def run(self) -> Block:
        """The block with transposes behind its movements."""
        self.values = dict(self.block.values)
        self.nodes = list(self.block.nodes)
        for cast in self.block.nodes:
            if isinstance(cast.operator, Fp8Cast) and len(cast.outputs) == 2:
                self._one_copy(cast)
        return replace(self.block, nodes=tuple(self.nodes), values=self.values)

    def _one_copy(self, cast: Node) -> None:
        """A cast of which both copies travel, if they do."""
        plain, transposed = cast.outputs
        if not all(self._moves(node) for copy in cast.outputs for node in self._readers(copy)):
            return
        for first in self._readers(transposed):
            hops = self._hops(first)
            at = self.nodes.index(hops[-1])
            self.nodes[at : at + 1] = self._transposed(cast, hops)
            self.nodes = [node for node in self.nodes if node not in hops]
            for hop in hops[:-1]:
                del self.values[hop.outputs[0]]
        self.nodes[self.nodes.index(cast)] = _with_outputs(cast, (plain,))
        del self.values[transposed]

    def _hops(self, first: Node) -> list[Node]:
        """A movement and those behind it, as long as nothing else reads what arrives."""
        hops = [first]
        while len(behind := self._readers(hops[-1].outputs[0])) == 1 and self._moves(behind[0]):
            hops += behind
        return hops

    def _transposed(self, cast: Node, hops: Sequence[Node]) -> list[Node]:
        """What takes the place of the movements of a transposed copy."""
        made: list[Node] = []
        value = cast.outputs[0]
        for hop in hops:
            same = self._same(value, hop)
            if same is None:
                arrived = f"{hop.outputs[0]}.before"
                self.values[arrived] = self.values[hop.outputs[0]]
                same = replace(hop, name=arrived, inputs=(value,), outputs=(arrived,))
                made.append(same)
            (value,) = same.outputs
        (out,) = hops[-1].outputs
        layout = self.values[out].layout
        assert layout is not None and isinstance(cast.operator, Fp8Cast)
        labels = cast.operator.labels
        strategy = Strategy.of(dict(zip(labels, layout.dims, strict=True)))
        name, phase = f"{out}.transpose", hops[-1].phase
        transpose = Node(
            name, Fp8Transpose(labels), (value,), (out,), phase, origin=cast.source, strategy=strategy
        )
        return [*made, transpose]

    def _same(self, value: str, hop: Node) -> Node | None:
        """The movement of the plain copy that brings it where the transposed one is needed: in the same
        phase, or in the forward if what arrives is kept.
        """
        layout = self.values[hop.outputs[0]].layout
        kept = _is_a(hop, MovementKind.ALL_TO_ALL)
        return next(
            (
                node
                for node in self._readers(value)
                if self._moves(node)
                and (node.phase is hop.phase or (kept and node.phase is Phase.FORWARD))
                and self.values[node.outputs[0]].layout == layout
            ),
            None,
        )

    def _readers(self, value: str) -> list[Node]:
        return [node for node in self.nodes if value in node.inputs]

    def _moves(self, node: Node) -> bool:
        return _is_a(node, *self.kinds)


def _is_a(node: Node, *kinds: MovementKind) -> bool:
    return isinstance(node.operator, Movement) and node.operator.kind in kinds


def _gathered_at_once(block: Block) -> Block:
    """The block in which all copies that a cast makes of a gradient are gathered before the first is read.

    Transformer Engine gathers a gradient in both of its formats by one call that blocks, because a copy with
    scales along one dim cannot be turned into one with scales along the other (grad_output_preprocess, from
    memory). The copy that is read first is gathered last: its reader waits for both.
    """
    nodes = list(block.nodes)
    for cast in block.phase(Phase.BACKWARD):
        if not isinstance(cast.operator, Fp8Cast) or len(cast.outputs) == 1:
            continue
        gathers = [
            node for node in nodes if _is_a(node, MovementKind.ALL_GATHER) and node.inputs[0] in cast.outputs
        ]
        if len(gathers) > 1:
            nodes = [node for node in nodes if node not in gathers[1:]]
            place = nodes.index(gathers[0])
            nodes[place:place] = gathers[1:]
    return replace(block, nodes=tuple(nodes))


def _late(block: Block) -> Block:
    """The block in which a copy of what was exchanged all to all is made just before it is read: until then
    what does not need it runs beside the exchange, as experts that all tokens use do.
    """
    arriving = {
        value for node in block.nodes if _is_a(node, MovementKind.ALL_TO_ALL) for value in node.outputs
    }
    late = [node for node in block.nodes if isinstance(node.operator, Fp8Cast) and node.inputs[0] in arriving]
    if not late:
        return block
    names = {node.name for node in late}
    nodes: list[Node] = []
    for node in block.nodes:
        if node.name in names:
            continue
        due = [cast for cast in late if not set(cast.outputs).isdisjoint(node.inputs)]
        nodes += due
        late = [cast for cast in late if cast not in due]
        nodes.append(node)
    return replace(block, nodes=(*nodes, *late))


def _repeated(block: Block, *, weights: bool = False) -> Block:
    """The block with casts made again in backward: those of ``weights``, or those behind movements."""
    makers = {value: node for node in block.phase(Phase.FORWARD) for value in node.outputs}
    read = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
    values = dict(block.values)
    forward: dict[str, Node] = {}
    chains: list[tuple[Node, ...]] = []
    renamed: dict[str, str] = {}
    for cast in block.phase(Phase.FORWARD):
        if not isinstance(cast.operator, Fp8Cast) or read.isdisjoint(cast.outputs):
            continue
        moved = _moved(block, makers, cast)
        if cast.inputs[0] not in block.parameters if weights else not moved:
            continue
        parts = [replace(cast, outputs=_kept(cast, read)), *moved]
        made = {value: f"{value}.again" for node in parts for value in node.outputs}
        values |= {name: replace(values[value], role=Role.ACTIVATION) for value, name in made.items()}
        renamed |= {value: made[value] for value in parts[0].outputs}
        chains.append(tuple(_again(node, made) for node in reversed(parts)))
        used = {value for node in block.phase(Phase.FORWARD) for value in node.inputs}
        forward[cast.name] = _with_outputs(cast, _kept(cast, used))
    nodes: list[Node] = []
    for node in block.nodes:
        if node.phase is not Phase.BACKWARD:
            nodes.append(forward.get(node.name, node))
            continue
        due = [
            chain for chain in chains if not set(chain[-1].outputs).isdisjoint(map(renamed.get, node.inputs))
        ]
        for chain in due:
            nodes += chain
            chains.remove(chain)
        nodes.append(replace(node, inputs=tuple(renamed.get(value, value) for value in node.inputs)))
    return replace(block, nodes=tuple(nodes), values=values)


def _moved(block: Block, makers: Mapping[str, Node], cast: Node) -> list[Node]:
    """The movements behind which a copy is made, last first; one that completes a sum, or exchanges all to
    all, is not repeated.
    """
    movements: list[Node] = []
    maker = makers.get(cast.inputs[0])
    while maker is not None and isinstance(maker.operator, Movement):
        layout = block.values[maker.inputs[0]].layout
        if layout is None or layout.partial or maker.operator.kind is MovementKind.ALL_TO_ALL:
            break
        movements.append(maker)
        maker = makers.get(maker.inputs[0])
    return movements


def _kept(cast: Node, read: set[str]) -> tuple[str, ...]:
    return tuple(value for value in cast.outputs if value in read)


def _with_outputs(cast: Node, outputs: tuple[str, ...]) -> Node:
    """A cast that makes only these copies."""
    assert isinstance(cast.operator, Fp8Cast)
    return replace(cast, operator=replace(cast.operator, copies=len(outputs)), outputs=outputs)


def _again(node: Node, made: Mapping[str, str]) -> Node:
    """The node once more in backward, with its copies renamed."""
    renamed = replace(
        node,
        name=f"{node.name}.again",
        inputs=tuple(made.get(value, value) for value in node.inputs),
        outputs=tuple(made[value] for value in node.outputs),
        phase=Phase.BACKWARD,
        origin=node.source,
    )
    return _with_outputs(renamed, renamed.outputs) if isinstance(node.operator, Fp8Cast) else renamed


def cast_per_use(graph: Graph) -> Graph:
    """The graph in which weights that are gathered for each use are cast for each use.

    A cast that was saved from forward to backward would take the memory that sharding the weights saves.
    """
    return graph.with_blocks(
        {
            name: _repeated(_transient(block), weights=True) if _copies(block) else block
            for name, block in graph.blocks.items()
        }
    )


def cast_once_per_step(graph: Graph) -> Graph:
    """The graph in which fp8 copies of parameters are made once per step, unless they are redistributed
    first.

    They are made at their first use and kept beside the parameters.
    """
    return graph.with_blocks({name: _hoisted(block) for name, block in graph.blocks.items()})


def _copies(block: Block) -> set[str]:
    return {name for name, value in block.values.items() if value.role is Role.COPY}


def _transient(block: Block, held: Collection[str] = ()) -> Block:
    """The block with the copies of parameters that are not ``held`` as short-lived as activations."""
    gone = _copies(block) - set(held)
    values = {
        name: replace(value, role=Role.ACTIVATION) if name in gone else value
        for name, value in block.values.items()
    }
    return replace(block, values=values)


def _hoisted(block: Block) -> Block:
    copies = _copies(block)
    if not copies:
        return block
    nodes: list[Node] = []
    held: set[str] = set()
    for node in block.nodes:
        if copies.issuperset(node.outputs) and set(node.inputs) <= set(block.parameters):
            node = replace(node, phase=Phase.BEGIN)
            held.update(node.outputs)
        nodes.append(node)
    return _transient(replace(block, nodes=tuple(nodes)), held)
