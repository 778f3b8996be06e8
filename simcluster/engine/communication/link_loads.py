"""The classes of a Program's ranks on a cluster, and the links that they share, as classes too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from simcluster.cluster import Cluster, nanoseconds
from simcluster.collectives import AlgorithmChoice, Operation, Selection, algorithm_routine
from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication.choices import Choices
from simcluster.engine.communication.fabric import (
    GRAIN,
    Background,
    CapacityChange,
    Fabric,
    FlowPhase,
    Late,
    Links,
    Transfer,
    Vectors,
)
from simcluster.number_arrays import Floats, Ints, offsets
from simcluster.program import (
    TRANSFERS,
    Axes,
    CollectiveRequests,
    GroupLoads,
    Instruction,
    InstructionKind,
    PhaseKey,
    Program,
    ProgramLoads,
    RankClasses,
    TenantLoad,
    is_send_stream,
    load_program,
    partition_tenants,
    peer_is_next_stage,
    phase_key,
)


def classes_on_links(
    program: Program,
    cluster: Cluster,
    algorithms: Selection,
    *,
    unfold: bool = False,
    loads: ProgramLoads | None = None,
) -> tuple[RankClasses, Fabric]:
    """The classes of a Program's ranks on a cluster, told apart by what they load too, and the links.

    With ``unfold`` every rank is its own class. ``loads`` are those of the Program, where they are known.
    Raises PlanError for what cannot be done so.
    """
    known = [loads] if loads else None
    return classes_together([(program, cluster, algorithms)], unfold=unfold, loads=known)[0]


def classes_together(
    programs: Sequence[tuple[Program, Cluster, Selection]],
    *,
    unfold: bool = False,
    loads: Sequence[ProgramLoads] | None = None,
) -> list[tuple[RankClasses, Fabric]]:
    """The same for Programs that run at once, each on its part of one cluster; the links are common."""
    on = [(program, cluster) for program, cluster, _ in programs]
    requests = [CollectiveRequests(program, algorithms) for program, _, algorithms in programs]
    loads = loads or [load_program(*who, request) for who, request in zip(on, requests, strict=True)]
    tenants = [TenantLoad(*who, own.loading) for who, own in zip(on, loads, strict=True)]
    classes = partition_tenants(tenants, unfold=unfold)
    choices = [
        Choices(own, cluster, request)
        for own, (_, cluster), request in zip(classes, on, requests, strict=True)
    ]
    return list(zip(classes, _build_fabrics(loads, choices), strict=True))


def _build_fabrics(loads: Sequence[ProgramLoads], choices: Sequence[Choices]) -> list[Fabric]:
    """The links of a cluster as the classes of several Programs share them, one object, for each Program."""
    first: list[dict[Axes, list[int]]] = []
    rows: list[GroupLoads] = []
    count = 0
    for own in choices:
        flows = own.classes.flows
        first.append({})
        for axes, patterns in (*flows.groups.items(), (TRANSFERS, flows.transfers)):
            first[-1][axes] = []
            for pattern in patterns:
                first[-1][axes].append(count)
                rows.append(pattern)
                count += len(pattern)
    cluster, links = choices[0].cluster, choices[0].classes.flows.links.first
    # What others send: a flow on each class of links that carries it.
    others = [
        (link, traffic)
        for traffic in cluster.background
        for link in np.flatnonzero(np.isin(links, traffic.links)).tolist()
    ]
    alone = np.array([link for link, _ in others], dtype=np.int64)
    rows.append(GroupLoads.of(np.arange(len(alone) + 1), alone, np.ones(len(alone))))
    lengths, loaded, units = map(
        np.concatenate, zip(*((np.diff(row.offsets), row.links, row.loads) for row in rows), strict=True)
    )
    background = tuple(
        Background(number, traffic.rate, traffic.begin_ns, traffic.end_ns)
        for number, (_, traffic) in enumerate(others, count)
    )
    capacity, changes = _capacities(cluster, links)
    every = Links(capacity, Vectors(offsets(lengths), loaded, units * GRAIN), changes, background)
    return [
        Fabric(every, _Wired(own, known.patterns, every.vectors, begins).transfer)
        for own, known, begins in zip(choices, loads, first, strict=True)
    ]


@dataclass(frozen=True)
class _Wired:
    """``first`` has by axes the number of the first vector of each pattern."""

    choices: Choices
    patterns: Mapping[PhaseKey, int]
    vectors: Vectors
    first: Mapping[Axes, Sequence[int]]

    def transfer(self, index: int, instruction: Instruction) -> Transfer:
        """How a class does an instruction on the links."""
        choice = self.choices.of(index, instruction)
        axes, row, back = self._row(index, instruction)
        vectors = [
            self.first[axes][self.patterns[phase_key(instruction, choice, phase.index, back)]] + row
            for phase in choice.phases
        ]
        phases = [
            FlowPhase(vector, phase.num_bytes, phase.cap)
            for vector, phase in zip(vectors, choice.phases, strict=True)
        ]
        late = tuple(self._late(index, instruction, choice, vectors))
        return Transfer(nanoseconds(choice.latency), tuple(phases), late)

    def _row(self, index: int, instruction: Instruction) -> tuple[Axes, int, bool]:
        """Among which groups, which class of them, and whether it goes back along the pipeline."""
        classes = self.choices.classes
        if instruction.group:
            return instruction.group, classes.groups[index, instruction.group].flow, False
        forward = peer_is_next_stage(instruction.stream)
        earlier = index if forward else self.choices.peer(index, instruction)[0]
        return TRANSFERS, classes.flows.pairs[earlier], is_send_stream(instruction.stream) is not forward

    def _late(
        self, index: int, instruction: Instruction, choice: AlgorithmChoice, vectors: Sequence[int]
    ) -> Iterator[Late]:
        """What changed latencies of the links add: as much for each hop as the slowest of them."""
        cluster = self.choices.cluster
        if not choice.phases or not any(change.latency for change in cluster.link_changes):
            return
        hops = self._hops(index, instruction, choice)
        entries = [np.arange(*self.vectors.offsets[vector : vector + 2]) for vector in vectors]
        used = self.choices.classes.flows.links.first[np.unique(self.vectors.links[np.concatenate(entries)])]
        for change in cluster.link_changes:
            touched = np.intersect1d(used, change.links)
            if change.latency and touched.size:
                count = max(
                    hops[int(network)] for network in cluster.topology.are_network_links(touched).tolist()
                )
                yield Late(change.begin_ns, change.end_ns, nanoseconds(max(count, 1) * change.latency))

    def _hops(self, index: int, instruction: Instruction, choice: AlgorithmChoice) -> tuple[int, int]:
        """Waits of an instruction inside hosts and between them; a copy is one that never leaves its host."""
        if instruction.action is InstructionKind.COPY:
            return 1, 0
        where, operation = self.choices.where(index, instruction), Operation(instruction.operation)
        return algorithm_routine(choice.algorithm, operation, where, self.choices.cluster).hops


def _capacities(cluster: Cluster, links: Ints) -> tuple[Floats, tuple[CapacityChange, ...]]:
    """Bytes/s of links, one of each class, as the run begins, and what changes later."""
    nominal = cluster.topology.rates(links)
    touching = [(change, np.isin(links, change.links)) for change in cluster.link_changes if change.rate != 1]
    moments = {moment for change, _ in touching for moment in (change.begin_ns, change.end_ns) if moment}

    def at(moment: int) -> Floats:
        now = nominal.copy()
        for change, changed in touching:
            if change.begin_ns <= moment and (change.end_ns is None or moment < change.end_ns):
                now[changed] *= change.rate
        return now

    times = [0, *sorted(moments)]
    changes = [
        CapacityChange(moment, link, float(now[link]))
        for before, moment in pairwise(times)
        for now in [at(moment)]
        for link in np.flatnonzero(now != at(before)).tolist()
    ]
    return at(0), tuple(changes)
