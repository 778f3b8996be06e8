"""Pass: reduces gradients, updates parameters, and gathers what was sharded (phases ``end``, ``begin``).

ZeRO-1 is a choice of layouts: the states of a parameter are flat shards over the batch axes. So the gradient,
which is partial over them, is reduce-scattered to that layout, and the updated weights are all-gathered from
it before the next step's first use. Without sharding the same redistributions are all-reduces. Sharded
gradients and weights are scattered and gathered in every micro-batch (``fsdp_units``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh, Movement, Strategy, restricted_axis
from simcluster.model import (
    Block,
    Cast,
    Elementwise,
    Graph,
    Instance,
    Node,
    Phase,
    Role,
    SparseUpdate,
    TensorType,
    Update,
    Value,
)
from simcluster.plan.optimizer.fsdp_units import TiedCopy, add_unit_gathers
from simcluster.plan.optimizer.optimizer_plan import OptimizerPlan as OptimizerPlan
from simcluster.plan.optimizer.optimizer_plan import WrittenReduction as WrittenReduction
from simcluster.plan.optimizer.optimizer_plan import check_parameter_groups
from simcluster.plan.optimizer.unsharded_parameters import spared_parameters
from simcluster.plan.redistribution import (
    Redistribution,
    RedistributionPlanner,
    RedistributionStep,
    coalesce_redistributions,
)
from simcluster.work import DType


def optimize(
    graph: Graph, plan: OptimizerPlan, mesh: Mesh, router: RedistributionPlanner, stage_axis: str
) -> Graph:
    """The graph with the optimizer step: phases ``begin`` and ``end``."""
    ties = _Ties.of(graph, stage_axis)
    spared = spared_parameters(graph, plan.sharding)
    check_parameter_groups(graph, plan)

    def whole(instance: Instance) -> frozenset[str]:
        parameters = graph.block_of(instance).parameters
        return frozenset(name for name in parameters if f"{instance.weight_owner}.{name}" in spared)

    def served(instance: Instance) -> frozenset[str]:
        block = graph.block_of(instance)
        return frozenset(
            name
            for name in block.parameters
            if not (plan.caches_rows and name in block.row_gradients)
            and plan.served
            and plan.serves(graph.canonical(f"{instance.weight_owner}.{name}"))
        )

    def rules(instance: Instance) -> dict[str, tuple[Update, Mapping[str, DType]]]:
        parameters = graph.block_of(instance).parameters
        return {name: plan.of(graph.canonical(f"{instance.weight_owner}.{name}")) for name in parameters}

    def key(instance: Instance) -> str:
        """What a block's name says of how its parameters are updated; of tied ones each block is its own."""
        if ties.of_instance(instance, graph.block_of(instance)):
            return f"@{instance.name}"
        named = {name: f"{instance.weight_owner}.{name}" for name in graph.block_of(instance).parameters}
        groups = {name: plan.group_of(graph.canonical(full)) for name, full in named.items()}
        others = [f"{name} {group.update.kind}" for name, group in groups.items() if group is not None]
        kept = f" whole {' '.join(sorted(whole(instance)))}" if whole(instance) else ""
        if served(instance):
            every = served(instance) == frozenset(graph.block_of(instance).parameters)
            kept += " on servers" + ("" if every else f" {' '.join(sorted(served(instance)))}")
        return kept + (f" with {', '.join(others)}" if others else "")

    def rewrite(block: Block, instance: Instance) -> Block:
        special = ties.of_instance(instance, block)
        made = _BlockOptimizer(
            block, plan, mesh, router, special, rules(instance), whole(instance), served(instance)
        ).run()
        # What happens once per step does so for the first slice.
        return replace(made, nodes=tuple(_each(made))) if instance.first_slice else made

    keys = {instance.name: key(instance) for instance in graph.instances}
    return graph.specialised(keys, rewrite, lambda key, _: key)


def _each(block: Block) -> Iterator[Node]:
    """What a block does for every micro-batch."""
    return (node for node in block.nodes if node.phase not in (Phase.BEGIN, Phase.END))


