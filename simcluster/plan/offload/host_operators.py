"""Pass: operators that run on host CPUs, and the copies of what they share with the device.

An operator is chosen by name; its gradient runs where it does. Parameters, states and gradient accumulators
are stored in host memory if only operators there use them; every other value is stored where it is made, and
inputs come from the host anyway. The other side works on a copy: one for all readers of a phase, until the
value is written again. Values on disks are copied by the pass that put them there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.errors import PlanError, Problem
from simcluster.model import (
    ANY_TIME,
    Block,
    Graph,
    MemoryPlace,
    Node,
    Operator,
    OptimizerOperator,
    Phase,
    Relocation,
    Role,
    Value,
)
from simcluster.plan.offload.host_copy_elision import elide_host_copies
from simcluster.plan.offload.memory_copies import free_name
from simcluster.plan.offload.shared_host_placement import LASTING, shared_device_values
from simcluster.plan.rules import check_patterns

PATH = "parallel.host"

_WHY = "{value} is needed on the {place}"


def place_on_hosts(graph: Graph, patterns: Sequence[str]) -> Graph:
    """The graph in which operators whose full names match a pattern run on the host.

    PlanError if a pattern matches none.
    """
    if not patterns:
        return graph
    _check_names(graph, patterns)
    chosen = {
        instance.name: frozenset(
            node.name
            for node in graph.block_of(instance).nodes
            if _fits(
                f"{instance.first_slice or instance.name}.{{}}", graph.block_of(instance), node, patterns
            )
        )
        for instance in graph.instances
    }
    shared = shared_device_values(graph, chosen)
    keys = {name: (here, shared.get(name, frozenset())) for name, here in chosen.items()}
    return graph.specialised(
        keys,
        lambda block, instance: _Placed(block, *keys[instance.name]).run(),
        lambda key, every: f" on host {' '.join(sorted((*key[0], *key[1])))}" if len(every) > 1 else "",
    )


def _able(block: Block, node: Node) -> bool:
    """Whether a node could run on a host: all but what moves tensors between ranks or places, or into buffers
    from which they are sent.
    """
    values = (*node.inputs, *node.outputs)
    return isinstance(node.operator, Operator) and all(
        block.values[value].role is not Role.BUFFER for value in values
    )


def _fits(full: str, block: Block, node: Node, patterns: Sequence[str]) -> bool:
    """Whether a node of a block, or the forward operator that it belongs to, fits a pattern.

    ``*.update`` also names the parts of an update of several kernels, such as ``*.update.newton_schulz``.
    """
    if not _able(block, node):
        return False
    if node.phase is Phase.END:
        patterns = [*patterns, *(f"{pattern}.*" for pattern in patterns if pattern.endswith(".update"))]
    names = {full.format(node.name)}
    if not isinstance(node.operator, OptimizerOperator) and node.phase is not Phase.END:
        names.add(full.format(node.source))
    return any(matches(pattern, name) for pattern in patterns for name in names)


def _check_names(graph: Graph, patterns: Sequence[str]) -> None:
    names = [
        f"{instance.name}.{node.name}"
        for instance, node in graph.nodes()
        if node.phase in (Phase.FORWARD, Phase.END) and _able(graph.block_of(instance), node)
    ]
    check_patterns(patterns, names, "operator", f"{PATH}.{{}}")


def check_hosts(graph: Graph, cluster: Cluster) -> None:
    """PlanError if operators run on hosts whose processors are not described."""
    problems: dict[str, Problem] = {}
    for instance, node in graph.nodes():
        if node.place is not MemoryPlace.HOST or not isinstance(node.operator, Operator):
            continue
        types = [graph.block_of(instance).values[name].type for name in (*node.inputs, *node.outputs)]
        works = node.operator.work(types[: len(node.inputs)], types[len(node.inputs) :])
        for host in cluster.kinds:
            message = f"'{instance.name}.{node.name}' cannot run on the processors of host '{host.name}'"
            if host.pcie is None:
                why = "the host has none besides its devices"
                problems.setdefault(host.name, Problem(f"{message}: {why}", PATH, "leave it on the device"))
            for work in works if host.pcie is not None else ():
                if not host.processing.knows(work.kernel):
                    why = f"the host's file has no figures for a {work.kernel} (processors.kernels)"
                    hint = f"write processors.kernels.{work.kernel}, or leave it on the device"
                    problems.setdefault(
                        f"{host.name} {work.kernel}", Problem(f"{message}: {why}", PATH, hint)
                    )
    if problems:
        raise PlanError(*problems.values())


@dataclass
class _Placed:
    """A block with some nodes on the host, and values that are on the device all the same."""

    block: Block
    chosen: Collection[str]
    stay: Collection[str] = ()
    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    copies: dict[tuple[Phase, str, MemoryPlace], str] = field(default_factory=dict)

    def run(self) -> Block:
        """The block with its copies."""
        if not self.chosen:
            return self.block
        self.block = elide_host_copies(self.block, self.chosen)
        self.values = dict(self.block.values)
        for name, place in self._homes():
            self.values[name] = replace(self.values[name], place=place)
        for node in self.block.nodes:
            self._add(node)
        return replace(self.block, values=self.values, nodes=tuple(self.nodes))

    def _homes(self) -> Iterator[tuple[str, MemoryPlace]]:
        """The values that lie on the host."""
        users: Mapping[str, set[bool]] = defaultdict(set)
        makers: dict[str, bool] = {}
        fixed = {*self.stay}
        for node in self.block.nodes:
            if isinstance(node.operator, Relocation):
                fixed.update((*node.inputs, *node.outputs))
            here = node.name in self.chosen
            for value in (*node.inputs, *node.outputs):
                users[value].add(here)
            makers |= dict.fromkeys(node.outputs, here)
        crossing = {*self.block.inputs, *self.block.outputs, *self.block.shared}
        crossing |= {self.block.gradients[name] for name in crossing if name in self.block.gradients}
        for name, kind in self.block.values.items():
            if kind.place is not MemoryPlace.DEVICE or name in crossing or name in fixed:
                continue
            if kind.role is Role.FEED:
                home = True in users[name]
            elif kind.role in LASTING or kind.copy_of or kind.role is Role.VIEW:
                home = users[name] == {True}
            else:
                home = makers.get(name, False)
            if home:
                yield name, MemoryPlace.HOST

    def _add(self, node: Node) -> None:
        """A node where it runs, behind copies of what it reads and before those of what it makes."""
        if isinstance(node.operator, Relocation):
            self.nodes.append(node)
            return
        here = MemoryPlace.HOST if node.name in self.chosen else MemoryPlace.DEVICE
        inputs = tuple(self._brought(value, here, node) for value in node.inputs)
        made: dict[str, str] = {}
        for value in node.outputs:
            if self.values[value].place not in (here, MemoryPlace.DISK):
                made[value] = free_name(f"{value}.made on {here}", self.values, " ")
                kind = self.values[value]
                self.values[made[value]] = replace(kind, role=Role.ACTIVATION, place=here, copy_of="")
        outputs = tuple(made.get(value, value) for value in node.outputs)
        alone = node.kernel if here is MemoryPlace.DEVICE else ""
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs, place=here, kernel=alone))
        for value in node.outputs:
            stale = [key for key in self.copies if key[1] == value]
            for key in stale:
                del self.copies[key]
            if value in made:
                self._copy(made[value], value, node)

    def _brought(self, value: str, here: MemoryPlace, node: Node) -> str:
        """A value where a node runs."""
        if self.values[value].place in (here, MemoryPlace.DISK):
            return value
        key = (node.phase, value, here)
        if key not in self.copies:
            kind = self.values[value]
            name = self.copies[key] = free_name(f"{value} on {here}", self.values, " ")
            self.values[name] = replace(kind, role=Role.ACTIVATION, place=here, copy_of="", num_ids=0)
            self._copy(value, name, node)
        return self.copies[key]

    def _copy(self, source: str, target: str, node: Node) -> None:
        """Copies a value for a node, as part of whatever that is part of."""
        ends = self.values[source].place, self.values[target].place
        why = _WHY.format(value=source, place=ends[1])
        leg = Relocation(*ends, ahead=ANY_TIME)
        name = self._named(f"{target} copy")
        self.nodes.append(Node(name, leg, (source,), (target,), node.phase, origin=node.origin, why=why))

    def _named(self, name: str) -> str:
        taken = {node.name for node in self.nodes}
        return name if name not in taken else f"{name} {sum(other.startswith(name) for other in taken) + 1}"
