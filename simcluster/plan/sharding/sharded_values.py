"""The versions of the values of one block while it is sharded: which layouts of a value exist, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from simcluster.layout import Layout, Movement, MovementKind, Strategy
from simcluster.model import Mask, Node, Phase, Role, TensorType, Value
from simcluster.plan.redistribution import RedistributionPlanner


@dataclass
class ShardedValues:
    """Collects sharded nodes and keeps, for every value, its versions in the current phase.

    The first version is *home*: what the producer made or, once a partial result has been reduced, the
    reduced one. Only homes survive a phase.

    ``zero`` has, by the name of a version, the dims whose padding is known to be zero, if there is any.
    """

    router: RedistributionPlanner
    kinds: Mapping[str, Value]
    phase: Phase = Phase.FORWARD
    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    zero: dict[str, frozenset[int]] = field(default_factory=dict)
    _versions: dict[str, dict[Layout, str]] = field(default_factory=dict)
    _makers: dict[str, str] = field(default_factory=dict)
    _labels: Counter[str] = field(default_factory=Counter)
    _masked: dict[tuple[str, frozenset[int], float], str] = field(default_factory=dict)
    _cleaned: dict[str, str] = field(default_factory=dict)

    def kind(self, value: str) -> Value:
        """Type and role of a value, sharded already or not."""
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
        """The names of a value's versions by layout, home first; none of a value that is not made yet."""
        return self._versions.get(value, {})

    def keep(self, value: str, layout: Layout) -> None:
        """Makes another version home: it is the one that survives the phase."""
        self._versions[value] = {layout: self._versions[value][layout]}

    def put(self, value: str, layout: Layout, maker: str = "") -> None:
        """A value that a node (``maker``) or someone outside the block makes in this layout."""
        self.values[value] = replace(self.kind(value), layout=layout)
        self._versions[value] = {layout: value}
        self._makers[value] = maker or value

    def enter(self, phase: Phase) -> None:
        """Starts another phase: redistributed copies are gone, homes stay."""
        self.phase = phase
        self._masked, self._cleaned = {}, {}
        self._versions = {
            value: dict([next(iter(versions.items()))]) for value, versions in self._versions.items()
        }

    def fetch(self, value: str, need: Layout, reader: str) -> str:
        """The name of a version of ``value`` in layout ``need``, made by movements if there is none yet."""
        versions = self._versions[value]
        if need in versions:
            return versions[need]
        kind = self.type(value)
        starts = [layout for layout in versions if not layout.partial and not layout.halos] or list(versions)
        layout = min(starts, key=lambda start: self.router.priced(kind, start, need)[0])
        name = versions[layout]
        for movement, reached in self.router.path(kind, layout, need):
            why = f"{value} lies as {layout}; {reader} needs it as {need}"
            name = self._move(value, name, reached, movement, why)
            if layout.has_pending_reduction and not reached.has_pending_reduction:
                # The reduced version is home from now on: nobody reduces this value again.
                versions.clear()
            versions.setdefault(reached, name)
            layout = reached
        return name

    def carry(self, node: Node, need: Layout | None) -> None:
        """A movement that an operator is made of; what it makes lies as what it moves, or as needed."""
        (value,), (out,) = node.inputs, node.outputs
        moved = self.home(value) if need is None else self.fetch(value, need, node.name)
        self.nodes.append(replace(node, inputs=(moved,), why=f"{node.source} in turns"))
        self.put(out, self.layout(value) if need is None else need, node.name)

    def assign(self, value: str, layout: Layout, *, scatter: bool) -> None:
        """Redistributes a value right behind its maker: from now on its home lies as ``layout``.

        With ``scatter`` by the reduce-scatter of what is due in it, over its first dim.
        """
        home = self.layout(value)
        if home == layout:
            return
        if scatter:
            why = f"{value} lies as {home}; its operator scatters the sum forward as {layout}"
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
        """The version like ``name`` that has most zeros in its padding: as masks have left it for others."""
        return self._cleaned.get(name, name)

    def masked(
        self, name: str, labels: tuple[str, ...], padded: Collection[int], fill: float, into: str = ""
    ) -> str:
        """The name of a version like ``name``, whose dims are called ``labels``, with ``fill`` in the padding
        of some of them.

        It is made by a mask, if there is none yet; ``into`` is a value that it is to be made as.
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
