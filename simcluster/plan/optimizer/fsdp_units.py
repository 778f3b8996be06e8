"""FSDP units: the weights of one block instance are gathered together, and its gradients reduce-scattered
together.

Both are redistributions. A sharded parameter is stored as its shard; operators use it whole, so it is
gathered before (phases ``gather`` and ``regather``). The backward makes gradients that are whole and partial
over the sharding axes; the accumulator is a shard, so the gradient is reduce-scattered afterwards (phase
``scatter``).

A parameter with several tied copies on a stage is communicated once. Its gradient is the sum over all copies,
reduce-scattered when the last of them is made: that of the first copy in forward order, the owner. What is
gathered for a whole micro-batch or longer is gathered for the first copy that uses it, which is the owner
too; what is freed after each use is gathered for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh, Strategy
from simcluster.model import Add, Block, Cast, Node, Phase, Role, TensorType, Value
from simcluster.plan.redistribution import Redistribution, RedistributionPlanner, coalesce_redistributions
from simcluster.plan.spec import ShardingChoice
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class TiedCopy:
    """One copy of a tied parameter."""

    axis: str | None
    """The axis over the stages with a copy; None if only one stage has any."""
    owner: bool
    """Whether it is the copy that the update of its stage works on."""
    shared: bool
    """Whether other copies on its stage are used in the same layouts."""


def gathered_name(parameter: str) -> str:
    """The name of the whole weight that is gathered from a sharded parameter for the forward."""
    return f"{parameter}.gathered"


def whole_name(gradient: str) -> str:
    """The name of the whole gradient of one micro-batch whose accumulator is a shard."""
    return f"{gradient}.whole"


def add_unit_gathers(
    block: Block,
    homes: Mapping[str, Layout],
    sharding: ShardingChoice,
    held: Callable[[DType], DType],
    ties: Mapping[str, TiedCopy],
    mesh: Mesh,
    router: RedistributionPlanner,
) -> Block:
    """The block with all-gathers of its sharded weights and reduce-scatters of its sharded gradients.

    ``homes``: parameter -> the layout of its shards. ``held`` is the format of weights that have a master
    copy, ``ties`` the tied parameters.
    """
    unit = _Unit(block, homes, sharding, held, ties, mesh, router, dict(block.values), list(block.nodes))
    unit.tie()
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
    sharding: ShardingChoice
    held: Callable[[DType], DType]
    ties: Mapping[str, TiedCopy]
    mesh: Mesh
    router: RedistributionPlanner
    values: dict[str, Value]
    nodes: list[Node]

    def tie(self) -> None:
        """Gradients of tied parameters are partial over the stages that hold a copy, too."""
        for parameter, tie in self.ties.items():
            gradient = self.block.gradients.get(parameter)
            if gradient is not None and tie.axis is not None:
                layout = self._layout(gradient).with_partial((tie.axis,))
                self.values[gradient] = replace(self.values[gradient], layout=layout)

    def _shared(self, parameter: str) -> bool:
        return parameter in self.ties and self.ties[parameter].shared

    def _is_owner(self, parameter: str) -> bool:
        """Whether it is for this block to move what all copies of a parameter on the stage have in common."""
        return not self._shared(parameter) or self.ties[parameter].owner

    # -- gradients --------------------------------------------------------------------------------------

    def scatter(self, parameters: list[str]) -> None:
        """Gradients of a micro-batch are reduced to the shards in which they are accumulated."""
        journeys: dict[str, Redistribution] = {}
        accumulators: dict[str, tuple[str, str]] = {}
        for name in parameters:
            accumulator = self.block.gradients[name]
            start, home = self._layout(accumulator), self.homes[name]
            left = tuple(item for item in start.partial if item[0] not in home.axes)
            target = replace(home, partial=left)
            whole = self._whole_gradient(accumulator, Role.SUM if self._shared(name) else Role.GRADIENT)
            self.values[accumulator] = replace(self.values[accumulator], layout=target)
            if not self._is_owner(name):
                continue
            journeys[whole] = Redistribution(self.values[accumulator].type, start, target)
            accumulators[whole] = accumulator, accumulator
        why = "gradients are accumulated in shards"
        self._travel(journeys, accumulators, Phase.SCATTER, Role.GRADIENT, "", why)

    def _whole_gradient(self, accumulator: str, role: Role) -> str:
        """The name of one micro-batch's gradient, which goes into the accumulator no longer directly."""
        whole = whole_name(accumulator)
        kind = replace(self.values[accumulator], role=Role.GRADIENT)
        self.values[whole] = replace(kind, role=role)
        # An operator that reads one parameter twice (a norm's scale as its bias) makes two terms.
        written = sum(node.outputs.count(accumulator) for node in self.nodes)
        terms = [whole] if written == 1 else [f"{whole}{index}" for index in range(written)]
        for term in terms:
            self.values.setdefault(term, kind)
        left = iter(terms)
        self.nodes = [
            replace(node, outputs=tuple(next(left) if out == accumulator else out for out in node.outputs))
            if accumulator in node.outputs
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
            own = value.type.dtype
            kind = TensorType(value.type.shape, own if name in self.block.frozen else self.held(own))
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
        kept = {name for name in used if not self.sharding.regather and not self._is_owner(name)}
        self.values |= {copies[name]: replace(used[name], role=Role.GATHERED) for name in kept}
        suffix = "" if phase is Phase.GATHER else ".again"
        journeys: dict[str, Redistribution] = {}
        targets: dict[str, tuple[str, str]] = {}
        for name, value in used.items():
            if name in kept:
                continue
            assert value.layout is not None
            source, kind = name, self.values[name]
            if kind.type.dtype is not value.type.dtype:
                source = f"{name}.cast{suffix}"
                self.values[source] = Value(value.type, Role.GATHERED, kind.layout)
                cast = Cast.of(kind.type, value.type.dtype)
                self.nodes.append(Node(source, cast, (name,), (source,), phase, origin=name))
            journeys[source] = Redistribution(value.type, self.homes[name], value.layout)
            targets[source] = name, copies[name]
        why = "weights lie in shards"
        self._travel(journeys, targets, phase, Role.GATHERED, suffix, why)
        return copies

    # -- both -------------------------------------------------------------------------------------------

    def _travel(
        self,
        journeys: Mapping[str, Redistribution],
        names: Mapping[str, tuple[str, str]],
        phase: Phase,
        role: Role,
        suffix: str,
        why: str,
    ) -> None:
        """Nodes that bring values to their targets; ``names``: stem of the nodes' names, target."""
        at = {value: value for value in journeys}
        taken: Counter[str] = Counter()
        for step in coalesce_redistributions(journeys, self.mesh, self.router):
            value = step.value
            of, target = names[value]
            stem = f"{of}.{step.movement.kind}"
            taken[stem] += 1
            # A second step of one kind is another one, with a result of its own.
            again = str(taken[stem]) if taken[stem] > 1 else ""
            label = f"{stem}{again}{suffix}"
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
