"""Which ranks behave alike: the coarsest partition in which equal colour means an equal step (DESIGN 4.7).

A collective starts when its last member has arrived and ends for all at once, so a group is an unordered set.
Ranks start with the colour of what they run, groups with how they lie on the cluster, links with what they
carry, and all are refined by the colours of those they meet until nothing changes (see ``colouring``). One
representative per class is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from simcluster.cluster import NOMINAL, Cluster, Device, GroupPlacement
from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh
from simcluster.number_arrays import Ints
from simcluster.program.isa import Program
from simcluster.program.symmetry.coloured_graph import ColouredGraph, GroupLoads, RankGroups
from simcluster.program.symmetry.equitable_partition import (
    Colouring,
    ElementClasses,
    refine_colours,
    separate_colours,
)

Axes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassGroup:
    """The group of a class's representative: an id shared by its members, its placement, its classes.

    ``flow`` is its row in the flows of its axes; ``count`` says how many groups behave like it; ``number`` is
    the place of one of them among the groups of its axes.
    """

    id: int
    placement: GroupPlacement
    members: tuple[int, ...]
    flow: int = 0
    count: int = 1
    number: int = 0


TRANSFERS: Axes = ()
"""What stands for the pairs along the pipeline among groups over axes."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedGroups:
    """Placements of groups: the different ones, which of them each group has [groups], and colours [groups].

    Groups of one colour take as long for whatever they do, alone on links that are alike.
    """

    placements: Sequence[GroupPlacement]
    index: Ints
    colours: Ints

    @classmethod
    def of(cls, cluster: Cluster, members: Ints) -> PlacedGroups:
        """With a colour for each placement."""
        if not len(members):
            return cls((), *(np.zeros(0, dtype=np.int64),) * 2)
        placements, index = cluster.placements(members)
        return cls(placements, index.astype(np.int64), index.astype(np.int64))

    def __getitem__(self, group: int) -> GroupPlacement:
        return self.placements[int(self.index[group])]


@dataclass(frozen=True, slots=True, eq=False)
class LinkLoading:
    """What groups and transfers load on the links of a cluster.

    ``links`` [links] are colours: links of one colour have equal rates, latencies, changes and background.
    ``groups`` has, by axes, the loads of every pattern, with a row per group as ``Mesh.groups`` orders them;
    ``transfers`` those of every pattern of a transfer (forward and back), with a row per pair of
    ``pipeline_pairs``. ``changed`` says of a link that is not as its family what it is and why: its name and
    the change, as ``host.3.nic.2.out: bandwidth x 0.5``. ``placed`` says where groups lie, of pairs under
    ``TRANSFERS``, where that is known.
    """

    links: Ints
    groups: Mapping[Axes, Sequence[GroupLoads]] = field(default_factory=dict)
    transfers: Sequence[GroupLoads] = ()
    changed: Mapping[int, str] = field(default_factory=dict)
    placed: Mapping[Axes, PlacedGroups] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class ClassFlows:
    """What classes load on classes of links.

    ``groups`` has by axes and pattern, and ``transfers`` by pattern, a row for every class of groups or of
    pairs: over link classes, the load of *all* groups of the class together on *one* link of the link class.
    ``links`` are the classes of the loaded links. ``pairs`` maps a class to the row of the pair that its
    representative and the next stage are, ``num_pairs`` [rows] counts the pairs. ``changed`` is what
    ``LinkLoading.changed`` says of the first link of each class. ``rounds`` counts passes over the loads.
    """

    groups: Mapping[Axes, Sequence[GroupLoads]]
    transfers: Sequence[GroupLoads]
    links: ElementClasses
    pairs: Mapping[int, int]
    num_pairs: tuple[int, ...]
    changed: Mapping[int, str]
    rounds: int


@dataclass(frozen=True)
class RankClasses:
    """The partition of the ranks.

    ``of_rank`` [ranks] gives the class of a rank; ``representatives`` the smallest rank of each class and
    ``sizes`` how many ranks it has. ``groups`` maps (class, axes) to the group its representative is in;
    ``next_stage`` and ``prev_stage`` map a class to its pipeline neighbour's class and where the pair lies.
    ``flows`` say what that loads on which links; without a ``LinkLoading`` there are no links in them.
    """

    of_rank: Ints
    representatives: tuple[int, ...]
    sizes: tuple[int, ...]
    groups: Mapping[tuple[int, Axes], ClassGroup]
    next_stage: Mapping[int, tuple[int, GroupPlacement]]
    prev_stage: Mapping[int, tuple[int, GroupPlacement]]
    flows: ClassFlows

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True, slots=True, eq=False)
class TenantLoad:
    """One of several Programs on one cluster: the part of it that its ranks have, and what they load."""

    program: Program
    cluster: Cluster
    loading: LinkLoading


