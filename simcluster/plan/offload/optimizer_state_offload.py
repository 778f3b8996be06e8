"""Optimizer states in host memory or on disks: copied in before the update that reads them, and back after
it.

A kernel reads and writes copies on the device. So the device holds the states of the kernel that runs, of the
next ones, and those that are being copied back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from simcluster.model import Block, Node, Phase, Relocation, Role, Value
from simcluster.plan.execution import kernel_nodes
from simcluster.plan.offload.memory_copies import free_name, relocation_nodes
from simcluster.plan.rules import OffloadRule


def offloadable_states(block: Block) -> dict[str, str]:
    """The states that only updates use, and read before they write, each with its parameter.

    Master copies are among them, running statistics are not.
    """
    first: dict[str, bool] = {}
    phases: defaultdict[str, set[Phase]] = defaultdict(set)
    owner: dict[str, str] = {}
    for node in block.nodes:
        for value in (*node.inputs, *node.outputs):
            first.setdefault(value, value in node.inputs)
            phases[value].add(node.phase)
            owner.setdefault(value, node.origin)
    return {
        name: owner[name]
        for name, value in block.values.items()
        if value.role is Role.STATE and first.get(name) and phases[name] == {Phase.END}
    }


def offload_states(block: Block, chosen: Collection[str], rule: OffloadRule) -> Block:
    """The block whose ``chosen`` states are offloaded, with copies around every kernel that uses them."""
    values = dict(block.values)
    chosen = {name for name in chosen if values[name].place is not rule.place}
    values |= {name: replace(values[name], place=rule.place) for name in chosen}
    return copy_around_updates(replace(block, values=values), chosen, rule)


def copy_around_updates(block: Block, chosen: Collection[str], rule: OffloadRule) -> Block:
    """The block with copies around every kernel of the end phase that uses offloaded values."""
    values = dict(block.values) | _left_of_copies(block, chosen)
    kernels = kernel_nodes(block.nodes)
    turns = [
        kernel
        for kernel in kernels
        if kernel[0].phase is Phase.END
        and kernel[0].place is not rule.place
        and not isinstance(kernel[0].operator, Relocation)
        and _used(kernel, chosen)
    ]
    around = [_around(kernel, values, chosen, rule) for kernel in turns]
    nodes: list[Node] = []
    brought = 0
    turn = 0
    for kernel in kernels:
        if turn == len(turns) or kernel is not turns[turn]:
            nodes += kernel
            continue
        # What is needed so many turns later comes before this one: behind it there is room. But not what
        # turns in between make anew.
        while brought <= turn or (
            brought < min(turn + rule.ahead + 1, len(turns))
            and not _depends(turns[turn : brought + 1], chosen)
        ):
            nodes += around[brought][1]
            brought += 1
        renamed, _, back = around[turn]
        nodes += [*renamed, *back]
        turn += 1
    return replace(block, values=values, nodes=tuple(nodes))


def _left_of_copies(block: Block, chosen: Collection[str]) -> dict[str, Value]:
    """What shows something of which only a copy is there, as a gradient that is scaled in place.

    It is all that is left when the copy is released.
    """
    earlier = {value for node in block.nodes if node.phase is not Phase.END for value in node.inputs}
    return {
        value: replace(block.values[value], role=Role.ACTIVATION)
        for node in block.phase(Phase.END)
        if not set(chosen).isdisjoint(node.inputs)
        for value in node.outputs
        if block.values[value].role is Role.VIEW and block.values[value].place is node.place
        if value not in chosen and value not in earlier
    }


def _depends(turns: Sequence[Sequence[Node]], chosen: Collection[str]) -> bool:
    """Whether the last of some kernels reads what one before it makes."""
    *before, last = turns
    made = {value for kernel in before for node in kernel for value in node.outputs if value in chosen}
    return not made.isdisjoint(_first_read(last, chosen))


def _used(kernel: Sequence[Node], chosen: Collection[str]) -> list[str]:
    values = (value for node in kernel for value in (*node.inputs, *node.outputs))
    return list(dict.fromkeys(value for value in values if value in chosen))


def _first_read(kernel: Sequence[Node], chosen: Collection[str]) -> list[str]:
    """What a kernel reads before it makes it anew."""
    made: set[str] = set()
    first_read: dict[str, None] = {}
    for node in kernel:
        first_read |= dict.fromkeys(value for value in node.inputs if value in chosen and value not in made)
        made.update(node.outputs)
    return list(first_read)


def _around(
    kernel: Sequence[Node], values: dict[str, Value], chosen: Collection[str], rule: OffloadRule
) -> tuple[list[Node], list[Node], list[Node]]:
    """A kernel that works on copies, the nodes that bring them, and those that bring back what it makes."""
    coming: list[Node] = []
    going: list[Node] = []
    read: dict[str, str] = {}
    made: dict[str, str] = {}
    here = kernel[0].place
    for state in _first_read(kernel, chosen):
        read[state] = free_name(f"{state}.brought", values)
        coming += relocation_nodes(
            values, state, read[state], here, rule, Phase.END, f"{state} lies on the {rule.place}"
        )
    for state in dict.fromkeys(value for node in kernel for value in node.outputs if value in chosen):
        made[state] = free_name(f"{state}.updated", values)
        values[made[state]] = replace(values[state], role=Role.ACTIVATION, place=here, copy_of="")
        going += relocation_nodes(
            values, made[state], state, rule.place, rule, Phase.END, f"{state} lies on the {rule.place}"
        )
    names = _Names(read, made)
    return [names.node(node) for node in kernel], coming, going


class _Names:
    """Names of states inside of a kernel: what was brought until something new is made."""

    def __init__(self, read: Mapping[str, str], made: Mapping[str, str]) -> None:
        self.now, self.made = dict(read), made

    def node(self, node: Node) -> Node:
        """A node of the kernel with its operands by these names."""
        inputs = tuple(self.now.get(value, value) for value in node.inputs)
        outputs = tuple(self.made.get(value, value) for value in node.outputs)
        self.now |= {value: self.made[value] for value in node.outputs if value in self.made}
        return replace(node, inputs=inputs, outputs=outputs)