@dataclass(frozen=True, slots=True)
class _Ties:
    """The ties of all copies of tied parameters, by name."""

    copies: Mapping[str, TiedCopy]

    @classmethod
    def of(cls, graph: Graph, stage_axis: str) -> _Ties:
        held = {
            f"{instance.name}.{name}": (instance.stage, _used(graph.block_of(instance), name))
            for instance in graph.instances
            for name in graph.block_of(instance).parameters
        }
        copies: dict[str, TiedCopy] = {}
        for group in graph.ties:
            stages = sorted({held[name][0] for name in group})
            axis = restricted_axis(stage_axis, stages) if len(stages) > 1 else None
            for stage in stages:
                here = [name for name in group if held[name][0] == stage]
                alike = len(here) > 1 and all(held[name] == held[here[0]] for name in here)
                copies |= {name: TiedCopy(axis, name == here[0], alike) for name in here}
        return cls(copies)

    def of_instance(self, instance: Instance, block: Block) -> dict[str, TiedCopy]:
        """Tied parameter of the block -> its tie."""
        names = {name: f"{instance.weight_owner}.{name}" for name in block.parameters}
        return {name: self.copies[full] for name, full in names.items() if full in self.copies}


def _used(block: Block, parameter: str) -> tuple[Layout | None, Layout | None]:
    """In which layouts a parameter is read, and its gradient made."""
    gradient = block.gradients.get(parameter)
    return block.values[parameter].layout, None if gradient is None else block.values[gradient].layout


def _sum_in_group(start: Layout, target: Layout, axes: Collection[str]) -> Layout:
    """The shards of a target while they are only the sums over the ranks that share them; the target itself
    where these are all ranks along ``axes`` whose terms differ.

    Where some replicas hold all shards between them, gradients are reduce-scattered there and all-reduced
    between such groups (MindSpore's ``optimizer_weight_shard_size``, PyTorch's ``HYBRID_SHARD``, Megatron's
    ``--num-distributed-optimizer-instances``), whatever one all-reduce over all would take.
    """
    over = {*axes}.intersection(start.partial_axes)
    groups = over - {*target.axes}
    if groups == over:
        return target
    return replace(target, partial=tuple(entry for entry in start.partial if entry[0] in groups))


