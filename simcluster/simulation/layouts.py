"""The layouts of every operator, where they come from, and what stands between them and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.cluster import placements_of
from simcluster.collectives import Operation, collective_time
from simcluster.layout import Mesh, Movement, pieces, uncut, whole
from simcluster.model import Block, Instance, Node, Operator, Phase
from simcluster.plan.redistribute import local_bytes
from simcluster.program import Action, Code, Instruction
from simcluster.program.lower import BEGIN, GATHER, REDUCE, REGATHER, SCATTER
from simcluster.simulation.build import Built
from simcluster.simulation.tensor_maps import tensor_maps


def layouts(built: Built, *, maps: bool = False) -> list[dict[str, Any]]:
    """One entry per block: its instances, and its nodes in order with strategy, layouts and cost.

    With ``maps`` every operator has its device matrix and tensor maps as MindSpore would print them. Where
    gradients or weights of several blocks travel together, the buckets of every stage follow.
    """
    groups: dict[str, list[Instance]] = {}
    for instance in built.plan.graph.instances:
        groups.setdefault(instance.block, []).append(instance)
    conduct = built.plan.conduct
    reduced = () if conduct.by_layer else (REDUCE,)
    scattered = (SCATTER,) if conduct.scatters_together else ()
    found = [
        *_blocks(built, groups, maps=maps),
        *_buckets(built, "gradient buckets", (*scattered, *reduced)),
        *(_buckets(built, "weight buckets", (BEGIN, GATHER, REGATHER)) if conduct.gathers_together else []),
    ]
    return [{key: _named_whole(built.plan.mesh, value) for key, value in each.items()} for each in found]


def _named_whole(mesh: Mesh, what: Any) -> Any:
    """Texts in which all pieces of an axis stand together under its own name."""
    cuts = [pieces(mesh, axis) for axis in uncut(mesh).names if axis not in mesh.sizes]
    if not cuts or isinstance(what, (int, float)):
        return what
    if isinstance(what, str):
        for parts in cuts:
            for together in ("+", ", "):
                what = what.replace(together.join(parts), whole(parts[0]))
        return what
    if isinstance(what, Mapping):
        return {key: _named_whole(mesh, value) for key, value in what.items()}
    return [_named_whole(mesh, each) for each in what]


def _blocks(built: Built, groups: Mapping[str, list[Instance]], *, maps: bool) -> list[dict[str, Any]]:
    return [
        {
            "block": name,
            "instances": ranges([instance.name for instance in instances]),
            "names": [instance.name for instance in instances],
            "count": len(instances),
            "nodes": [
                _node(built, built.plan.graph.blocks[name], instances[0], node, maps=maps)
                for node in built.plan.graph.blocks[name].nodes
            ],
        }
        for name, instances in groups.items()
    ]


def _buckets(built: Built, title: str, phases: Sequence[str]) -> list[dict[str, Any]]:
    """The collectives of every stage's buckets in some phases; stages with the same ones together."""
    alike: dict[str, dict[str, Any]] = {}
    for number, stage in enumerate(built.program.parts[:: built.program.num_variants]):
        runs = {(run.code, run.instance): built.program.codes[run.code] for run in stage.executions}
        nodes = [
            _bucket(built, instance, code, each)
            for (_, instance), code in runs.items()
            if code.phase in phases
            for each in code.instructions
            if each.action is Action.COLLECTIVE
        ]
        if nodes:
            entry = alike.setdefault(str(nodes), {"block": title, "names": [], "nodes": nodes})
            entry["names"].append(f"stage.{number}")
    return [
        each | {"instances": ranges(each["names"]), "count": len(each["names"])} for each in alike.values()
    ]


def _bucket(built: Built, instance: str, code: Code, each: Instruction) -> dict[str, Any]:
    """A collective of a bucket, and what travels in it."""
    slots = code.slots
    before, after = slots[each.calls[0].inputs[0]], slots[each.calls[0].outputs[0]]
    alone = len(each.calls) == 1
    what = before.name if alone else f"{before.name} and {len(each.calls) - 1} more"
    phase = Phase.END if code.phase == REDUCE else Phase(code.phase)
    things = "gradients" if phase in (Phase.END, Phase.SCATTER) else "weights"
    often = _OFTEN.get(phase, "once per step")
    return {
        "name": f"{instance}.{each.name}",
        "phase": str(phase),
        "kind": f"{each.operation} over {'+'.join(each.group)}",
        "inputs": [[what, str(before.layout)]],
        "outputs": [[after.name, str(after.layout)]],
        "kernel": "",
        "why": each.why if alone else f"{len(each.calls)} {things} travel together, {often}",
        "bytes": each.num_bytes,
        "seconds": _worst(built, Operation(each.operation), each.group, each.num_bytes),
    }


_OFTEN = {
    Phase.GATHER: "for each use",
    Phase.REGATHER: "for each use",
    Phase.SCATTER: "for each micro-batch",
}


def _node(built: Built, block: Block, instance: Instance, node: Node, *, maps: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": node.name,
        "phase": str(node.phase),
        "inputs": [[value, str(block.values[value].layout)] for value in node.inputs],
        "outputs": [[value, str(block.values[value].layout)] for value in node.outputs],
        "kernel": "" if node.kernel == node.name else node.kernel,
    }
    if isinstance(node.operator, Operator):
        sources = built.plan.strategies.sources.get(instance.name, {})
        source = sources.get(node.source, "")
        if maps and node.phase in (Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS):
            plan = built.plan
            entry["maps"] = tensor_maps(plan.mesh, plan.stage_axis, node.operator.dims(), node.strategy)
        return entry | {"kind": node.operator.kind, "strategy": str(node.strategy), "source": source}
    return entry | {"kind": str(node.operator), "why": node.why} | _cost(built, block, node, node.operator)


def _cost(built: Built, block: Block, node: Node, movement: Movement) -> dict[str, Any]:
    """Bytes and seconds of a movement over the worst of its groups."""
    sizes = []
    for value in (node.inputs[0], node.outputs[0]):
        kind = block.values[value]
        assert kind.layout is not None
        sizes.append(local_bytes(kind.type, kind.layout, built.plan.mesh))
    before, after = sizes
    size = movement.num_bytes(before, after, built.plan.mesh.product(movement.axes))
    if not movement.is_collective:
        return {"bytes": size, "seconds": 0.0}
    return {"bytes": size, "seconds": _worst(built, Operation(str(movement.kind)), movement.axes, size)}


def _worst(built: Built, operation: Operation, axes: tuple[str, ...], size: int) -> float:
    """Seconds of a collective over the worst of the groups over some axes."""
    algorithm = built.plan.algorithms.of(operation)
    placements, _ = placements_of(built.cluster, built.plan.mesh, axes)
    return max(
        collective_time(operation, where, size, built.cluster, algorithm).seconds for where in placements
    )


def ranges(names: list[str]) -> str:
    """``layers.0 .. layers.125`` for a run of names, else the names."""
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"
