"""The links that a Program's collectives and transfers share, as flows over classes of links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from simcluster.cluster import Cluster, nanoseconds
from simcluster.collectives import AlgorithmChoice, Operation, algorithm_routine
from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication.choices import Choices
from simcluster.engine.communication.fabric import (
    Background,
    CapacityChange,
    Fabric,
    FlowPhase,
    Late,
    Links,
    Transfer,
)
from simcluster.engine.communication.load_vectors import GRAIN, Vectors
from simcluster.number_arrays import offsets
from simcluster.program import (
    TRANSFERS,
    Axes,
    GroupLoads,
    Instruction,
    InstructionKind,
    PhaseKey,
    ProgramLoads,
    RankClasses,
    is_send_stream,
    peer_is_next_stage,
    phase_key,
)


def build_fabrics(parts: Sequence[tuple[ProgramLoads, Choices]]) -> list[Fabric]:
    """The links of a cluster as the classes of several Programs share them, for each Program.

    Their classes must be those of one partition, and the links are one object.
    """
    first: list[dict[Axes, list[int]]] = []
    rows: list[GroupLoads] = []
    count = 0
    for _, choices in parts:
        flows = choices.classes.flows
        first.append({})
        for axes, patterns in (*flows.groups.items(), (TRANSFERS, flows.transfers)):
            first[-1][axes] = []
            for loads in patterns:
                first[-1][axes].append(count)
                rows.append(loads)
                count += len(loads)
    any_of = parts[0][1]
    capacity, changes = _capacities(any_of.cluster, any_of.classes)
    background = list(_background(any_of.cluster, any_of.classes))
    links = Links(
        capacity,
        _vectors([*rows, *(loads for loads, _ in background)]),
        changes,
        tuple(Background(count + place, *rate) for place, (_, rate) in enumerate(background)),
    )
    return [
        Fabric(links, _Wired(choices, loaded.patterns, links.vectors, begins).transfer)
        for (loaded, choices), begins in zip(parts, first, strict=True)
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


def _vectors(parts: Sequence[GroupLoads]) -> Vectors:
    none = np.zeros(0, dtype=np.int64)
    lengths, links, rows = (
        np.concatenate([none, *columns])
        for columns in (
            [np.diff(loads.offsets) for loads in parts],
            [loads.links for loads in parts],
            [loads.loads for loads in parts],
        )
    )
    return Vectors(offsets(lengths), links, rows * GRAIN)


def _capacities(cluster: Cluster, classes: RankClasses) -> tuple[np.ndarray, tuple[CapacityChange, ...]]:
    """Bytes/s of a link of each class as the run begins, and what changes later."""
    links = classes.flows.links.first
    nominal = cluster.topology.rates(links)
    touching = [(change, np.isin(links, change.links)) for change in cluster.link_changes if change.rate != 1]
    moments = {change.begin_ns for change, _ in touching} | {
        change.end_ns for change, _ in touching if change.end_ns is not None
    }

    def at(moment: int) -> np.ndarray:
        now = nominal.copy()
        for change, changed in touching:
            if change.begin_ns <= moment and (change.end_ns is None or moment < change.end_ns):
                now[changed] *= change.rate
        return now

    times = [0, *sorted(moments - {0})]
    changes = [
        CapacityChange(moment, link, float(now[link]))
        for before, moment in pairwise(times)
        for now in [at(moment)]
        for link in np.flatnonzero(now != at(before)).tolist()
    ]
    return at(0), tuple(changes)


def _background(
    cluster: Cluster, classes: RankClasses
) -> Iterator[tuple[GroupLoads, tuple[float, int, int | None]]]:
    """What others send: a flow on each class of links that carries it."""
    links = classes.flows.links.first
    for traffic in cluster.background:
        for link in np.flatnonzero(np.isin(links, traffic.links)).tolist():
            ends = np.array([0, 1], dtype=np.int64)
            alone = GroupLoads(
                ends, np.array([link], dtype=np.int64), np.array([round(1 / GRAIN)], dtype=np.int64)
            )
            yield alone, (traffic.rate, traffic.begin_ns, traffic.end_ns)
