"""The layouts of every operator, their sources, and the redistributions between them with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.cluster import Cluster, placements_of
from simcluster.collectives import Operation, UnequalPartsByGroup, collective_time, copy_time
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Mesh, Movement, axis_pieces, unsplit_mesh, whole
from simcluster.model import (
    Block,
    Graph,
    Instance,
    MemoryPlace,
    Node,
    Operator,
    Phase,
    Relocation,
    TensorType,
    Value,
)
from simcluster.plan import Plan, collective_bytes, expert_parts, part_type
from simcluster.program import (
    BEGIN,
    GATHER,
    REDUCE,
    REGATHER,
    SCATTER,
    Instruction,
    InstructionBlock,
    InstructionKind,
    host_path_of,
)
from simcluster.scenario import Scenario
from simcluster.simulation.compose import BuiltScenario, plan_scenario
from simcluster.simulation.views.mindspore_tensor_maps import tensor_maps


def layouts_document(built: BuiltScenario, *, maps: bool = False) -> list[dict[str, Any]]:
    """One entry per block: its instances, and its nodes in order with strategy, layouts and cost.

    With ``maps`` every operator has its device matrix and tensor maps as MindSpore would print them. Where
    gradients or weights of several blocks travel together, the buckets of every stage follow.
    """
    policy = built.plan.execution
    reduced = () if policy.by_layer else (REDUCE,)
    scattered = (SCATTER,) if policy.scatters_together else ()
    buckets = [
        *_buckets(built, "gradient buckets", (*scattered, *reduced)),
        *(_buckets(built, "weight buckets", (BEGIN, GATHER, REGATHER)) if policy.gathers_together else []),
    ]
    blocks = graph_layouts(built.plan, built.cluster, built.plan.graph, maps=maps)
    return [*blocks, *_named_whole(built.plan.mesh, buckets)]


def graph_layouts(plan: Plan, cluster: Cluster, graph: Graph, *, maps: bool = False) -> list[dict[str, Any]]:
    """One entry per block of a graph behind any pass of a plan; values without layouts have their types.

    PlanError for tensor maps of a program that is written by hand, or of a graph that is not sharded.
    """
    if maps and plan.placement.part_of_rank:
        raise PlanError("a program that is written by hand has no tensor maps", path="parallel.mode")
    blocks = graph.blocks.values()
    if maps and any(value.layout is None for block in blocks for value in block.values.values()):
        raise PlanError("before pass 'shard' nothing has a tensor map", hint="leave out --tensor-maps")
    groups: dict[str, list[Instance]] = {}
    for instance in graph.instances:
        groups.setdefault(instance.block, []).append(instance)
    view = _View(plan, cluster, graph, maps)
    return [_named_whole(plan.mesh, view.block(name, instances)) for name, instances in groups.items()]


def layouts_after(scenario: Scenario, name: str, *, maps: bool = False) -> list[dict[str, Any]]:
    """The entries of the graph after a pass of a scenario's plan; PlanError if it runs no such pass."""
    plan = plan_scenario(scenario)
    return graph_layouts(plan, scenario.cluster, plan.passes.after(name), maps=maps)


def _named_whole(mesh: Mesh, what: Any) -> Any:
    """Texts in which all pieces of an axis stand together under its own name."""
    cuts = [axis_pieces(mesh, axis) for axis in unsplit_mesh(mesh).names if axis not in mesh.sizes]
    if not cuts or isinstance(what, (int, float)):
        return what
    if isinstance(what, str):
        for parts in cuts:
            for together in ("+", ", "):
                what = what.replace(together.join(parts), whole(parts[0]))
        return what
    if isinstance(what, Mapping):
        return {key: _named_whole(mesh, value) for key, value in what.items()}
    return [_named_whole(mesh, element) for element in what]


def _buckets(built: BuiltScenario, title: str, phases: Sequence[str]) -> list[dict[str, Any]]:
    """The collectives of every stage's buckets in some phases; stages with the same ones together."""
    alike: dict[str, dict[str, Any]] = {}
    for number, stage in enumerate(built.program.parts[:: built.program.num_variants]):
        runs = ((instance, built.program.codes[code]) for code, instance in stage.columns.pairs)
        nodes = [
            _bucket(built, instance, code, instruction)
            for instance, code in runs
            if code.phase in phases
            for instruction in code.instructions
            if instruction.action is InstructionKind.COLLECTIVE
        ]
        if nodes:
            entry = alike.setdefault(str(nodes), {"block": title, "names": [], "nodes": nodes})
            entry["names"].append(f"stage.{number}")
    return [
        entry | {"instances": name_ranges_text(entry["names"]), "count": len(entry["names"])}
        for entry in alike.values()
    ]


def _bucket(
    built: BuiltScenario, instance: str, code: InstructionBlock, instruction: Instruction
) -> dict[str, Any]:
    """A collective of a bucket, and what travels in it."""
    slots = code.slots
    before, after = slots[instruction.calls[0].inputs[0]], slots[instruction.calls[0].outputs[0]]
    alone = len(instruction.calls) == 1
    what = before.name if alone else f"{before.name} and {len(instruction.calls) - 1} more"
    phase = Phase.END if code.phase == REDUCE else Phase(code.phase)
    things = "gradients" if phase in (Phase.END, Phase.SCATTER) else "weights"
    often = _OFTEN.get(phase, "once per step")
    return {
        "name": f"{instance}.{instruction.name}",
        "phase": str(phase),
        "kind": f"{instruction.operation} over {'+'.join(instruction.group)}",
        "inputs": [[what, str(before.layout)]],
        "outputs": [[after.name, str(after.layout)]],
        "kernel": "",
        "why": instruction.reason if alone else f"{len(instruction.calls)} {things} travel together, {often}",
        "bytes": instruction.num_bytes,
        "seconds": _worst(
            built.plan,
            built.cluster,
            Operation(instruction.operation),
            instruction.group,
            instruction.num_bytes,
        ),
    }


