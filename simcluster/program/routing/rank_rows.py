"""How many rows ranks hold and send, where experts get unequally many tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from simcluster.collectives import UnequalPartsByGroup
from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh, Movement
from simcluster.model import TensorType
from simcluster.number_arrays import Ints
from simcluster.plan import ExpertRouting, expert_counts
from simcluster.program.isa import Slot
from simcluster.program.routing.dynamic_shapes import Extent, RaggedDims, RaggedSlots, exchanged_elements

Table = tuple[str, int]
"""The name of a table of tokens per expert: a layer and a micro-batch."""


@dataclass
class RankRows:
    """The rows of every rank, by tables of tokens per expert that are drawn when first asked for."""

    mesh: Mesh
    routing: ExpertRouting
    layers: Sequence[str]
    """Instances with experts, in their order."""
    slots: Mapping[str, RaggedSlots]
    """By instance the slots whose sizes depend on how many tokens experts get."""
    tables: dict[Table, Ints] = field(default_factory=dict)
    """The tables that are drawn so far."""
    _extents: dict[tuple[TensorType, Layout], Extent] = field(default_factory=dict)
    _rows: dict[tuple[TensorType, Layout, RaggedDims, Table], Ints] = field(default_factory=dict)
    _exchanges: dict[tuple[object, ...], tuple[UnequalPartsByGroup, int]] = field(default_factory=dict)

    def table(self, layer: str, micro_batch: int) -> Table:
        """The table of a layer and micro-batch, drawn if it is new."""
        key = self.routing.table(layer, micro_batch)
        if key not in self.tables:
            demand = self.slots[layer].demand
            place = self.layers.index(layer)
            shares = self.routing.popularity(layer, place, micro_batch, demand.groups)
            self.tables[key] = expert_counts(shares, demand.rows, demand.once, demand.most)
        return key

    def rows(self, slot: Slot, at: RaggedDims, table: Table) -> Ints:
        """By rank what a slot holds: rows times places."""
        key = slot.whole, slot.layout, at, table
        if key not in self._rows:
            self._rows[key] = self._extent(slot).rows(at, self.tables[table])
        return self._rows[key]

    def most(self, slot: Slot, at: RaggedDims, table: Table, axes: tuple[str, ...]) -> Ints:
        """By rank the most that anybody it meets over some axes holds: all of them send as much as that."""
        groups, rows = self.mesh.groups(axes), self.rows(slot, at, table)
        largest = rows.copy()
        largest[groups] = rows[groups].max(axis=1, keepdims=True)
        return largest

    def _extent(self, slot: Slot) -> Extent:
        key = slot.whole, slot.layout
        if key not in self._extents:
            self._extents[key] = Extent.of(*key, self.mesh)
        return self._extents[key]

    def parts(
        self, movement: Movement, before: Slot, after: Slot, at: RaggedDims, table: Table
    ) -> tuple[UnequalPartsByGroup, int]:
        """The parts of an all-to-all between two slots, and the bytes that a rank has in the mean."""
        key = movement, before.whole, before.layout, after.layout, at, table
        if key not in self._exchanges:
            groups = self.mesh.groups(movement.axes)
            extents = self._extent(before), self._extent(after)
            exchanged = exchanged_elements(*extents, groups, at, self.tables[table])
            elements = int(exchanged.sum()) / groups.size / before.whole.shape[at.places]
            self._exchanges[key] = (
                UnequalPartsByGroup.of(exchanged),
                before.type.dtype.num_bytes(round(elements)),
            )
        return self._exchanges[key]
