"""Passes: which values are stored in host memory or on disks, and the copies around their use.

They come after all others, when it is known which kernel reads what. Values are chosen by category, name and
share; everything else follows from who reads and writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from simcluster import units
from simcluster.document import matches
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Mesh
from simcluster.model import Block, Graph, MemoryPlace
from simcluster.plan.offload.activation_offload import kept_activations, offload_activations
from simcluster.plan.offload.gradient_offload import (
    gradient_accumulators,
    gradients_reduced_once,
    offload_gradients,
    with_gradient_views,
)
from simcluster.plan.offload.optimizer_state_offload import (
    copy_around_updates,
    offload_states,
    offloadable_states,
)
from simcluster.plan.offload.parameter_offload import (
    offload_weights,
    offloadable_weights,
    weights_kept_on_device,
)
from simcluster.plan.redistribution import local_bytes
from simcluster.plan.rules import OFFLOAD_PATH, OffloadPlan, OffloadRule

Values = Mapping[str, str]
"""Value of a block -> its name in patterns, without the instance."""


def place_offloaded_state(graph: Graph, plan: OffloadPlan, mesh: Mesh) -> Graph:
    """The graph with parameters and gradients where they are offloaded to; forward and backward use copies.

    It comes before operators are placed on hosts: an update there then uses offloaded values directly.
    PlanError if a pattern matches nothing that can be offloaded.
    """
    if rule := plan.rules.get("parameters"):
        chosen = _tied(
            graph, _lasting(graph, "parameters", rule, mesh, _by_block(graph, offloadable_weights))
        )
        _check_weights(graph, chosen)
        graph = _specialised(graph, chosen, partial(offload_weights, rule=rule))
    if rule := plan.rules.get("gradients"):
        chosen = _lasting(graph, "gradients", rule, mesh, _added_up(graph))
        graph = _specialised(graph, chosen, partial(offload_gradients, rule=rule))
    return graph


def offload(graph: Graph, plan: OffloadPlan, mesh: Mesh) -> Graph:
    """The graph with optimizer states and activations where they are offloaded to, and copies around updates
    on the device.

    PlanError if a pattern matches nothing that can be offloaded.
    """
    if rule := plan.rules.get("parameters"):
        graph = _around(graph, rule, lambda block, values: values & set(block.parameters))
    if rule := plan.rules.get("gradients"):
        graph = _around(graph, rule, with_gradient_views)
    if rule := plan.rules.get("optimizer_states"):
        chosen = _lasting(graph, "optimizer_states", rule, mesh, _by_block(graph, offloadable_states))
        graph = _specialised(graph, chosen, partial(offload_states, rule=rule))
    if rule := plan.rules.get("activations"):
        kept = kept_activations(graph)
        chosen = _chosen(graph, "activations", rule, mesh, _by_block(graph, lambda block: kept[block.name]))
        graph = _specialised(graph, chosen, partial(offload_activations, rule=rule))
    return graph


def report_not_offloaded(graph: Graph, plan: OffloadPlan, mesh: Mesh) -> Iterator[str]:
    """Notes on gradients that ``plan`` names but that are still on the device in its graph."""
    rule = plan.rules.get("gradients")
    if rule is None:
        return
    once = _reduced_once(graph)
    sizes: dict[tuple[int, str], int] = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        for value, parameter in () if instance.first_slice else gradient_accumulators(block).items():
            full = f"{instance.name}.{parameter}"
            if full in once and block.values[value].place is MemoryPlace.DEVICE and rule.fits(full):
                # The copies on a stage of what is tied add to one sum.
                sizes[instance.stage, graph.canonical(full)] = _bytes(block, value, mesh)
    by_stage: Counter[int] = Counter()
    for (stage, _), size in sizes.items():
        by_stage[stage] += size
    if sizes:
        names = list(dict.fromkeys(name for _, name in sizes))
        others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        most = "at most " if len({*by_stage.values()}) > 1 or len(by_stage) < _stages(graph) else ""
        yield (
            f"offload.gradients: {most}{units.size(max(by_stage.values()))} on each device are reduced once "
            f"per step and stay there: {names[0]}{others}"
        )


def _around(graph: Graph, rule: OffloadRule, which: Callable[[Block, set[str]], set[str]]) -> Graph:
    """The graph with copies around updates on the device of what lies at a place, of which ``which`` says."""

    def changed(block: Block) -> Block:
        there = {name for name, value in block.values.items() if value.place is rule.place}
        return copy_around_updates(block, which(block, there), rule)

    return graph.with_blocks({name: changed(block) for name, block in graph.blocks.items()})


def _by_block(graph: Graph, able: Callable[[Block], Values]) -> dict[str, Values]:
    """Instance -> what can be offloaded of its block."""
    known = {name: able(block) for name, block in graph.blocks.items()}
    return {instance.name: known[instance.block] for instance in graph.instances}


def _added_up(graph: Graph) -> dict[str, Values]:
    """Instance -> the gradients that are only added up until they are used."""
    stays = _reduced_once(graph)
    return {
        name: {value: parameter for value, parameter in values.items() if f"{name}.{parameter}" not in stays}
        for name, values in _by_block(graph, gradient_accumulators).items()
    }


def _reduced_once(graph: Graph) -> set[str]:
    """The parameters whose gradients, or one copy's of what is tied, are reduced once per step.

    What is on the device for that stays there.
    """
    reduced = {name: gradients_reduced_once(block) for name, block in graph.blocks.items()}
    reduced_parameters = {
        f"{instance.name}.{parameter}"
        for instance in graph.instances
        for value, parameter in gradient_accumulators(graph.block_of(instance)).items()
        if value in reduced[instance.block]
    }
    for group in graph.ties:
        if not reduced_parameters.isdisjoint(group):
            reduced_parameters.update(group)
    return reduced_parameters


def _lasting(
    graph: Graph, category: str, rule: OffloadRule, mesh: Mesh, able: Mapping[str, Values]
) -> dict[str, frozenset[str]]:
    """The same of what outlives micro-batches, which all slices of sequences share with the first."""
    leading = {
        instance.name: {} if instance.first_slice else able[instance.name] for instance in graph.instances
    }
    leaders = _chosen(graph, category, rule, mesh, leading)
    sliced = {
        instance.name: leaders.get(instance.first_slice, frozenset())
        for instance in graph.instances
        if instance.first_slice
    }
    return leaders | {name: frozenset(values & able[name].keys()) for name, values in sliced.items()}


def _chosen(
    graph: Graph, category: str, rule: OffloadRule, mesh: Mesh, able: Mapping[str, Values]
) -> dict[str, frozenset[str]]:
    """Instance -> its values that are offloaded, of those that are ``able`` to be."""
    chosen: dict[str, frozenset[str]] = {}
    names: list[str] = []
    for stage in sorted({placed.stage for placed in graph.instances}):
        entries = [
            (instance.name, value, _bytes(graph.block_of(instance), value, mesh))
            for instance in graph.instances
            if instance.stage == stage
            for value, called in able[instance.name].items()
            if rule.fits(_noted(f"{instance.name}.{called}", names))
        ]
        limit = rule.fraction * sum(size for *_, size in entries)
        so_far = 0
        for name, value, size in entries:
            if so_far + size / 2 <= limit:
                chosen[name] = chosen.get(name, frozenset()) | {value}
            so_far += size
    unused = [pattern for pattern in rule.match if not any(matches(pattern, name) for name in names)]
    if unused:
        raise PlanError(
            *(
                Problem(
                    f"'{pattern}' matches nothing of {category} that can be offloaded",
                    f"{OFFLOAD_PATH}.{category}.match",
                    nearest(pattern, names) or _HINTS.get(category, ""),
                )
                for pattern in unused
            )
        )
    return chosen


_HINTS = {
    "gradients": "what is reduced once per step is on the device: shard gradients (optimizer_sharding: "
    "{zero: 2} or more), then those of each micro-batch are reduced first",
}


def _check_weights(graph: Graph, chosen: Mapping[str, frozenset[str]]) -> None:
    """PlanError if a copy of some of the chosen parameters stays on the device."""
    whole = {name: weights_kept_on_device(block) for name, block in graph.blocks.items()}
    for instance in graph.instances:
        for name in sorted(chosen.get(instance.name, frozenset()) & whole[instance.block]):
            raise PlanError(
                f"{instance.name}.{name} is on every device all along: it is gathered once per step, or cast",
                path=f"{OFFLOAD_PATH}.parameters",
                hint="shard weights, too (optimizer_sharding: fsdp or zero: 3), or nothing at all",
            )


def _tied(graph: Graph, chosen: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Parameters that are chosen, with all copies of what is tied to them."""
    with_copies = dict(chosen)
    owners = {
        f"{owner.name}.{name}": (owner.name, name)
        for owner in graph.instances
        for name in graph.block_of(owner).parameters
    }
    for group in graph.ties:
        copies = [owners[name] for name in group if name in owners]
        if any(name in with_copies.get(instance, ()) for instance, name in copies):
            for instance, name in copies:
                with_copies[instance] = with_copies.get(instance, frozenset()) | {name}
    return with_copies


def _stages(graph: Graph) -> int:
    return len({instance.stage for instance in graph.instances})


def _noted(name: str, names: list[str]) -> str:
    names.append(name)
    return name


def _bytes(block: Block, value: str, mesh: Mesh) -> int:
    kind = block.values[value]
    assert kind.layout is not None
    return local_bytes(kind.type, kind.layout, mesh)


def _specialised(
    graph: Graph,
    chosen: Mapping[str, frozenset[str]],
    change: Callable[[Block, frozenset[str]], Block],
) -> Graph:
    """The graph with changed blocks; of one block several, where its instances offload different values."""
    keys = {instance.name: chosen.get(instance.name, frozenset()) for instance in graph.instances}
    return graph.specialised(
        keys,
        lambda block, instance: change(block, keys[instance.name]) if keys[instance.name] else block,
        lambda key, every: f" offload {every.index(key)}" if key and len(every) > 1 else "",
    )
