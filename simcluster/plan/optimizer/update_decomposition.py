"""Pass: decomposes updates that need whole parameters: their norms (LAMB), or all of a matrix (Muon).

Such an update becomes its primitives, in the layouts of the states. Partial results are reduced like any
other sum; what a primitive needs whole is gathered for it, and cut again behind it. All parameters of a block
go together: first everything before the sums or gathers, then these as one collective, then the rest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Strategy
from simcluster.model import Block, Decomposition, Graph, Node, Operator, Phase, Role, Update, Value
from simcluster.plan.redistribution import RedistributionPlanner

_WHOLE = ("elements",)


def decompose_updates(graph: Graph, router: RedistributionPlanner) -> Graph:
    """The graph with primitives in place of every update that cannot run on the shards of its states."""
    return graph.with_blocks({name: _Updates(block, router).run() for name, block in graph.blocks.items()})


@dataclass
class _Updates:
    block: Block
    router: RedistributionPlanner
    values: dict[str, Value] = field(default_factory=dict)
    rounds: defaultdict[int, list[Node]] = field(default_factory=lambda: defaultdict(list))

    def run(self) -> Block:
        """The block; itself if nothing has to be rewritten."""
        self.values = dict(self.block.values)
        kept: list[Node] = []
        waiting: list[Node] = []
        for node in self.block.nodes:
            decomposition = self._decomposition(node)
            if decomposition is not None:
                self._write(node, decomposition)
            elif self.rounds:
                waiting.append(node)
            else:
                kept.append(node)
        if not self.rounds:
            return self.block
        for number in sorted(self.rounds):
            kept += sorted(self.rounds[number], key=_collective)
        return replace(self.block, values=self.values, nodes=(*kept, *waiting))

    def _decomposition(self, node: Node) -> Decomposition | None:
        """The primitives of an update whose parameter lies split."""
        if node.phase is not Phase.END or not isinstance(node.operator, Operator):
            return None
        barred = frozenset(dim for dim, _ in node.operator.dims().unsplittable)
        split = self._layout(node.inputs[0]).axes
        alone = isinstance(node.operator, Update) and node.operator.in_parts
        return node.operator.decompose(barred) if barred and (split or alone) else None

    def _layout(self, value: str) -> Layout:
        layout = self.values[value].layout
        assert layout is not None
        return layout

    def _write(self, node: Node, decomposition: Decomposition) -> None:
        """The primitives in rounds: a movement ends one."""
        home = self._layout(node.inputs[0])
        strategy = Strategy.of(dict.fromkeys(_WHOLE, home.axes))
        names = {f"in{index}": value for index, value in enumerate(node.inputs)}
        names |= {f"out{index}": value for index, value in enumerate(node.outputs)}
        ready = dict.fromkeys(node.inputs, 0)
        for suffix, part, inputs, outputs in decomposition.parts:
            assert isinstance(part, Operator), "updates move nothing by themselves"
            dims = part.dims()
            needed = [home if own == _WHOLE else node.strategy.layout(own) for own in dims.inputs]
            pairs = zip(inputs, needed, strict=True)
            operands = [self._placed(names[name], layout, node, ready) for name, layout in pairs]
            number = max(ready[value] for value in operands)
            kinds = part.infer([self.values[value].type for value in operands])
            layouts = dims.output_layouts(node.strategy if node.strategy.splits else strategy)
            for name, kind, dim_names, layout in zip(outputs, kinds, dims.outputs, layouts, strict=True):
                if name not in names:
                    names[name] = f"{node.name}.{name}"
                    placed = home if dim_names == _WHOLE else layout
                    self.values[names[name]] = Value(kind, self._role(node), placed)
                ready[names[name]] = number
            made = tuple(names[name] for name in outputs)
            own = node.strategy if dims.inputs[0] != _WHOLE else Strategy()
            primitive = replace(node, name=f"{node.name}.{suffix}", operator=part, strategy=own)
            self.rounds[number].append(replace(primitive, inputs=tuple(operands), outputs=made))

    @staticmethod
    def _role(node: Node) -> Role:
        """What a primitive makes takes the gradient's place, or is a tensor of its own."""
        alone = isinstance(node.operator, Update) and node.operator.in_parts
        return Role.GRADIENT if alone else Role.VIEW

    def _placed(self, value: str, needed: Layout, node: Node, ready: dict[str, int]) -> str:
        """The value as it is needed, reduced and whole, by movements of their own rounds."""
        for movement, reached in self.router.path(self.values[value].type, self._layout(value), needed):
            name = f"{value}.{movement.kind}"
            if name not in self.values:
                role = self._role(node) if movement.is_collective else Role.VIEW
                self.values[name] = replace(self.values[value], layout=reached, role=role)
                why = f"an update needs the whole of {value}, and its parameter lies split"
                moved = Node(name, movement, (value,), (name,), Phase.END, origin=node.origin, why=why)
                self.rounds[ready[value] + 1].append(moved)
                ready[name] = ready[value] + 2
            value = name
        return value


def _collective(node: Node) -> str:
    """Movements that can travel as one stand next to each other."""
    return "" if isinstance(node.operator, Operator) else str(node.operator)