def partition_ranks(
    program: Program, cluster: Cluster, *, unfold: bool = False, loading: LinkLoading | None = None
) -> RankClasses:
    """The classes of a Program's ranks on a cluster; with ``unfold`` every rank is its own class.

    With a ``loading``, groups that load different links, and ranks in such groups, are different too.
    """
    alone = TenantLoad(program, cluster, loading or LinkLoading(np.zeros(0, dtype=np.int64)))
    return partition_tenants([alone], unfold=unfold)[0]


def partition_tenants(tenants: Sequence[TenantLoad], *, unfold: bool = False) -> list[RankClasses]:
    """The classes of each Program's ranks while all run at once on one cluster.

    They are told apart by what all of them load, and the link classes in their flows are common to all. No
    class has ranks of two Programs.
    """
    links = tenants[0].loading.links
    if not all(np.array_equal(tenant.loading.links, links) for tenant in tenants):
        raise ValueError("Programs that run at once must be on links of one cluster")
    wirings = [_Wiring.of(tenant.program, tenant.cluster, tenant.loading) for tenant in tenants]
    colours: list[Ints] = []
    meetings: list[RankGroups] = []
    implied: list[RankGroups] = []
    first, used = 0, 0
    for tenant, wiring in zip(tenants, wirings, strict=True):
        own = _first_colours(tenant.program, tenant.cluster)
        meetings += [replace(met, members=met.members + first) for met in wiring.all]
        implied += [replace(met, members=met.members + first) for met in _pipelines(tenant.program)]
        colours.append(own + used)
        first, used = first + len(own), used + int(own.max()) + 1
    structure = ColouredGraph(np.concatenate(colours), meetings, links, implied)
    colouring = separate_colours(structure) if unfold else refine_colours(structure)
    classes: list[RankClasses] = []
    first, place = 0, 0
    for own, wiring in zip(colours, wirings, strict=True):
        own_meetings = slice(place, place + len(wiring.all))
        classes.append(wiring.classes(_part(colouring, first, len(own), own_meetings)))
        first, place = first + len(own), own_meetings.stop
    return classes


def _part(colouring: Colouring, first: int, count: int, meetings: slice) -> Colouring:
    """What a colouring says of ``count`` ranks that share no colour with others, numbered from 0."""
    low, high = np.searchsorted(colouring.ranks.first, (first, first + count)).tolist()
    ranks = ElementClasses(
        colouring.ranks.of[first : first + count] - low,
        colouring.ranks.first[low:high] - first,
        colouring.ranks.sizes[low:high],
    )
    return Colouring(
        ranks, colouring.meetings[meetings], colouring.links, colouring.flows[meetings], colouring.rounds
    )


def pipeline_pairs(mesh: Mesh, stage_axis: str, *, ring: bool = False) -> Ints:
    """Every rank that has a next one along the pipeline, in order, and that one: [pairs, 2].

    In a ``ring`` the next one of the last is the first.
    """
    following = np.full(mesh.num_ranks, -1, dtype=np.int64)
    if mesh.size(stage_axis) > 1:
        lines = mesh.groups((stage_axis,))
        following[lines[:, :-1]] = lines[:, 1:]
        if ring:
            following[lines[:, -1]] = lines[:, 0]
    has = np.flatnonzero(following >= 0)
    return np.stack([has, following[has]], axis=1)


def _pipelines(program: Program) -> list[RankGroups]:
    """All ranks along every pipeline, as one meeting: what its pairs say stage by stage is heard at once.

    In a ring, a rank's place among them is known by the part that it runs, if parts are stages.
    """
    if program.mesh.size(program.stage_axis) < 3 or (program.ring and program.assigned):
        return []
    lines = program.mesh.groups((program.stage_axis,))
    return [RankGroups(lines, np.zeros(len(lines), dtype=np.int64), ordered=True)]


