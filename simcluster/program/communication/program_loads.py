"""What the collectives and transfers of a Program load on the links of a cluster (DESIGN 4.7, 4.8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np

from simcluster.cluster import BackgroundTraffic, Cluster, GroupPlacement, HostPath, LinkChange, placements_of
from simcluster.collectives import (
    PHASES,
    AlgorithmChoice,
    CollectiveRequest,
    Operation,
    PhaseLoad,
    UnequalParts,
    UnequalPartsByGroup,
    algorithm_routine,
    collective_time,
    copy_loads,
    group_loads_of,
    group_site_of,
    work_loads,
)
from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints
from simcluster.program.communication.collective_overrides import CollectiveRequests
from simcluster.program.isa import BETWEEN_RANKS, WITH_SERVER, Instruction, InstructionKind, Program
from simcluster.program.symmetry import TRANSFERS, Axes, GroupLoads, LinkLoading, PlacedGroups, pipeline_pairs

Use = tuple[Operation, int, CollectiveRequest, UnequalPartsByGroup | None]
"""An operation, its bytes, what is wanted of it, and the parts of each group where they are not equal."""


@dataclass(frozen=True, slots=True)
class PhaseKey:
    """One phase of an algorithm over some axes; transfers also ``back`` along the pipeline.

    Copies are those of the one who makes them: axes, operation and algorithm are their way.
    """

    axes: Axes
    operation: str
    algorithm: str
    phase: int
    back: bool = False
    parts: UnequalPartsByGroup | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ProgramLoads:
    """The loads of a Program, and which pattern of its axes (or of transfers) each phase has."""

    loading: LinkLoading
    patterns: Mapping[PhaseKey, int]


def load_program(program: Program, cluster: Cluster, requests: CollectiveRequests) -> ProgramLoads:
    """The loads of every collective and transfer that the Program has, under the algorithm it uses."""
    return _Loader(program, cluster, requests).run()


@dataclass
class _Rows:
    """The loads of one phase so far: for some groups their links and loads."""

    num_groups: int
    parts: list[tuple[Ints, PhaseLoad]] = field(default_factory=list)

    def add(self, groups: Ints, load: PhaseLoad) -> None:
        """The loads of ``groups``, one row each."""
        self.parts.append((groups, load))

    def loads(self) -> GroupLoads:
        """All rows in the order of the groups; those of groups that do not use it are empty."""
        if len(self.parts) == 1 and len(self.parts[0][0]) == self.num_groups:
            only = self.parts[0][1]
            return GroupLoads(only.offsets, only.links, only.loads)
        lengths = np.zeros(self.num_groups, dtype=np.int64)
        for groups, load in self.parts:
            lengths[groups] = np.diff(load.offsets)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        links, amounts = np.empty((2, offsets[-1]), dtype=np.int64)
        for groups, load in self.parts:
            inside = np.arange(len(load.links)) - np.repeat(load.offsets[:-1], np.diff(load.offsets))
            places = np.repeat(offsets[groups], np.diff(load.offsets)) + inside
            links[places], amounts[places] = load.links, load.loads
        return GroupLoads(offsets, links, amounts)


@dataclass
class _Loader:
    program: Program
    cluster: Cluster
    requests: CollectiveRequests
    patterns: dict[PhaseKey, int] = field(default_factory=dict)
    placed: dict[Axes, PlacedGroups] = field(default_factory=dict)

    def run(self) -> ProgramLoads:
        mesh = self.program.mesh
        groups = {
            axes: self._copies(axes)
            if axes in self.copied
            else self._with_server(axes)
            if axes in self.served
            else self._of(axes, mesh.groups(axes), *placements_of(self.cluster, mesh, axes))
            for axes in self.program.groups
        }
        pairs = pipeline_pairs(mesh, self.program.stage_axis, ring=self.program.ring)
        transfers: list[GroupLoads] = []
        if len(pairs):
            placements, index = self.cluster.placements(pairs)
            for back in (False, True):
                transfers = self._of(TRANSFERS, pairs, placements, index, back=back, before=transfers)
        links, changed = _links(self.cluster)
        return ProgramLoads(LinkLoading(links, groups, transfers, changed, self.placed), self.patterns)

    @cached_property
    def uses(self) -> dict[Axes, tuple[Use, ...]]:
        """By axes, what the instructions over them do, each once, in order."""
        by_axes: dict[Axes, dict[Use, None]] = {}
        for code in self.program.codes:
            for instruction in code.instructions:
                if instruction.action in BETWEEN_RANKS:
                    use = (
                        Operation(instruction.operation),
                        instruction.num_bytes,
                        self.requests.of(instruction),
                        instruction.parts,
                    )
                    by_axes.setdefault(instruction.group, {})[use] = None
        return {axes: tuple(uses) for axes, uses in by_axes.items()}

    @cached_property
    def copied(self) -> dict[Axes, tuple[HostPath, set[int]]]:
        """By axes that stand for a way, that way and the codes that copy over it."""
        copies: dict[Axes, tuple[HostPath, set[int]]] = {}
        for number, code in enumerate(self.program.codes):
            for instruction in code.instructions:
                if instruction.action is InstructionKind.COPY:
                    copies.setdefault(instruction.group, (HostPath(instruction.operation), set()))[1].add(
                        number
                    )
        return copies

    @cached_property
    def served(self) -> dict[Axes, tuple[Instruction, set[int]]]:
        """By axes that stand for what goes to a server or comes from it: an example, and codes with such."""
        served: dict[Axes, tuple[Instruction, set[int]]] = {}
        for number, code in enumerate(self.program.codes):
            for instruction in code.instructions:
                if instruction.action in WITH_SERVER:
                    served.setdefault(instruction.group, (instruction, set()))[1].add(number)
        return served

    def _with_server(self, axes: Axes) -> list[GroupLoads]:
        """What those load who push to a server, or pull from it, each for itself."""
        example, codes = self.served[axes]
        ranks = self._who_runs(codes)
        # Ranks that do nothing of this have the place of one that does.
        members = np.full((self.program.mesh.num_ranks, 2), example.server, dtype=np.int64)
        members[:, 0] = ranks[0]
        members[ranks, 0] = ranks
        if example.action is InstructionKind.PULL:
            members = members[:, ::-1]
        return self._of(axes, members, *self.cluster.placements(members), chosen=ranks)

    def _who_runs(self, codes: set[int]) -> Ints:
        """The ranks that run some of these codes."""
        parts = [any(code in codes for code, _ in part.columns.pairs) for part in self.program.parts]
        return np.flatnonzero(np.array(parts)[self.program.part_of_rank])

    def _copies(self, axes: Axes) -> list[GroupLoads]:
        """What those who copy over a way load, each for itself."""
        way, codes = self.copied[axes]
        ranks = self._who_runs(codes)
        self.placed[axes] = PlacedGroups.of(self.cluster, self.program.mesh.groups(axes))
        if way is not HostPath.WORK:
            phases = {0: copy_loads(way, ranks, self.cluster)}
        else:
            kernels = {work.kernel for instruction in self._instructions(codes) for work in instruction.works}
            used = [phase for phase, kernel in enumerate(PHASES) if kernel is None or kernel in kernels]
            phases = {phase: work_loads(phase, ranks, self.cluster) for phase in used}
        patterns: list[GroupLoads] = []
        for phase, load in phases.items():
            rows = _Rows(self.program.mesh.num_ranks)
            rows.add(ranks, load)
            self.patterns[PhaseKey(axes, way, way, phase)] = len(patterns)
            patterns.append(rows.loads())
        return patterns

    def _instructions(self, codes: Iterable[int]) -> Iterator[Instruction]:
        """What is done on hosts in some codes."""
        for number in codes:
            code = self.program.codes[number]
            yield from (
                instruction for instruction in code.instructions if instruction.operation == HostPath.WORK
            )

    def _of(
        self,
        axes: Axes,
        members: Ints,
        placements: Sequence[GroupPlacement],
        index: Ints,
        *,
        back: bool = False,
        before: Sequence[GroupLoads] = (),
        chosen: Ints | None = None,
    ) -> list[GroupLoads]:
        """The patterns of groups, after those of ``before``; ``back``: from last member to first.

        ``index`` [groups] says which of the ``placements`` each group has; only ``chosen`` groups load
        anything.
        """
        members = self.cluster.devices_of(members)
        uses = self.uses.get(axes, ())
        rows: dict[PhaseKey, _Rows] = {}
        kinds: dict[tuple[AlgorithmChoice, ...], int] = {}
        sorts, sort_of = _sorted_out(index.astype(np.int64), uses)
        kind_of = np.empty(len(sorts), dtype=np.int64)
        for number, first in enumerate(sorts.tolist()):
            placement = placements[int(index[first])]
            own = [parts.of_number(first) if parts else None for *_, parts in uses]
            choices = tuple(self._choice(placement, *pair) for pair in zip(uses, own, strict=True))
            kind_of[number] = kinds.setdefault(choices, len(kinds))
            which = np.flatnonzero(sort_of == number)
            which = which if chosen is None else np.intersect1d(which, chosen)
            ways = members[which, ::-1] if back else members[which]
            done = {
                PhaseKey(axes, use[0], choice.algorithm, 0, back, use[3]): own_parts
                for use, choice, own_parts in zip(uses, choices, own, strict=True)
            }
            known: dict[object, list[PhaseLoad]] = {}
            for key, own_parts in done.items():
                for phase, load in enumerate(self._loads(key, placement, ways, known, own_parts)):
                    rows.setdefault(replace(key, phase=phase), _Rows(len(members))).add(which, load)
        self.placed[axes] = PlacedGroups(placements, index.astype(np.int64), kind_of[sort_of])
        patterns = list(before)
        place_of: dict[tuple[int, ...], int] = {}
        for key, row in rows.items():
            same = tuple(id(load) for _, load in row.parts)
            if same not in place_of:
                place_of[same] = _place(row.loads(), patterns)
            self.patterns[key] = place_of[same]
        return patterns

    def _choice(self, placement: GroupPlacement, use: Use, parts: UnequalParts | None) -> AlgorithmChoice:
        operation, num_bytes, wanted, _ = use
        return collective_time(operation, placement, num_bytes, self.cluster, wanted, parts)

    def _loads(
        self,
        key: PhaseKey,
        placement: GroupPlacement,
        members: Ints,
        known: dict[object, list[PhaseLoad]],
        parts: UnequalParts | None,
    ) -> list[PhaseLoad]:
        """The phases of an operation; those that go a way that is ``known`` already load the same."""
        if key.algorithm == "none":
            return []
        steps = algorithm_routine(key.algorithm, Operation(key.operation), placement, self.cluster)
        way = steps.way if parts is None and steps.way else object()
        if way not in known:
            where = group_site_of(placement, self.cluster)
            known[way] = group_loads_of(steps, where, members, self.cluster.topology, parts)
        return known[way]


def _sorted_out(placed: Ints, uses: Sequence[Use]) -> tuple[Ints, Ints]:
    """Groups of one placement and equal parts: the first one of each sort, and the sort of every group."""
    sort_of, first = placed, np.unique(placed, return_index=True)[1]
    for parts in dict.fromkeys(parts for *_, parts in uses if parts):
        both = sort_of * len(parts.tables) + np.array(parts.of_group, dtype=np.int64)
        _, first, sort_of = np.unique(both, return_index=True, return_inverse=True)
    return first.astype(np.int64), sort_of.astype(np.int64)


def phase_key(instruction: Instruction, choice: AlgorithmChoice, phase: int, back: bool) -> PhaseKey:
    """The key of one phase of an instruction under the algorithm that was chosen for it."""
    return PhaseKey(
        instruction.group, instruction.operation, choice.algorithm, phase, back, instruction.parts
    )


def _place(loads: GroupLoads, known: list[GroupLoads]) -> int:
    """The place of equal loads among those found, or behind them."""
    for place, other in enumerate(known):
        if (
            np.array_equal(loads.offsets, other.offsets)
            and np.array_equal(loads.links, other.links)
            and np.array_equal(loads.loads, other.loads)
        ):
            return place
    known.append(loads)
    return len(known) - 1


def _links(cluster: Cluster) -> tuple[Ints, dict[int, str]]:
    """A number per link for its rate and what changes on it, and of changed links what that is."""
    topology = cluster.topology
    colours = np.empty(topology.num_links, dtype=np.int64)
    rates: dict[float, int] = {}
    for family in topology.families:
        colours[family.first : family.first + family.size] = rates.setdefault(family.rate, len(rates))
    changes_of: dict[int, list[str]] = {}
    every: tuple[LinkChange | BackgroundTraffic, ...] = (*cluster.link_changes, *cluster.background)
    for change in every:
        touched = np.zeros(topology.num_links, dtype=np.int64)
        touched[change.links] = 1
        _, colours = np.unique(2 * colours + touched, return_inverse=True)
        for link in change.links.tolist():
            changes_of.setdefault(link, []).append(str(change))
    return colours, {link: f"{topology.name(link)}: {', '.join(texts)}" for link, texts in changes_of.items()}
