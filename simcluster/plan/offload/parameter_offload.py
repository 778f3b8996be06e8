"""Parameters in host memory or on disks: copied in for a block's forward, and again for its backward.

Of sharded weights the shards are copied, and then gathered as usual; whole weights are copied as early as
gathers would start. Updates treat them like optimizer states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from simcluster.model import Block, MemoryPlace, Node, Phase, Role, Value
from simcluster.plan.offload.memory_copies import relocation_nodes
from simcluster.plan.rules import OffloadRule

_BROUGHT = {
    Phase.GATHER: Phase.GATHER,
    Phase.FORWARD: Phase.GATHER,
    Phase.REGATHER: Phase.REGATHER,
    Phase.BACKWARD: Phase.REGATHER,
    Phase.WEIGHTS: Phase.REGATHER,
}
"""In which phase that is brought which operators of a phase read."""


def offloadable_weights(block: Block) -> dict[str, str]:
    """The parameters of a block, each under its own name."""
    return {name: name for name in block.parameters}


def weights_kept_on_device(block: Block) -> set[str]:
    """The parameters of which the device holds a copy throughout: in another format, or gathered once per
    step.
    """
    copied = {value.copy_of for value in block.values.values() if value.role in (Role.VIEW, Role.COPY)}
    phases: defaultdict[str, set[Phase]] = defaultdict(set)
    for node in block.nodes:
        for value in (*node.inputs, *node.outputs):
            phases[value].add(node.phase)
    return {name for name in block.parameters if name in copied or not phases[name] <= {*_BROUGHT, Phase.END}}


def offload_weights(block: Block, chosen: Collection[str], rule: OffloadRule) -> Block:
    """The block whose ``chosen`` parameters are offloaded, with copies for forward and backward.

    Updates are not changed.
    """
    values = dict(block.values)
    values |= {name: replace(values[name], place=rule.place) for name in chosen}
    nodes: dict[Phase, list[Node]] = {phase: [] for phase in Phase}
    brought: dict[tuple[Phase, str], str] = {}
    for node in block.nodes:
        when = _BROUGHT.get(node.phase)
        if when is None:
            nodes[node.phase].append(node)
            continue
        names: dict[str, str] = {}
        for value in node.inputs:
            if value not in chosen:
                continue
            if (when, value) not in brought:
                again = ".again" if when is Phase.REGATHER else ""
                brought[when, value] = f"{value}.near{again}"
                nodes[when] += _copies(values, value, brought[when, value], rule, when)
            names[value] = brought[when, value]
        nodes[node.phase].append(
            replace(node, inputs=tuple(names.get(value, value) for value in node.inputs))
        )
    return replace(block, values=values, nodes=tuple(node for phase in Phase for node in nodes[phase]))


def _copies(values: dict[str, Value], value: str, name: str, rule: OffloadRule, when: Phase) -> list[Node]:
    """The nodes that bring a parameter to the device."""
    why = f"{value} lies on the {rule.place}"
    return relocation_nodes(values, value, name, MemoryPlace.DEVICE, rule, when, why, Role.GATHERED)
