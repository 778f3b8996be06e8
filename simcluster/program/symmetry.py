"""Which ranks behave alike: the coarsest partition in which equal colour means an equal step (DESIGN 4.7).

A collective starts when its last member has arrived and ends for all at once, so a group is an unordered set.
Ranks start with the colour of what they run and how their groups and peers lie on the cluster, and are
refined by the colours of those they meet until nothing changes. One representative per class is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import Cluster, Span
from simcluster.layout import Mesh
from simcluster.program.program import Program

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """One group as a class meets it: an id shared by all who meet in it, its span, and the classes in it."""

    id: int
    span: Span
    members: tuple[int, ...]


@dataclass(frozen=True)
class Classes:
    """The partition of the ranks.

    ``of_rank`` [ranks] gives the class of a rank; ``representatives`` the smallest rank of each class and
    ``sizes`` how many ranks it has. ``groups`` maps (class, axes) to the group its representative is in;
    ``next_stage`` and ``prev_stage`` map a class to its pipeline neighbour's class and the pair's span.
    """

    of_rank: Ints
    representatives: tuple[int, ...]
    sizes: tuple[int, ...]
    groups: Mapping[tuple[int, tuple[str, ...]], Group]
    next_stage: Mapping[int, tuple[int, Span]]
    prev_stage: Mapping[int, tuple[int, Span]]

    def __len__(self) -> int:
        return len(self.sizes)


def partition(program: Program, cluster: Cluster, *, unfold: bool = False) -> Classes:
    """The classes of a Program's ranks on a cluster; with ``unfold`` every rank is its own class."""
    wiring = _Wiring.of(program, cluster)
    colours = np.arange(program.mesh.num_ranks) if unfold else _refined(wiring, program, cluster)
    return _classes(colours, wiring)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """All groups over some axes: members [groups, size], their spans, and each rank's group (-1: none)."""

    members: Ints
    spans: list[Span]
    span_index: Ints
    group_of: Ints


@dataclass(frozen=True, slots=True)
class _Wiring:
    """Who meets whom: groups by axes, and the next rank along the pipeline (-1: none) with their span."""

    meetings: Mapping[tuple[str, ...], _Meeting]
    next_rank: Ints
    pair_spans: list[Span]
    pair_index: Ints

    @classmethod
    def of(cls, program: Program, cluster: Cluster) -> _Wiring:
        mesh = program.mesh
        meetings = {}
        for axes in program.groups:
            members = mesh.groups(axes)
            spans, index = cluster.spans(members)
            group_of = np.full(mesh.num_ranks, -1, dtype=np.int64)
            group_of[members] = np.arange(len(members))[:, None]
            meetings[axes] = _Meeting(members, spans, np.asarray(index, dtype=np.int64), group_of)
        following = _next_ranks(mesh, program.stage_axis)
        has = np.flatnonzero(following >= 0)
        pair_index = np.full(mesh.num_ranks, -1, dtype=np.int64)
        pair_spans: list[Span] = []
        if has.size:
            pair_spans, index = cluster.spans(np.stack([has, following[has]], axis=1))
            pair_index[has] = index
        return cls(meetings, following, pair_spans, pair_index)


def _next_ranks(mesh: Mesh, stage_axis: str) -> Ints:
    following = np.full(mesh.num_ranks, -1, dtype=np.int64)
    if mesh.size(stage_axis) > 1:
        lines = mesh.groups((stage_axis,))
        following[lines[:, :-1]] = lines[:, 1:]
    return following


def _renumbered(columns: list[Ints]) -> Ints:
    """Equal rows of the columns get equal numbers."""
    _, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return np.asarray(inverse, dtype=np.int64).reshape(-1)


def _refined(wiring: _Wiring, program: Program, cluster: Cluster) -> Ints:
    mesh = program.mesh
    devices = [cluster.device(rank) for rank in range(mesh.num_ranks)]
    kinds = {device: index for index, device in enumerate(dict.fromkeys(devices))}
    columns = [
        np.array([kinds[device] for device in devices]),
        _stages(mesh, program.stage_axis),
        wiring.pair_index,
    ]
    columns += [np.where(m.group_of < 0, -1, m.span_index[m.group_of]) for m in wiring.meetings.values()]
    colours = _renumbered(columns)
    preceding = np.full_like(wiring.next_rank, -1)
    has = np.flatnonzero(wiring.next_rank >= 0)
    preceding[wiring.next_rank[has]] = has
    while True:
        columns = [colours]
        for meeting in wiring.meetings.values():
            met = _renumbered(list(np.sort(colours[meeting.members], axis=1).T))
            columns.append(np.where(meeting.group_of < 0, -1, met[meeting.group_of]))
        columns += [np.where(peer < 0, -1, colours[peer]) for peer in (wiring.next_rank, preceding)]
        finer = _renumbered(columns)
        if finer.max() == colours.max():
            return finer
        colours = finer


def _stages(mesh: Mesh, stage_axis: str) -> Ints:
    if stage_axis not in mesh.sizes:
        return np.zeros(mesh.num_ranks, dtype=np.int64)
    return np.asarray(mesh.coordinates[:, mesh.names.index(stage_axis)])


def _classes(colours: Ints, wiring: _Wiring) -> Classes:
    """Numbers the classes by their smallest rank and binds groups and peers of the representatives."""
    _, first, inverse, counts = np.unique(colours, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    of_rank = number[inverse.reshape(-1)]
    representatives = tuple(int(rank) for rank in first[order])
    groups: dict[tuple[int, tuple[str, ...]], Group] = {}
    for axes, meeting in wiring.meetings.items():
        known: dict[int, Group] = {}
        for index, rank in enumerate(representatives):
            group = int(meeting.group_of[rank])
            if group >= 0:
                if group not in known:
                    members = meeting.members[group]
                    classes = tuple(np.unique(of_rank[members]).tolist())
                    known[group] = Group(0, meeting.spans[int(meeting.span_index[group])], classes)
                groups[index, axes] = known[group]
    following: dict[int, tuple[int, Span]] = {}
    preceding: dict[int, tuple[int, Span]] = {}
    for index, rank in enumerate(representatives):
        peer = int(wiring.next_rank[rank])
        if peer >= 0:
            span = wiring.pair_spans[int(wiring.pair_index[rank])]
            following[index] = (int(of_rank[peer]), span)
            preceding[int(of_rank[peer])] = (index, span)
    return Classes(
        of_rank,
        representatives,
        tuple(int(count) for count in counts[order]),
        _numbered(groups),
        following,
        preceding,
    )


def _numbered(
    groups: Mapping[tuple[int, tuple[str, ...]], Group],
) -> dict[tuple[int, tuple[str, ...]], Group]:
    """Classes that meet in one group share its id."""
    ids: dict[tuple[tuple[str, ...], tuple[int, ...]], int] = {}
    numbered: dict[tuple[tuple[str, ...], int], Group] = {}
    found = {}
    for (index, axes), group in groups.items():
        # Classes of one group hold one object: its members are looked at once.
        if (axes, id(group)) not in numbered:
            known = ids.setdefault((axes, group.members), len(ids))
            numbered[axes, id(group)] = Group(known, group.span, group.members)
        found[index, axes] = numbered[axes, id(group)]
    return found
