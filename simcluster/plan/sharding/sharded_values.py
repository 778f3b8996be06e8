"""Versions of the values of one block during sharding: the layouts in which a value exists, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Movement, MovementKind, Strategy
from simcluster.model import Mask, Node, Phase, Role, TensorType, Value
from simcluster.plan.redistribution import RedistributionPlanner


@dataclass
class ShardedValues:
    """The sharded nodes so far, and for every value its versions in the current phase.

    The first version is the *home*: what the producer made or, after a partial result was reduced, the
    reduced one. Only homes survive a phase, or with ``router.saves_as_read`` what of activations was read.
    """

    router: RedistributionPlanner
    """Finds redistributions."""
    kinds: Mapping[str, Value]
    """The values of the block before sharding."""
    phase: Phase = Phase.FORWARD
    """The current phase."""
    values: dict[str, Value] = field(default_factory=dict)
    """All versions by name, with their layouts."""
    nodes: list[Node] = field(default_factory=list)
    """The sharded nodes."""
    zero: dict[str, frozenset[int]] = field(default_factory=dict)
    """Version -> the dims whose padding is known to be zero."""
    _versions: dict[str, dict[Layout, str]] = field(default_factory=dict)
    _makers: dict[str, str] = field(default_factory=dict)
    _labels: Counter[str] = field(default_factory=Counter)
    _masked: dict[tuple[str, frozenset[int], float], str] = field(default_factory=dict)
    _cleaned: dict[str, str] = field(default_factory=dict)

    def kind(self, value: str) -> Value:
        """Type and role of a value, sharded or not."""
        return self.values[value] if value in self.values else self.kinds[value]

    def type(self, value: str) -> TensorType:
        """Logical type of a value."""
        return self.kind(value).type

    def layout(self, value: str) -> Layout:
        """The layout of a value's home."""
        return next(iter(self._versions[value]))

    def home(self, value: str) -> str:
        """The name of a value's home."""
        return next(iter(self._versions[value].values()))

    def versions(self, value: str) -> Mapping[Layout, str]:
        """Layout -> name of a version, home first; empty for a value that is not made yet."""
        return self._versions.get(value, {})

    def keep(self, value: str, layout: Layout) -> None:
        """Makes another version the home."""
        self._versions[value] = {layout: self._versions[value][layout]}

    def put(self, value: str, layout: Layout, maker: str = "") -> None:
        """Adds a value that a node (``maker``), or another block, makes in this layout."""
        self.values[value] = replace(self.kind(value), layout=layout)
        self._versions[value] = {layout: value}
        self._makers[value] = maker or value

    def enter(self, phase: Phase) -> None:
        """Starts another phase: only homes remain, and of activations what was read, if that is saved."""
        self.phase = phase
        self._masked, self._cleaned = {}, {}
        read: set[str] = set()
        if self.router.saves_as_read:
            operators = (node for node in self.nodes if not isinstance(node.operator, Movement))
            read.update(name for node in operators for name in node.inputs)
        self._versions = {
            value: {
                layout: name
                for place, (layout, name) in enumerate(versions.items())
                if place == 0 or (name in read and self._is_saved(value, layout))
            }
            for value, versions in self._versions.items()
        }

    def _is_saved(self, value: str, layout: Layout) -> bool:
        """Whether a version that the forward read is there for the backward: not of a parameter, nor a sum
        that is still pending.
        """
        return self.kind(value).role is not Role.PARAMETER and not layout.partial and not layout.halos

    def fetch(self, value: str, need: Layout, reader: str) -> str:
        """The version of ``value`` in layout ``need``; redistributes it if there is none yet."""
        versions = self._versions[value]
        if need in versions:
            return versions[need]
        kind = self.type(value)
        starts = [layout for layout in versions if not layout.partial and not layout.halos] or list(versions)
        layout = min(starts, key=lambda start: self.router.priced(kind, start, need)[0])
        name = versions[layout]
        for movement, reached in self.router.path(kind, layout, need):
            why = f"{value} has layout {layout}; {reader} needs {need}"
            name = self._move(value, name, reached, movement, why)
            if layout.has_pending_reduction and not reached.has_pending_reduction:
                # The reduced version is home from now on: nobody reduces this value again.
                versions.clear()
            versions.setdefault(reached, name)
            layout = reached
        return name

    def carry(self, node: Node, need: Layout | None) -> None:
        """Adds a movement that is a primitive of an operator; the result is in layout ``need``, or that of
        the input.
        """
        (value,), (out,) = node.inputs, node.outputs
        moved = self.home(value) if need is None else self.fetch(value, need, node.name)
        self.nodes.append(replace(node, inputs=(moved,), why=f"{node.source} in turns"))
        self.put(out, self.layout(value) if need is None else need, node.name)

    def assign(self, value: str, layout: Layout, *, scatter: bool) -> None:
        """Redistributes a value right after its maker: its home is in ``layout`` from then on.

        With ``scatter`` by a reduce-scatter of its pending sum over the first dim.
        """
        home = self.layout(value)
        if home == layout:
            return
        if scatter:
            why = f"{value} has layout {home}; its operator scatters the sum forward as {layout}"
            movement = Movement(MovementKind.REDUCE_SCATTER, home.partial_axes, 0)
            name = self._move(value, self.home(value), layout, movement, why)
        else:
            name = self.fetch(value, layout, f"{self._makers[value]}, in its out strategy,")
        self._versions[value] = {layout: name}

    def _move(self, value: str, name: str, after: Layout, movement: Movement, why: str) -> str:
        stem = self._makers[value]
        label = self._label(f"{stem}.{movement.kind}")
        kind = self.kind(value)
        # What was made of an input is no input: nothing fills it but its movement.
        role = Role.ACTIVATION if kind.role is Role.FEED else kind.role
        if self.router.pads:
            self.zero[label] = self._zero_behind(name, movement)
        self.values[label] = replace(kind, layout=after, role=role)
        self.nodes.append(Node(label, movement, (name,), (label,), self.phase, origin=stem, why=why))
        return label

    def _label(self, label: str) -> str:
        self._labels[label] += 1
        return f"{label}{self._labels[label]}" if self._labels[label] > 1 else label

    # -- padding ----------------------------------------------------------------------------------------

    def cleaned(self, name: str) -> str:
        """The masked version of a version, if there is one."""
        return self._cleaned.get(name, name)

    def masked(
        self, name: str, labels: tuple[str, ...], padded: Collection[int], fill: float, into: str = ""
    ) -> str:
        """The version of ``name`` with ``fill`` in the padding of some dims; masks it if there is none yet.

        ``labels`` are the names of its dims; ``into`` names the value that the mask makes.
        """
        kind, key = self.values[name], (name, frozenset(padded), fill)
        assert kind.layout is not None
        mask = Mask(labels, tuple(labels[dim] for dim in sorted(padded)), fill)
        if not into and key in self._masked:
            return self._masked[key]
        label = self._label(f"{name}.mask")
        made = into or label
        if not into:
            self._masked[key] = label
            role = Role.ACTIVATION if kind.role in (Role.FEED, Role.PARAMETER) else kind.role
            self.values[label] = replace(kind, role=role)
            if not fill:
                self._cleaned |= {
                    other: label for other, last in [*self._cleaned.items(), (name, name)] if last == name
                }
        self.zero[made] = self.zero.get(name, frozenset()) | frozenset(padded) if not fill else frozenset()
        strategy = Strategy.of(dict(zip(labels, kind.layout.dims, strict=True)))
        self.nodes.append(Node(label, mask, (name,), (made,), self.phase, origin=name, strategy=strategy))
        return made

    def _zero_behind(self, name: str, movement: Movement) -> frozenset[int]:
        """The dims whose padding is zero behind a movement: it pads with zeros what had no padding before."""
        kind = self.values[name]
        assert kind.layout is not None
        if movement.fill:
            return frozenset()
        padded = kind.layout.padded(kind.type.shape, self.router.mesh)
        fresh = frozenset(range(len(kind.type.shape))).difference(padded)
        return fresh | self.zero.get(name, frozenset())