_OFTEN = {
    Phase.GATHER: "for each use",
    Phase.REGATHER: "for each use",
    Phase.SCATTER: "for each micro-batch",
}


@dataclass(frozen=True)
class _View:
    """What is shown of a graph; with ``maps`` tensor maps, too."""

    plan: Plan
    cluster: Cluster
    graph: Graph
    maps: bool

    def block(self, name: str, instances: Sequence[Instance]) -> dict[str, Any]:
        """The entry of a block that these instances use."""
        block = self.graph.blocks[name]
        return {
            "block": name,
            "instances": name_ranges_text([instance.name for instance in instances]),
            "names": [instance.name for instance in instances],
            "count": len(instances),
            "nodes": [self._node(block, instances[0], node) for node in block.nodes],
        }

    def _node(self, block: Block, instance: Instance, node: Node) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "name": node.name,
            "phase": str(node.phase),
            "inputs": [[value, self._lies(block.values[value])] for value in node.inputs],
            "outputs": [[value, self._lies(block.values[value])] for value in node.outputs],
            "kernel": "" if node.kernel == node.name else node.kernel,
            **({"graph": node.piece} if node.piece else {}),
            **({"place": str(node.place)} if node.place is not MemoryPlace.DEVICE else {}),
        }
        if isinstance(node.operator, Operator):
            unsharded = any(block.values[value].layout is None for value in node.outputs)
            sources = {} if unsharded else self.plan.strategies.sources.get(instance.name, {})
            source = sources.get(node.source, "")
            if self.maps and node.phase in (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS):
                plan = self.plan
                entry["maps"] = tensor_maps(plan.mesh, plan.stage_axis, node.operator.dims(), node.strategy)
            own = self.plan.placement.part_of_rank and not node.strategy.splits
            strategy = "" if own or unsharded else str(node.strategy)
            padding = self._padding(block, node, node.operator)
            if padding:
                entry["padding"] = padding
            return entry | {"kind": node.operator.kind, "strategy": strategy, "source": source}
        if isinstance(node.operator, Relocation):
            cost = self._copied(block, node, node.operator)
        else:
            cost = self._cost(block, node, node.operator)
        return entry | {"kind": str(node.operator), "why": node.why} | cost

    def _copied(self, block: Block, node: Node, relocation: Relocation) -> dict[str, Any]:
        """Bytes and seconds of a copy between places, alone, for the first rank."""
        kind = block.values[node.inputs[0]]
        assert kind.layout is not None
        size = part_type(kind.type, kind.layout, self.plan.mesh).num_bytes
        time = copy_time(host_path_of(relocation), 0, size, self.cluster, relocation.bandwidth_limit)
        return {"bytes": size, "seconds": time.seconds}

    def _padding(self, block: Block, node: Node, operator: Operator) -> str:
        """Which dims the operator has padded, and to what: ``heads 6 padded to 8``."""
        if not node.strategy.splits:
            return ""
        mesh = self.plan.mesh
        shapes = [block.values[value].type.shape for value in (*node.inputs, *node.outputs)]
        extent = operator.dims().extents(shapes)
        ways = {dim: mesh.product(axes) for dim, axes in node.strategy.splits}
        return ", ".join(
            f"{dim} {extent[dim]:,} padded to {-(-extent[dim] // count) * count:,}"
            for dim, count in ways.items()
            if extent[dim] % count
        )

    def _lies(self, value: Value) -> str:
        """The layout of a value; the type of what has none yet, or a hand-written program for itself."""
        own = self.plan.placement.part_of_rank and value.layout is not None and not value.layout.axes
        return str(value.type if own or value.layout is None else value.layout)

    def _cost(self, block: Block, node: Node, movement: Movement) -> dict[str, Any]:
        """Bytes and seconds of a movement over the worst of its groups."""
        mesh = self.plan.mesh

        def part(values: tuple[str, ...]) -> TensorType | None:
            """What a rank holds of the tensor, if there is one."""
            kind = block.values[values[0]] if values else None
            return part_type(kind.type, kind.layout, mesh) if kind and kind.layout else None

        size = collective_bytes(movement, part(node.inputs), part(node.outputs), mesh)
        if not movement.is_collective:
            return {"bytes": size, "seconds": 0.0}
        operation, parts = Operation(str(movement.kind)), expert_parts(movement, mesh)
        return {
            "bytes": size,
            "seconds": _worst(self.plan, self.cluster, operation, movement.axes, size, parts),
        }


def _worst(
    plan: Plan,
    cluster: Cluster,
    operation: Operation,
    axes: tuple[str, ...],
    size: int,
    parts: UnequalPartsByGroup | None = None,
) -> float:
    """Seconds of a collective over the worst of the groups over some axes; all have the same parts."""
    own = parts and parts.of_number(0)
    algorithm = plan.execution.algorithms.of(operation)
    placements, _ = placements_of(cluster, plan.mesh, axes)
    return max(
        collective_time(operation, where, size, cluster, algorithm, own).seconds for where in placements
    )


def name_ranges_text(names: list[str]) -> str:
    """``layers.0 .. layers.125`` for a run of names, else the names."""
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"