def _first_colours(program: Program, cluster: Cluster) -> Ints:
    """A number per rank for its device and the part it runs."""
    mesh = program.mesh
    changed: dict[Device, int] = {}
    kinds = np.array([group.kind for group in cluster.groups], dtype=np.int64)
    kinds = kinds[cluster.group_of(np.arange(mesh.num_ranks))]
    for rank, speed in cluster.speeds.items():
        if speed != NOMINAL and rank < mesh.num_ranks:
            number = changed.setdefault(cluster.device(rank), len(changed))
            kinds[rank] = len(cluster.kinds) + number
    colours = kinds * len(program.parts) + program.part_of_rank
    return colours * mesh.num_ranks + np.arange(mesh.num_ranks) if program.apart else colours


@dataclass(frozen=True, slots=True)
class _Wiring:
    """Who meets whom, groups by axes and pairs along the pipeline, and where they lie."""

    meetings: Mapping[Axes, RankGroups]
    pairs: RankGroups
    placed: Mapping[Axes, PlacedGroups]
    loading: LinkLoading

    @classmethod
    def of(cls, program: Program, cluster: Cluster, loading: LinkLoading) -> _Wiring:
        meetings, placed = {}, dict(loading.placed)
        for axes in program.groups:
            members = program.mesh.groups(axes)
            if axes not in placed:
                placed[axes] = PlacedGroups.of(cluster, members)
            meetings[axes] = RankGroups(members, placed[axes].colours, loading.groups.get(axes, ()))
        pairs = pipeline_pairs(program.mesh, program.stage_axis, ring=program.ring)
        if TRANSFERS not in placed:
            placed[TRANSFERS] = PlacedGroups.of(cluster, pairs)
        along = RankGroups(pairs, placed[TRANSFERS].colours, loading.transfers, ordered=True)
        return cls(meetings, along, placed, loading)

    @property
    def all(self) -> list[RankGroups]:
        """The meetings of all groups, and behind them the pairs."""
        return [*self.meetings.values(), self.pairs]

    def classes(self, colouring: Colouring) -> RankClasses:
        """Binds groups and peers of the representatives."""
        representatives = colouring.ranks.first.tolist()
        following: dict[int, tuple[int, GroupPlacement]] = {}
        preceding: dict[int, tuple[int, GroupPlacement]] = {}
        rows: dict[int, int] = {}
        of_rank = colouring.ranks.of
        pair_of = np.full(len(of_rank), -1, dtype=np.int64)
        pair_of[self.pairs.members[:, 0]] = np.arange(len(self.pairs))
        for index, pair in enumerate(pair_of[colouring.ranks.first].tolist()):
            if pair >= 0:
                peer = int(of_rank[self.pairs.members[pair, 1]])
                where = self.placed[TRANSFERS][pair]
                following[index], preceding[peer] = (peer, where), (index, where)
                rows[index] = int(colouring.meetings[-1].of[pair])
        flows = ClassFlows(
            dict(zip(self.meetings, colouring.flows, strict=False)),
            colouring.flows[-1],
            colouring.links,
            rows,
            tuple(colouring.meetings[-1].sizes.tolist()),
            self._changed(colouring.links),
            colouring.rounds,
        )
        sizes = tuple(colouring.ranks.sizes.tolist())
        return RankClasses(
            of_rank, tuple(representatives), sizes, self._groups(colouring), following, preceding, flows
        )

    def _groups(self, colouring: Colouring) -> dict[tuple[int, Axes], ClassGroup]:
        """The group of each class's representative by axes; classes that meet in one group share its id."""
        groups: dict[tuple[int, Axes], ClassGroup] = {}
        of_rank, known = colouring.ranks.of, 0
        for (axes, meetings), numbering in zip(self.meetings.items(), colouring.meetings, strict=False):
            group_of = np.full(len(of_rank), -1, dtype=np.int64)
            group_of[meetings.members] = np.arange(len(meetings))[:, np.newaxis]
            met: dict[int, ClassGroup] = {}
            for index, group in enumerate(group_of[colouring.ranks.first].tolist()):
                if group < 0:
                    continue
                kind = int(numbering.of[group])
                if kind not in met:
                    members = np.unique(of_rank[meetings.members[group]])
                    where = self.placed[axes][group]
                    count = int(numbering.sizes[kind])
                    met[kind] = ClassGroup(known, where, tuple(members.tolist()), kind, count, group)
                    known += 1
                groups[index, axes] = met[kind]
        return groups

    def _changed(self, links: ElementClasses) -> dict[int, str]:
        firsts = {link: index for index, link in enumerate(links.first.tolist())}
        changes = {firsts[link]: text for link, text in self.loading.changed.items() if link in firsts}
        return dict(sorted(changes.items()))
