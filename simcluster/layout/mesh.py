"""The mesh: named axes that multiply to the ranks.

Rank numbers run row-major over the axes, outermost first, so ranks of the last axis are neighbours:
``{pipeline: 4, data: 8, tensor: 8}`` puts the tensor group of rank 0 on ranks 0..7.

Wherever an axis is named, a *restricted* axis ``pipeline[0,3]`` may stand: the ranks at coordinates 0 and 3
of ``pipeline`` only. It is how the stages that share a tied parameter form a group. And so may the name of
explicit groups, lists of ranks that somebody wrote down (``create_group``).

Behind the ranks of the axes there may be others, *beside* the axes: parameter servers and their scheduler.
They are in no group but alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.layout.axis import base_axis, kept


@dataclass(frozen=True)
class Mesh:
    """Axes with their sizes, outermost first, and explicit groups by name.

    Groups of one name are equally large and have no rank in common; a rank may be in none of them. Their
    members stand in the order that counts. A group is over one such name, or over axes. ``off_axes`` is the
    number of ranks behind those of the axes.
    """

    axes: tuple[tuple[str, int], ...]
    explicit: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = ()
    off_axes: int = 0

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Mesh:
        """The mesh with these axes, in the order of the mapping."""
        return cls(tuple(sizes.items()))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Axis name -> size."""
        return dict(self.axes)

    @cached_property
    def _strides(self) -> dict[str, int]:
        """Axis name -> how far apart the ranks are that are neighbours along it."""
        sizes = [size for _, size in self.axes]
        return {name: math.prod(sizes[place + 1 :]) for place, (name, _) in enumerate(self.axes)}

    @cached_property
    def _explicit(self) -> dict[str, NDArray[np.int64]]:
        """Name -> its groups, shape [groups, members]."""
        return {name: np.array(groups, dtype=np.int64) for name, groups in self.explicit}

    def with_groups(self, groups: Mapping[str, Sequence[Sequence[int]]]) -> Mesh:
        """The same axes with these explicit groups."""
        made = tuple((name, tuple(tuple(group) for group in lists)) for name, lists in groups.items())
        return Mesh(self.axes, made, self.off_axes)

    def with_off_axes(self, count: int) -> Mesh:
        """The same with so many ranks behind those of the axes."""
        return Mesh(self.axes, self.explicit, count)

    @property
    def names(self) -> tuple[str, ...]:
        """Axis names, outermost first."""
        return tuple(name for name, _ in self.axes)

    @property
    def num_on_axes(self) -> int:
        """Product of the axes."""
        return math.prod(size for _, size in self.axes)

    @property
    def num_ranks(self) -> int:
        """All ranks: those of the axes, and those beside them."""
        return self.num_on_axes + self.off_axes

    def size(self, axis: str) -> int:
        """Ranks along an axis (1 if the mesh does not have it); restricted axes count what they keep."""
        if axis in self._explicit:
            return int(self._explicit[axis].shape[1])
        coordinates = kept(axis)
        return len(coordinates) if coordinates is not None else self.sizes.get(axis, 1)

    def product(self, axes: Sequence[str]) -> int:
        """Ranks in a group over several axes."""
        key = tuple(axes)
        product = self._products.get(key)
        if product is None:
            product = self._products[key] = math.prod([self.size(axis) for axis in key])
        return product

    @cached_property
    def _products(self) -> dict[tuple[str, ...], int]:
        """What ``product`` found: every layout of every value asks for it."""
        return {}

    @cached_property
    def coordinates(self) -> NDArray[np.int64]:
        """Coordinates of every rank, shape [ranks, axes]; 0 for ranks beside the axes."""
        # The leading 1 is for a mesh without axes, which is one rank.
        shape = (1, *(size for _, size in self.axes))
        own = np.stack(np.unravel_index(np.arange(self.num_on_axes), shape), axis=1)[:, 1:].astype(np.int64)
        return np.pad(own, ((0, self.off_axes), (0, 0)))

    def coordinate(self, rank: int, axis: str) -> int:
        """Position of a rank along an axis; of a restricted axis, its position among the kept coordinates.

        Of explicit groups, its place in its own; ValueError if it is in none.
        """
        if axis in self._explicit:
            place = np.argwhere(self._explicit[axis] == rank)
            if not len(place):
                raise ValueError(f"rank {rank} is in no group '{axis}'")
            return int(place[0, 1])
        name = base_axis(axis)
        if name not in self.sizes:
            return 0
        value = rank // self._strides[name] % self.sizes[name]
        coordinates = kept(axis)
        return value if coordinates is None else coordinates.index(value)

    def index(self, rank: int, axes: Sequence[str]) -> int:
        """Position of a rank in its group over ``axes``, the first axis being the outermost."""
        position = 0
        for axis in axes:
            position = position * self.size(axis) + self.coordinate(rank, axis)
        return position

    def run(self, rank: int, axes: Sequence[str], size: int) -> tuple[int, int]:
        """Where the part of a dim of ``size`` elements begins that a rank holds, and how many they are.

        The axes split one after the other, outer first, each into equal parts of which the last ones may be
        short or empty; what they lack is padding.
        """
        first, held, part = 0, size, size
        for axis in axes:
            part = -(-part // self.size(axis))
            passed = self.coordinate(rank, axis) * part
            first, held = first + passed, min(max(held - passed, 0), part)
        return first, held

    def groups(self, axes: Sequence[str]) -> NDArray[np.int64]:
        """All groups over ``axes``: shape [groups, members], members ordered with the first axis outermost.

        With restricted axes, ranks outside the kept coordinates are in no group. Explicit groups stand alone.
        Ranks beside the axes are groups of one where all groups are.
        """
        if len(axes) == 1 and axes[0] in self._explicit:
            return self._explicit[axes[0]]
        present = [axis for axis in axes if base_axis(axis) in self.sizes]
        moved = [self.names.index(base_axis(axis)) for axis in present]
        ranks = np.arange(self.num_on_axes).reshape([size for _, size in self.axes])
        for axis, position in zip(present, moved, strict=True):
            coordinates = kept(axis)
            if coordinates is not None:
                ranks = np.take(ranks, coordinates, axis=position)
        rest = [position for position in range(len(self.axes)) if position not in moved]
        members = math.prod(self.size(axis) for axis in present)
        groups = ranks.transpose(rest + moved).reshape(-1, members)
        if self.off_axes and members == 1:
            alone = np.arange(self.num_on_axes, self.num_ranks)[:, np.newaxis]
            groups = np.concatenate([groups, alone])
        return groups

    def __str__(self) -> str:
        return " x ".join(f"{name} {size}" for name, size in self.axes) or "one rank"
