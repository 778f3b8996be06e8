"""Dynamic shapes: which buffers have as many rows as tokens are routed to them, and how many per rank.

An operator says so of some of its operands (``Operator.ragged``); by the names of iteration dims and through
movements the others that share the dim are found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh
from simcluster.model import Operator, TensorType
from simcluster.number_arrays import Ints
from simcluster.program.isa import Call, InstructionBlock, Slot


@dataclass(frozen=True, slots=True)
class RaggedDims:
    """Which dims of a tensor are the groups, the samples, and the places that are taken or not."""

    groups: int
    samples: tuple[int, ...]
    places: int

    @classmethod
    def of(cls, names: Sequence[str], groups: str, samples: Sequence[str], places: str) -> RaggedDims:
        """The dims with these names among the names of a tensor's dims."""
        where = tuple(names.index(sample) for sample in samples)
        return cls(names.index(groups), where, names.index(places))


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """The rows that are routed: ``rows`` of every sample into ``groups``, of each ``once`` at most one to a
    group, and at most ``most`` to any group.
    """

    groups: int
    rows: int
    once: int
    most: int | None


@dataclass(frozen=True)
class RaggedSlots:
    """The ragged slots of an instance's codes by name, and what is placed in them."""

    dims: dict[str, RaggedDims]
    demand: RoutedRows

    @classmethod
    def of(cls, codes: Sequence[InstructionBlock]) -> RaggedSlots | None:
        """The ragged slots of the codes of one instance; None if no operator has a ragged dim."""
        dims: dict[str, RaggedDims] = {}
        demand: RoutedRows | None = None
        every = [
            (code, call) for code in codes for instruction in code.instructions for call in instruction.calls
        ]
        for code, call in every:
            ragged = call.operator.ragged() if isinstance(call.operator, Operator) else None
            if ragged is None:
                continue
            for slot, names in _operands(code, call):
                if ragged.places in names:
                    dims[slot.name] = RaggedDims.of(names, ragged.groups, ragged.samples, ragged.places)
                    groups = slot.whole.shape[dims[slot.name].groups]
                if set(ragged.drawn) <= set(names):
                    sizes = {name: slot.whole.shape[names.index(name)] for name in ragged.drawn}
            demand = RoutedRows(groups, math.prod(sizes.values()), sizes[ragged.once], ragged.most)
        if demand is None:
            return None
        size = 0
        while size < len(dims):
            size = len(dims)
            for code, call in every:
                dims |= _spread(code, call, dims)
        return cls(dims, demand)


def _operands(code: InstructionBlock, call: Call) -> Iterator[tuple[Slot, tuple[str, ...]]]:
    """The slots of an operator's operands and results with the names of their dims."""
    assert isinstance(call.operator, Operator)
    dims = call.operator.dims()
    slots = [code.slots[slot] for slot in (*call.inputs, *call.outputs)]
    yield from zip(slots, (*dims.inputs, *dims.outputs), strict=False)


def _spread(code: InstructionBlock, call: Call, ragged: dict[str, RaggedDims]) -> dict[str, RaggedDims]:
    """What else is ragged because a call has it together with what is known to be."""
    slots = [code.slots[slot].name for slot in (*call.inputs, *call.outputs)]
    known = next((name for name in slots if name in ragged), None)
    if known is None:
        return {}
    if not isinstance(call.operator, Operator):
        return dict.fromkeys(slots, ragged[known])
    operands = [(slot.name, names) for slot, names in _operands(code, call)]
    labels = next(names for name, names in operands if name == known)
    at = ragged[known]
    groups, places, *samples = (labels[dim] for dim in (at.groups, at.places, *at.samples))
    return {
        name: RaggedDims.of(names, groups, samples, places)
        for name, names in operands
        if {groups, places, *samples} <= set(names)
    }


@dataclass(frozen=True, slots=True)
class Extent:
    """Which places of a whole tensor ranks hold: ``first`` and ``sizes`` [ranks, dims].

    A part that is padding alone, as that of the third of four ranks among two experts, holds nothing; it
    begins where the tensor ends.
    """

    first: Ints
    sizes: Ints

    @classmethod
    def of(cls, whole: TensorType, layout: Layout, mesh: Mesh) -> Extent:
        """Those of all ranks."""
        runs = [
            [(part.start, part.stop - part.start) for part in layout.slices(whole.shape, mesh, rank)]
            for rank in range(mesh.num_ranks)
        ]
        both = np.array(runs, dtype=np.int64)
        return cls(np.minimum(both[:, :, 0], whole.shape), both[:, :, 1])

    def rows(self, at: RaggedDims, counts: Ints) -> Ints:
        """Rows times places: per rank how many there are if ``counts`` [groups] are of a sample; [ranks].

        Where places are split, each part has its share of the rows: divide by all places of the tensor.
        """
        passed = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        first, sizes = self.first[:, at.groups], self.sizes[:, at.groups]
        taken = passed[first + sizes] - passed[first]
        samples = self.sizes[:, at.samples].prod(axis=1)
        return np.asarray(taken * samples * self.sizes[:, at.places])


def exchanged_elements(before: Extent, after: Extent, groups: Ints, at: RaggedDims, counts: Ints) -> Ints:
    """What the members of groups [number, n] send each other between two layouts: [number, n, n].

    In elements times places, as ``Extent.rows``.
    """
    passed = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    elements = np.ones((*groups.shape, groups.shape[1]), dtype=np.int64)
    for dim in range(before.first.shape[1]):
        starts = np.maximum(before.first[groups, dim][:, :, None], after.first[groups, dim][:, None, :])
        ends = np.minimum(
            (before.first + before.sizes)[groups, dim][:, :, None],
            (after.first + after.sizes)[groups, dim][:, None, :],
        )
        ends = np.maximum(ends, starts)
        elements *= passed[ends] - passed[starts] if dim == at.groups else ends - starts
    return elements


def filled_type(kind: TensorType, at: RaggedDims, rows: int, places: int) -> TensorType:
    """The local type of a tensor that holds so many rows times places: its samples and places as one dim,
    as many for every group, rounded up.
    """
    shape = list(kind.shape)
    for dim in at.samples:
        shape[dim] = 1
    shape[at.places] = -(-rows // (places * max(shape[at.groups], 1)))
    return replace(kind, shape=tuple(shape))