@dataclass
class _BlockOptimizer:
    block: Block
    plan: OptimizerPlan
    mesh: Mesh
    router: RedistributionPlanner
    ties: Mapping[str, TiedCopy]
    rules: Mapping[str, tuple[Update, Mapping[str, DType]]]
    whole: frozenset[str] = frozenset()
    served: frozenset[str] = frozenset()

    def run(self) -> Block:
        """The block with its gradients reduced, its parameters updated and, if sharded, gathered."""
        sharding = self.plan.sharding_of(self.block)
        self.used = {name: self._used(name) for name in self.block.parameters}
        self.homes = {name: self._home(name) for name in self.block.parameters}
        self.block = add_unit_gathers(
            self.block, self.homes, sharding, self._sharded_dtype, self.ties, self.mesh, self.router
        )
        self.values = dict(self.block.values)
        self.begin: list[Node] = []
        self.end: list[Node] = []
        self.views: list[Node] = []
        self.back: list[Node] = []
        self.reduced: dict[str, str] = {}
        own = [name for name in self.block.parameters if name not in self.served]
        owned = [name for name in own if name not in self.ties or self.ties[name].owner]
        trained = [name for name in owned if name in self.block.gradients]
        self._reduce({self.block.gradients[name]: self.homes[name] for name in trained} | self._loss())
        self.end += [*self.views, *self.back]
        gradients = {name: self.reduced[self.block.gradients[name]] for name in trained}
        gradients = {name: self._main_gradient(name, gradient) for name, gradient in gradients.items()}
        for name, gradient in gradients.items():
            self._update(name, gradient)
        for name in self.block.row_gradients:
            if name not in self.served:
                self._update_rows(name)
        nodes = (*self.begin, *self.block.nodes, *self.end)
        return replace(self.block, values=self.values, nodes=nodes)

    def _used(self, parameter: str) -> Layout:
        """The layout in which operators read a parameter."""
        layout = self.block.values[parameter].layout
        assert layout is not None
        return layout

    def _home(self, parameter: str) -> Layout:
        """Where the states of a parameter lie: sharded, if they are, over axes that hold replicas of it."""
        value = self.block.values[parameter]
        assert value.layout is not None
        if parameter in self.whole or parameter in self.block.row_gradients:
            return value.layout
        kind = value.type
        if self.plan.sharding.weights and parameter not in self.block.frozen:
            # What is small is so by what lies in memory.
            kind = TensorType(kind.shape, self._sharded_dtype(kind.dtype))
        return self.plan.sharding.home(value.layout, kind, self.mesh)

    def _sharded_dtype(self, compute: DType) -> DType:
        """The number format of sharded weights: their master copy's, unless both are kept."""
        master = self.plan.master
        return compute if master is None or self.plan.sharding.keep_cast else master

    def _layout(self, value: str) -> Layout:
        layout = self.values[value].layout
        assert layout is not None
        return layout

    def _loss(self) -> dict[str, Layout]:
        loss = self.block.loss
        # Workers of servers do not wait for one another to say what the loss is.
        return {} if loss is None or self.plan.served else {loss: self._layout(loss).reduced}

    def _reduce(self, targets: Mapping[str, Layout]) -> None:
        """Brings accumulators to their targets; what travels may do so in a copy."""
        self.reduced = {value: value for value in targets}
        written = self._written(targets)
        steps = list(
            self._redistributions(targets)
            if written is None
            else (
                RedistributionStep(value, reduction.movement, targets[value], True)
                for value, reduction in written.items()
            )
        )
        travelling = {step.value for step in steps if step.movement.is_collective} - {self.block.loss}
        copied = [value for value in targets if self.plan.copies and value in travelling]
        for value in copied:
            self._copy(value, f"{value}.bucket", Role.BUFFER, self.end)
        for step in steps:
            # A slice that nothing is exchanged after belongs to the update, not to the reduction.
            nodes = self.views if step.last and not step.movement.is_collective else self.end
            self._step(step.value, step.movement, step.layout, nodes)
        for value in copied:
            self._copy(value, f"{value}.reduced", Role.VIEW, self.back)
        for value, reduction in (written or {}).items():
            if reduction.divisor > 1:
                self._divide(value, reduction.divisor)

    def _redistributions(self, targets: Mapping[str, Layout]) -> Iterator[RedistributionStep]:
        """The steps of accumulators to their targets: by way of their whole sums, or first to the shards of
        each sharding group, whose sums are then added up over the groups.
        """
        here = {value: self._layout(value) for value in targets}
        if self.plan.whole_sums:
            first = {value: layout.reduced for value, layout in here.items()}
        else:
            axes = {*self.plan.sharding.axes, *self.plan.batch_axes}
            first = {value: _sum_in_group(layout, targets[value], axes) for value, layout in here.items()}
        for leg in (first, targets):
            kinds = {value: self.values[value].type for value in leg}
            journeys = {value: Redistribution(kinds[value], here[value], leg[value]) for value in leg}
            yield from coalesce_redistributions(journeys, self.mesh, self.router)
            here |= leg

    def _written(self, targets: Mapping[str, Layout]) -> dict[str, WrittenReduction] | None:
        """What is written about accumulators; None where layouts tell what to do."""
        if self.plan.written is None:
            return None
        names = {gradient: name for name, gradient in self.block.gradients.items()}
        reductions = {value: self.plan.written.get(names.get(value, "")) for value in targets}
        return {value: reduction for value, reduction in reductions.items() if reduction is not None}

    def _divide(self, value: str, divisor: int) -> None:
        """A reduced gradient divided by a number, in place."""
        before = self.reduced[value]
        name = f"{value}.mean"
        kind = self.values[before]
        self.values[name] = replace(kind, role=Role.VIEW)
        labels = tuple(f"dim{index}" for index in range(len(kind.type.shape)))
        mean = Elementwise("mul", (labels,), labels, ((1, 1 / divisor),))
        self.back.append(Node(name, mean, (before,), (name,), Phase.END, origin=value))
        self.reduced[value] = name

    def _copy(self, value: str, name: str, role: Role, nodes: list[Node]) -> None:
        """A copy of what is left of a gradient, into its bucket or back."""
        before = self.reduced[value]
        kind = self.values[before]
        self.values[name] = replace(kind, role=role)
        cast = Cast.of(kind.type, kind.type.dtype)
        nodes.append(Node(name, cast, (before,), (name,), Phase.END, origin=value))
        self.reduced[value] = name

    def _main_gradient(self, parameter: str, gradient: str) -> str:
        """The gradient in the number format of the master copy, if the framework makes such a copy."""
        kind, master = self.values[gradient], self.plan.master
        if not self.plan.main_gradients or master is None or kind.type.dtype is master:
            return gradient
        name = f"{parameter}.main_grad"
        self.values[name] = Value(TensorType(kind.type.shape, master), Role.GRADIENT, kind.layout)
        cast = Cast.of(kind.type, master)
        self.end.append(Node(name, cast, (gradient,), (name,), Phase.END, origin=parameter))
        return name

    def _step(self, value: str, movement: Movement, layout: Layout, nodes: list[Node]) -> None:
        before = self.reduced[value]
        name = f"{before}.{movement.kind}"
        if name in self.values:
            # What a micro-batch's gradient goes through on its way to its shard has this name.
            name += ".once"
        self.values[name] = replace(self.values[value], layout=layout, role=Role.VIEW)
        why = f"{value} is reduced once per step"
        nodes.append(Node(name, movement, (before,), (name,), Phase.END, origin=value, why=why))
        self.reduced[value] = name

    def _update(self, parameter: str, gradient: str) -> None:
        kind = self.values[parameter]
        layout = self.homes[parameter]
        sharded = layout != kind.layout
        master = None if self._is_master(parameter) else self.plan.master
        weights = parameter
        if sharded:
            weights = f"{parameter}.shard"
            self.values[weights] = replace(kind, layout=layout, role=Role.VIEW, copy_of=parameter)
        update, operands, states, outputs = self._rule(parameter, weights, layout, master)
        name = f"{parameter}.update"
        inputs = (operands[0], gradient, *states)
        strategy = update.matrix_strategy(self.used[parameter].dims)
        made = Node(name, update, inputs, tuple(outputs), Phase.END, origin=parameter, strategy=strategy)
        self.end.append(made)
        if sharded:
            self._gather(parameter, weights, layout)

    def _is_master(self, parameter: str) -> bool:
        """Whether a parameter is its own master copy, updated in place: one whose shards are, or that stays
        whole among such and is cast where it is read.
        """
        sharding, stored = self.plan.sharding, self.values[parameter].type.dtype
        if not sharding.weights or sharding.keep_cast:
            return False
        return f"{parameter}.gathered" in self.values or stored is self.plan.master

    def _rule(
        self, parameter: str, weights: str, layout: Layout, master: DType | None
    ) -> tuple[Update, list[str], list[str], list[str]]:
        """How a parameter is updated: what is changed, its states, and what the update writes."""
        rule, formats = self.rules[parameter]
        update = replace(rule, cast=self.values[parameter].type.dtype if master else None)
        operands = [weights]
        if master is not None:
            operands = [self._state(parameter, "master", master, layout, copy_of=parameter)]
        states = [self._state(parameter, state, dtype, layout) for state, dtype in formats.items()]
        return update, operands, states, [*operands, *states, *([weights] if master else [])]

    def _update_rows(self, parameter: str) -> None:
        """The rows of a table that were looked up change; the pairs of all samples lie with every part."""
        kind, layout = self.values[parameter], self.homes[parameter]
        rows, ids = self.block.row_gradients[parameter]
        master = None if kind.type.dtype is self.plan.master else self.plan.master
        update, operands, states, outputs = self._rule(parameter, parameter, layout, master)
        rank = len(self.values[ids].type.shape)
        operator = SparseUpdate(update, kind.type.shape[0], rank)
        strategy = Strategy.of(dict(zip(operator.dims().inputs[0], layout.dims, strict=True)))
        inputs = (operands[0], rows, ids, *states)
        name = f"{parameter}.update"
        made = Node(name, operator, inputs, tuple(outputs), Phase.END, origin=parameter, strategy=strategy)
        self.end.append(made)

    def _state(self, parameter: str, state: str, dtype: DType, layout: Layout, copy_of: str = "") -> str:
        name = f"{parameter}.{state}"
        kind = TensorType(self.values[parameter].type.shape, dtype)
        self.values[name] = Value(kind, Role.STATE, layout, copy_of)
        return name

    def _gather(self, parameter: str, shard: str, layout: Layout) -> None:
        """The whole weights again, before the step's first use."""
        name = shard
        path = self.router.path(self.values[parameter].type, layout, self._layout(parameter))
        for index, (movement, reached) in enumerate(path):
            label = f"{parameter}.{movement.kind}"
            out = parameter if index == len(path) - 1 else f"{label}{index}"
            if out != parameter:
                self.values[out] = replace(self.values[parameter], layout=reached, role=Role.VIEW)
            why = f"the states of {parameter} have layout {layout}"
            self.begin.append(Node(label, movement, (name,), (out,), Phase.BEGIN, origin=parameter, why=why))
            name = out
