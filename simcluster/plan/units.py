"""Units: the weights of one block instance are gathered together, and its gradients scattered together.

Both are differences between layouts. The home of a sharded parameter is its shard; operators use it whole, so
it is gathered before (phases ``gather`` and ``regather``). What backward makes is whole and partial over the
sharding axes; the accumulator is a shard, so the gradient is reduce-scattered behind it (phase ``scatter``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from simcluster.layout import Layout, Mesh, Strategy
from simcluster.model import Block, Node, Phase, Role, TensorType, Value
from simcluster.model.operators.cast import Cast
from simcluster.model.operators.pointwise import Add
from simcluster.plan.redistribute import Router
from simcluster.plan.sharding import Sharding
from simcluster.plan.together import Journey, together
from simcluster.work import DType


def with_units(
    block: Block,
    homes: Mapping[str, Layout],
    sharding: Sharding,
    held: Callable[[DType], DType],
    ties: Mapping[str, str],
    mesh: Mesh,
    router: Router,
) -> Block:
    """The block with its sharded weights gathered and its sharded gradients scattered.

    ``homes`` are the layouts of the states by parameter, ``held`` the number format in which weights of a
    compute format are stored, ``ties`` the axis over the stages that hold a copy of a tied parameter.
    """
    unit = _Unit(block, homes, sharding, held, mesh, router, dict(block.values), list(block.nodes))
    unit.tie(ties)
    moved = [name for name in block.parameters if homes[name] != block.values[name].layout]
    if sharding.gradients:
        unit.scatter([name for name in moved if name in block.gradients])
    if sharding.weights:
        unit.gather(moved)
    nodes = sorted(unit.nodes, key=lambda node: list(Phase).index(node.phase))
    return replace(block, values=unit.values, nodes=tuple(nodes))


@dataclass
class _Unit:
    block: Block
    homes: Mapping[str, Layout]
    sharding: Sharding
    held: Callable[[DType], DType]
    mesh: Mesh
    router: Router
    values: dict[str, Value]
    nodes: list[Node]

    def tie(self, ties: Mapping[str, str]) -> None:
        """Gradients of tied parameters are partial over the stages that hold a copy, too."""
        for parameter, axis in ties.items():
            gradient = self.block.gradients.get(parameter)
            if gradient is not None:
                layout = self._layout(gradient).with_partial((axis,))
                self.values[gradient] = replace(self.values[gradient], layout=layout)

    # -- gradients --------------------------------------------------------------------------------------

    def scatter(self, parameters: list[str]) -> None:
        """Gradients of a micro-batch are reduced to the shards in which they are accumulated."""
        journeys: dict[str, Journey] = {}
        accumulators: dict[str, str] = {}
        for name in parameters:
            accumulator = self.block.gradients[name]
            start, home = self._layout(accumulator), self.homes[name]
            left = tuple(item for item in start.partial if item[0] not in home.axes)
            target = replace(home, partial=left)
            whole = self._whole_gradient(accumulator)
            self.values[accumulator] = replace(self.values[accumulator], layout=target)
            journeys[whole] = Journey(self.values[accumulator].type, start, target)
            accumulators[whole] = accumulator
        why = "gradients are accumulated in shards"
        self._travel(journeys, accumulators, Phase.SCATTER, Role.GRADIENT, "", why)

    def _whole_gradient(self, accumulator: str) -> str:
        """The name of one micro-batch's gradient, which goes into the accumulator no longer directly."""
        writers = [node for node in self.nodes if accumulator in node.outputs]
        whole = f"{accumulator}.whole"
        kind = replace(self.values[accumulator], role=Role.GRADIENT)
        self.values[whole] = kind
        terms = [whole] if len(writers) == 1 else [f"{whole}{index}" for index in range(len(writers))]
        renamed: dict[str, str] = {}
        for node, term in zip(writers, terms, strict=True):
            self.values[term] = kind
            renamed[node.name] = term
        self.nodes = [
            replace(
                node, outputs=tuple(renamed[node.name] if out == accumulator else out for out in node.outputs)
            )
            if node.name in renamed
            else node
            for node in self.nodes
        ]
        if len(terms) > 1:
            labels = tuple(f"dim{index}" for index in range(len(kind.type.shape)))
            strategy = Strategy.of(dict(zip(labels, self._layout(whole).dims, strict=True)))
            add = Add(labels, len(terms))
            self.nodes.append(
                Node(f"{whole}.sum", add, tuple(terms), (whole,), Phase.BACKWARD, strategy=strategy)
            )
        return whole

    # -- weights ----------------------------------------------------------------------------------------

    def gather(self, parameters: list[str]) -> None:
        """Weights lie in shards; forward and backward read copies that are gathered for them."""
        used = {name: self.values[name] for name in parameters}
        for name, value in used.items():
            kind = TensorType(value.type.shape, self.held(value.type.dtype))
            self.values[name] = replace(value, type=kind, layout=self.homes[name])
        copies = {Phase.FORWARD: self._copies(used, Phase.GATHER, "gathered")}
        copies[Phase.BACKWARD] = copies[Phase.FORWARD]
        if self.sharding.regather:
            copies[Phase.BACKWARD] = self._copies(used, Phase.REGATHER, "regathered")
        self.nodes = [
            replace(node, inputs=tuple(copies[node.phase].get(value, value) for value in node.inputs))
            if node.phase in copies
            else node
            for node in self.nodes
        ]

    def _copies(self, used: Mapping[str, Value], phase: Phase, label: str) -> dict[str, str]:
        """Parameter -> its gathered copy, with the nodes that make all of them."""
        copies = {name: f"{name}.{label}" for name in used}
        suffix = "" if phase is Phase.GATHER else ".again"
        journeys: dict[str, Journey] = {}
        targets: dict[str, str] = {}
        for name, value in used.items():
            assert value.layout is not None
            source, kind = name, self.values[name]
            if kind.type.dtype is not value.type.dtype:
                source = f"{name}.cast{suffix}"
                self.values[source] = Value(value.type, Role.GATHERED, kind.layout)
                cast = Cast.of(kind.type, value.type.dtype)
                self.nodes.append(Node(source, cast, (name,), (source,), phase, origin=name))
            journeys[source] = Journey(value.type, self.homes[name], value.layout)
            targets[source] = copies[name]
        why = "weights lie in shards"
        self._travel(journeys, targets, phase, Role.GATHERED, suffix, why)
        return copies

    # -- both -------------------------------------------------------------------------------------------

    def _travel(
        self,
        journeys: Mapping[str, Journey],
        names: Mapping[str, str],
        phase: Phase,
        role: Role,
        suffix: str,
        why: str,
    ) -> None:
        """Nodes that bring values to their targets, under the names given."""
        at = {value: value for value in journeys}
        for step in together(journeys, self.mesh, self.router):
            value = step.value
            target = names[value]
            label = (
                f"{target.removesuffix('.gathered').removesuffix('.regathered')}.{step.movement.kind}{suffix}"
            )
            made = target if step.last else label
            if made not in self.values:
                self.values[made] = Value(journeys[value].type, role, step.layout)
            node = Node(label, step.movement, (at[value],), (made,), phase, origin=value, why=why)
            self.nodes.append(node)
            at[value] = made

    def _layout(self, value: str) -> Layout:
        layout = self.values[value].layout
        assert layout is not None
        return layout
