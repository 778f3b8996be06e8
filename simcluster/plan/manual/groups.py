"""The groups of a hand-written program: axes of the mesh, all ranks, and lists of ranks by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Mesh, rooted_groups
from simcluster.plan.spec import WORLD

Axes = tuple[str, ...]


@dataclass(slots=True)
class Groups:
    """The groups of ranks of a program, by name; each is an axis of an extended mesh."""

    mesh: Mesh
    """The mesh of the scenario."""
    written: Mapping[str, Sequence[Sequence[int]]]
    """Name -> lists of ranks, as the program defines them."""
    explicit: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """The groups given as lists of ranks, of the program and of the planner, as axes."""
    rows: dict[Axes, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    """Axes -> the group of each rank over them."""

    @classmethod
    def of(cls, mesh: Mesh, written: Mapping[str, Sequence[Sequence[int]]], path: str) -> Groups:
        """Reads the groups; PlanError with every problem."""
        problems = [
            Problem(message, f"{path}.{name}")
            for name, lists in written.items()
            for message in _wrong(name, lists, mesh)
        ]
        if problems:
            raise PlanError(*problems)
        return cls(mesh, written, {name: tuple(map(tuple, lists)) for name, lists in written.items()})

    @property
    def whole(self) -> Mesh:
        """The mesh with all explicit groups as axes."""
        return self.mesh.with_groups(self.explicit)

    @property
    def names(self) -> list[str]:
        """Every name that may be used."""
        return [*self.written, *self.mesh.names, WORLD[0]]

    def axes(self, name: str | Sequence[str], path: str) -> Axes:
        """The axes of a group by name, or of several, outermost first; PlanError if one is unknown."""
        if not isinstance(name, str):
            for axis_name in name:
                if axis_name not in self.mesh.sizes:
                    hint = nearest(axis_name, self.mesh.names)
                    raise PlanError(f"the mesh has no axis '{axis_name}'", path=path, hint=hint)
            return tuple(name)
        if name in WORLD:
            return tuple(axis for axis, size in self.mesh.axes if size > 1) or self.mesh.names[:1]
        if name not in self.names:
            raise PlanError(f"there is no group '{name}'", path=path, hint=nearest(name, self.names))
        return (name,)

    def size(self, axes: Axes) -> int:
        """Ranks in a group over these axes."""
        return self.whole.product(axes)

    def members(self, axes: Axes) -> NDArray[np.int64]:
        """All groups over these axes, of shape [groups, members]."""
        return self.whole.groups(axes)

    def row(self, axes: Axes, rank: int) -> tuple[int, ...] | None:
        """The ranks of the group that a rank is in, or None."""
        if axes not in self.rows:
            rows = [tuple(row) for row in self.members(axes).tolist()]
            self.rows[axes] = {member: row for row in rows for member in row}
        return self.rows[axes].get(rank)

    def made(self, name: str, lists: Sequence[Sequence[int]]) -> Axes:
        """The axis of groups that the planner itself makes; ``name`` is its name if it is new."""
        self.explicit[name] = tuple(map(tuple, lists))
        return (name,)

    def rooted(self, axes: Axes, place: int) -> Axes:
        """The axis of the same groups with the member at ``place`` as the first."""
        if place == 0:
            return axes
        members = self.members(axes)
        rest = np.delete(members, place, axis=1)
        lists = np.concatenate([members[:, place : place + 1], rest], axis=1)
        return self.made(rooted_groups(axes, place), lists.tolist())


def _wrong(name: str, lists: Sequence[Sequence[int]], mesh: Mesh) -> Iterator[str]:
    """What is wrong with explicit groups."""
    if not name.isidentifier():
        yield f"'{name}' is not a name of a group: use letters, digits and _"
    if name in (*mesh.names, *WORLD):
        yield f"'{name}' is a group already: write another name"
    if not lists or not lists[0]:
        yield "it has no ranks: write lists of them, such as [[0, 1], [2, 3]]"
        return
    sizes = sorted({len(ranks) for ranks in lists})
    if len(sizes) > 1:
        listed = " and ".join(map(str, sizes))
        yield f"groups of one name are equally large, not of {listed} ranks: give them names of their own"
    counts = Counter(rank for listed_ranks in lists for rank in listed_ranks)
    twice = [rank for rank, count in counts.items() if count > 1]
    if twice:
        yield f"rank {twice[0]} is in it {counts[twice[0]]} times"
    absent = [rank for rank in counts if rank >= mesh.num_ranks]
    if absent:
        ranks = mesh.num_ranks
        yield f"there is no rank {absent[0]}: {mesh} = {ranks} ranks, the last is {ranks - 1}"
